//! Loss of events in a flood: readers lose nothing, and others lose only types that they subscribed to.

use std::fs::{self, File};

use hotdesk::agent::events::{self, Sources};
use hotdesk::wire::desktop::event::{Event, EventData, FileAction};
use serde_json::{Value, json};

use super::hub::{boot_with_agent, connect};
use super::source::{EventSource, JsonMessages, subscribe};
use crate::harness::controller::RunningController;
use crate::harness::socket::Client;

fn created(path: String) -> Event {
    Event::now(EventData::FileChange { path, action: FileAction::Created, real_path: None })
}

/// All clients share one socket to the agent, and more events are published at once than its queue holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_type_is_lost_and_counted_for_that_type_s_clients_alone() {
    const TITLES: u64 = 60;
    const FILES: u64 = 200;
    let source = EventSource::new();
    let (controller, _, path) = boot_with_agent(source.router()).await;
    let (mut titles, mut files, mut clipboard) = (
        connect(&controller, &path).await,
        connect(&controller, &path).await,
        connect(&controller, &path).await,
    );
    subscribe(&mut titles, "subscribe", &["title_change"]).await;
    subscribe(&mut files, "subscribe", &["file_change"]).await;
    subscribe(&mut clipboard, "subscribe", &["clipboard"]).await;
    for title in 1..=TITLES {
        for file in 0..FILES {
            source.feed.publish(created(format!("{title}/{file}")));
        }
        source.feed.publish(Event::now(EventData::title_change("0x1", title.to_string(), "default")));
    }
    source.feed.publish(created("last".into()));
    source.feed.publish(Event::now(EventData::clipboard("copied", "default")));

    for title in 1..=TITLES {
        let message = titles.next_json().await;
        assert_eq!(
            (&message["event"]["data"]["title"], &message["dropped"]),
            (&json!(title.to_string()), &Value::Null)
        );
    }
    let message = clipboard.next_json().await;
    assert_eq!((&message["event"]["data"]["content"], &message["dropped"]), (&json!("copied"), &Value::Null));
    let (mut received, mut dropped, mut last) = (0, 0, false);
    while !last {
        let message = files.next_json().await;
        received += 1;
        dropped = message["dropped"].as_u64().unwrap_or_default();
        last = message["event"]["data"]["path"] == "last";
    }
    assert!(dropped > 0, "the flood must exceed the queue");
    assert_eq!(received + dropped, TITLES * FILES + 1, "{received} came");
}

/// One command creates and removes more files than any queue holds.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_hears_of_a_thousand_files_at_once() {
    const FILES: usize = 1000;
    let home = tempfile::tempdir().expect("a folder");
    let desktop = home.path().join("Desktop");
    fs::create_dir(&desktop).expect("a folder");
    let source = EventSource::new();
    let (home, session_dir) = (home.path().to_owned(), home.path().join("session"));
    events::watch(Sources { feed: source.feed.clone(), displays: None, home, session_dir }, &source.tasks);
    let (controller, _, path) = boot_with_agent(source.router()).await;
    let mut client = connect(&controller, &path).await;
    subscribe(&mut client, "subscribe", &["file_change"]).await;
    let names = (0..FILES).map(move |number| desktop.join(number.to_string()));
    let making = tokio::task::spawn_blocking(move || {
        names.clone().for_each(|name| drop(File::create(name).expect("a file")));
        names.for_each(|name| fs::remove_file(name).expect("removed"));
    });
    let (mut made, mut removed) = (0, 0);
    while made + removed < 2 * FILES {
        let message = client.next_json().await;
        assert_eq!(message["dropped"], Value::Null, "after {made} created and {removed} removed");
        match message["event"]["data"]["action"].as_str() {
            Some("created") => made += 1,
            Some("deleted") => removed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made, removed), (FILES, FILES));
    making.await.expect("made and removed");
}

/// In a real computer titles change while thousands of files are created and removed. A title that is
/// replaced before it can be read does not count as dropped.
#[tokio::test(flavor = "multi_thread")]
async fn no_title_is_dropped_while_thousands_of_files_come_and_go() {
    const TITLES: u32 = 60;
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let (mut titles, mut files) =
        (connect_client(&controller, &id).await, connect_client(&controller, &id).await);
    subscribe(&mut titles, "subscribe", &["title_change"]).await;
    subscribe(&mut files, "subscribe", &["file_change"]).await;
    let script = format!(
        r"until [ -e /tmp/go ]; do sleep 0.01; done
        for i in $(seq {TITLES}); do printf '\033]0;title %d\007' $i; sleep 0.05; done; sleep 1000"
    );
    let argv = ["xterm", "-T", "still", "-e", "bash", "-c", &script];
    let launched = controller.act(&id, "launch", json!({"argv": argv, "wait_seconds": 10})).await;
    assert_eq!(launched.status, 200, "{}", launched.body);
    let flood = "touch /tmp/go; cd ~/Desktop; for i in $(seq 12000); do : > f$i; done; rm f*; touch last";
    let counting = async {
        let (mut received, mut dropped) = (0, 0);
        loop {
            let message = files.next_json().await;
            received += 1;
            dropped = message["dropped"].as_u64().unwrap_or(dropped);
            if message["event"]["data"]["path"].as_str().is_some_and(|path| path.ends_with("/last")) {
                return (received, dropped);
            }
        }
    };
    let receiving = async {
        let mut titles_received = Vec::new();
        let end = format!("title {TITLES}");
        loop {
            let message = titles.next_json().await;
            assert_eq!(message["dropped"], Value::Null, "{message}");
            let title = message["event"]["data"]["title"].as_str().expect("a title").to_owned();
            titles_received.push(title.clone());
            if title == end {
                return titles_received;
            }
        }
    };
    let (_, (received, dropped), titles_received) =
        tokio::join!(controller.bash(&id, flood), counting, receiving);
    println!("{received} file events received, {dropped} dropped; {} titles", titles_received.len());
}

async fn connect_client(controller: &RunningController, id: &str) -> Client {
    let answer = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = answer.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    Client::open(controller.address(), &path, &[]).await.expect("accepted")
}
