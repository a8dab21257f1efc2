//! What do the tests of engines do with a desktop? They use it as a person does, and have it sleep and wake.

use std::time::{Duration, Instant, SystemTime};

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::controller::RunningController;
use crate::harness::picture;

/// By when a program must have started and read what was typed: system calls are slow, or processors emulated.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// A terminal window whose program writes down what it reads, and a counter without a window.
pub const PROGRAMS: &str = "cat >/root/read.sh <<'END'\n\
    touch /root/reads\n\
    while read line; do echo $line >>/root/typed; done\n\
    END\n\
    DISPLAY=:99 setsid xterm -geometry 80x20+100+80 -e bash /root/read.sh >/dev/null 2>&1 &\n\
    setsid bash -c 'while :; do echo $((++i)) >/root/count; sleep 0.1; done' >/dev/null 2>&1 &";

/// Waits for the terminal window and for the program in it.
pub async fn reads(house: &RunningController, id: &str) {
    let there = wait::until(TIMEOUT, || async {
        let windows = house.get(&format!("/computers/{id}/windows")).await.body;
        let reads = house.bash(id, "ls /root/reads 2>/dev/null || true").await;
        (windows.to_string().contains("\"XTerm\"") && !reads.trim().is_empty()).then_some(())
    });
    assert!(there.await.is_some(), "a window");
}

/// Clicks into the terminal window until it has the keyboard, types a line, and waits until all of these have been read there.
pub async fn types(house: &RunningController, id: &str, line: &str, all: &str) {
    let focused = wait::until(TIMEOUT, || async {
        let clicked = house.act(id, "click", json!({"x": 300, "y": 200})).await;
        assert_eq!(clicked.status, 200, "{}", clicked.body);
        let windows = house.get(&format!("/computers/{id}/windows")).await.body;
        let all = windows["windows"].as_array().expect("windows");
        all.iter().any(|window| window["class"] == "XTerm" && window["focused"] == true).then_some(())
    });
    assert!(focused.await.is_some(), "the window has the keyboard");
    let typed = house.act(id, "type", json!({"text": format!("{line}\n")})).await;
    assert_eq!(typed.status, 200, "{}", typed.body);
    let read = wait::until(TIMEOUT, || async {
        (house.bash(id, "cat /root/typed 2>/dev/null || true").await.trim() == all).then_some(())
    });
    assert!(read.await.is_some(), "what was typed arrived");
}

pub async fn shows_a_screen(house: &RunningController, id: &str) {
    let path = format!("/computers/{id}/screenshot?response_format=binary");
    let shot = house.request(reqwest::Method::GET, &path).send().await.expect("an answer");
    assert_eq!(shot.status(), 200);
    assert_eq!(picture::size(&shot.bytes().await.expect("a picture")), (1280, 720));
}

/// By how many seconds the computer's clock differs from this machine's, as far as asking for it tells.
pub async fn clock_is_off(house: &RunningController, id: &str) -> f64 {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let before = now();
    let there: f64 = house.bash(id, "date +%s.%N").await.trim().parse().expect("a time");
    (before - there).max(there - now()).max(0.0)
}

/// What the counter wrote last; the file is empty for a moment at each count.
pub async fn count(house: &RunningController, id: &str) -> u64 {
    let told =
        wait::until(TIMEOUT, || async { house.bash(id, "cat /root/count").await.trim().parse().ok() });
    told.await.expect("it counts")
}

/// Waits until the counter has counted on.
pub async fn counts_on(house: &RunningController, id: &str) -> u64 {
    let before = count(house, id).await;
    let later = wait::until(TIMEOUT, || async {
        let now = count(house, id).await;
        (now > before).then_some(now)
    });
    later.await.expect("it counts on")
}

async fn password(house: &RunningController, id: &str) -> Value {
    house.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone()
}

/// Has a desktop with its programs sleep and wake, so many times: all of it goes on, under new secrets. Before the second
/// waking its controller is killed, and for the third it is woken by being used.
pub async fn sleeps_and_wakes(house: &mut RunningController, id: &str, rounds: usize) {
    types(house, id, "before", "before").await;
    let mut before = password(house, id).await;
    for round in 0..rounds {
        let began = Instant::now();
        let slept = house.act(id, "suspend", json!({})).await;
        assert_eq!((slept.status, &slept.body["status"]), (200, &json!("suspended")), "{}", slept.body);
        let suspended = began.elapsed();
        let bytes: u64 = std::fs::read_dir(house.machine(id).join("memory"))
            .expect("memory")
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
            .sum();
        if round == 1 {
            // A sleeping computer needs no controller.
            house.kill();
            house.start_again().await;
            assert_eq!(house.get(&format!("/computers/{id}/suspension")).await.body["status"], "suspended");
        }
        if round < 2 {
            let began = Instant::now();
            let resumed = house.act(id, "resume", json!({})).await;
            assert_eq!(resumed.status, 200, "{}", resumed.body);
            println!("suspended in {suspended:?}, {bytes} bytes, resumed in {:?}", began.elapsed());
        }
        let counted = count(house, id).await;
        let off = clock_is_off(house, id).await;
        assert!(off < 0.5, "its clock is off by {off} s");
        types(house, id, "after", &format!("before{}", "\nafter".repeat(round + 1))).await;
        assert_ne!(count(house, id).await, counted, "the counter goes on");
        shows_a_screen(house, id).await;
        let now = password(house, id).await;
        assert_ne!(now, before, "its secrets are new");
        before = now;
    }
}
