//! Isolation of four screens that four clients drive at once.
//!
//! Runs some seconds in `make test` and a minute with `HOTDESK_PROOF=full` (`make bench`).
//! `benches/concurrency.py` compares the throughput with that of one screen.

use std::time::{Duration, Instant};

use serde_json::json;

use super::counter::{Counter, Counts};
use super::fixture::DisplayFixture;
use super::served::{Client, DisplayServer};
use crate::harness::sampling::sampled;

/// Each screen's key in the evdev keymap.
const KEYS: [(&str, u8); 4] = [("a", 38), ("s", 39), ("d", 40), ("f", 41)];

fn row(number: usize) -> i16 {
    20 + 40 * number as i16
}

/// Clicks, scrolls, types and presses keys on one screen, in requests and lists, until a time. Returns the
/// number of rounds.
async fn drive(client: &Client, screen: &str, number: usize, until: Instant) -> u32 {
    let (key, y) = (KEYS[number].0, row(number));
    let path = |action: &str| format!("/{action}?screen={screen}");
    let mut rounds = 0;
    while Instant::now() < until {
        client.ok(&path("click"), json!({"x": 10, "y": y})).await;
        client.ok(&path("scroll"), json!({"direction": "down", "amount": 2, "x": 10, "y": y})).await;
        client.ok(&path("key"), json!({ "key": key })).await;
        client.ok(&path("type"), json!({"text": key.repeat(3)})).await;
        let list = json!([
            {"action": "click", "x": 30, "y": y, "button": "right"},
            {"action": "key", "key": key},
        ]);
        client.ok(&path("actions"), list).await;
        rounds += 1;
    }
    rounds
}

#[tokio::test(flavor = "multi_thread")]
async fn four_clients_on_four_screens_never_meet() {
    let server = DisplayServer::start(DisplayFixture::bare(400, 300).await).await;
    let first = server.client();
    let mut screens = vec![(String::from("default"), server.fixture.display())];
    for _ in 0..3 {
        screens.push(first.new_screen().await);
    }
    let mut counters: Vec<Counter> = screens.iter().map(|(_, display)| Counter::open(display)).collect();
    let duration = Duration::from_secs(sampled(4, 60));

    drive(&first, &screens[0].0, 0, Instant::now() + duration / 4).await;
    counters[0].take();
    counters[0].rows.clear();
    for counter in &mut counters[1..] {
        assert_eq!(counter.take(), (Counts::default(), Counts::default()));
    }

    let clients: Vec<Client> = screens.iter().map(|_| server.client()).collect();
    let until = Instant::now() + duration;
    let drivers = screens.iter().zip(&clients).enumerate();
    let drivers = drivers.map(|(number, ((screen, _), client))| drive(client, screen, number, until));
    let sent = futures_util::future::join_all(drivers).await;
    for (number, counter) in counters.iter_mut().enumerate() {
        let rounds = sent[number];
        println!("{}: {rounds} rounds", screens[number].0);
        assert!(rounds > 0);
        let (buttons, keys) = counter.take();
        assert_eq!(
            buttons,
            Counts::from_pairs([(1, rounds), (3, rounds), (5, 2 * rounds)]),
            "{:?}",
            screens[number]
        );
        assert_eq!(keys, Counts::from_pairs([(KEYS[number].1, 5 * rounds)]), "{:?}", screens[number]);
        assert_eq!(counter.rows, [(row(number), 4 * rounds)].into(), "{:?}", screens[number]);
        assert!(!counter.any_pressed());
    }
    server.close().await;
}
