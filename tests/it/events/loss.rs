//! Who loses what in a flood? Nobody who reads; of those who do not, only whoever asked for the type that floods.

use std::fs::{self, File};

use hotdesk::agent::events::{self, Sources};
use hotdesk::wire::event::{Data, Event, FileAction};
use serde_json::{Value, json};

use super::hub::{connect, house_with};
use super::source::{Source, Talk, subscribe};
use crate::harness::controller::RunningController;
use crate::harness::socket::Client;

fn created(path: String) -> Event {
    Event::now(Data::FileChange { path, action: FileAction::Created, real_path: None })
}

/// All clients share one socket to the agent, and more is published at once than it has places.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_type_is_lost_and_counted_for_that_type_s_clients_alone() {
    const TITLES: u64 = 60;
    const FILES: u64 = 200;
    let source = Source::new();
    let (house, _, path) = house_with(source.router()).await;
    let (mut titles, mut files, mut clipboard) =
        (connect(&house, &path).await, connect(&house, &path).await, connect(&house, &path).await);
    subscribe(&mut titles, "subscribe", &["title_change"]).await;
    subscribe(&mut files, "subscribe", &["file_change"]).await;
    subscribe(&mut clipboard, "subscribe", &["clipboard"]).await;
    for title in 1..=TITLES {
        for file in 0..FILES {
            source.feed.publish(created(format!("{title}/{file}")));
        }
        source.feed.publish(Event::now(Data::title_change("0x1", title.to_string(), "default")));
    }
    source.feed.publish(created("last".into()));
    source.feed.publish(Event::now(Data::clipboard("copied", "default")));

    for title in 1..=TITLES {
        let told = titles.told().await;
        assert_eq!(
            (&told["event"]["data"]["title"], &told["dropped"]),
            (&json!(title.to_string()), &Value::Null)
        );
    }
    let told = clipboard.told().await;
    assert_eq!((&told["event"]["data"]["content"], &told["dropped"]), (&json!("copied"), &Value::Null));
    let (mut came, mut dropped, mut last) = (0, 0, false);
    while !last {
        let told = files.told().await;
        came += 1;
        dropped = told["dropped"].as_u64().unwrap_or_default();
        last = told["event"]["data"]["path"] == "last";
    }
    assert!(dropped > 0, "the flood was none");
    assert_eq!(came + dropped, TITLES * FILES + 1, "{came} came");
}

/// More than any queue on the way holds, as one command makes and removes them.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_hears_of_a_thousand_files_at_once() {
    const FILES: usize = 1000;
    let home = tempfile::tempdir().expect("a folder");
    let desktop = home.path().join("Desktop");
    fs::create_dir(&desktop).expect("a folder");
    let source = Source::new();
    let (home, session_dir) = (home.path().to_owned(), home.path().join("session"));
    events::watch(Sources { feed: source.feed.clone(), displays: None, home, session_dir }, &source.tasks);
    let (house, _, path) = house_with(source.router()).await;
    let mut client = connect(&house, &path).await;
    subscribe(&mut client, "subscribe", &["file_change"]).await;
    let names = (0..FILES).map(move |number| desktop.join(number.to_string()));
    let making = tokio::task::spawn_blocking(move || {
        names.clone().for_each(|name| drop(File::create(name).expect("a file")));
        names.for_each(|name| fs::remove_file(name).expect("removed"));
    });
    let (mut made, mut removed) = (0, 0);
    while made + removed < 2 * FILES {
        let told = client.told().await;
        assert_eq!(told["dropped"], Value::Null, "after {made} made and {removed} removed");
        match told["event"]["data"]["action"].as_str() {
            Some("created") => made += 1,
            Some("deleted") => removed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made, removed), (FILES, FILES));
    making.await.expect("made and removed");
}

/// In a real computer: titles change while thousands of files come and go. A title that another one takes the place of
/// before anybody could look is none that was dropped.
#[tokio::test(flavor = "multi_thread")]
async fn no_title_is_dropped_while_thousands_of_files_come_and_go() {
    const TITLES: u32 = 60;
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let (mut titles, mut files) = (connected(&house, &id).await, connected(&house, &id).await);
    subscribe(&mut titles, "subscribe", &["title_change"]).await;
    subscribe(&mut files, "subscribe", &["file_change"]).await;
    let script = format!(
        r"until [ -e /tmp/go ]; do sleep 0.01; done
        for i in $(seq {TITLES}); do printf '\033]0;title %d\007' $i; sleep 0.05; done; sleep 1000"
    );
    let argv = ["xterm", "-T", "still", "-e", "bash", "-c", &script];
    let launched = house.act(&id, "launch", json!({"argv": argv, "wait_seconds": 10})).await;
    assert_eq!(launched.status, 200, "{}", launched.body);
    let flood = "touch /tmp/go; cd ~/Desktop; for i in $(seq 12000); do : > f$i; done; rm f*; touch last";
    let counting = async {
        let (mut came, mut dropped) = (0, 0);
        loop {
            let told = files.told().await;
            came += 1;
            dropped = told["dropped"].as_u64().unwrap_or(dropped);
            if told["event"]["data"]["path"].as_str().is_some_and(|path| path.ends_with("/last")) {
                return (came, dropped);
            }
        }
    };
    let hearing = async {
        let mut heard = Vec::new();
        let end = format!("title {TITLES}");
        loop {
            let told = titles.told().await;
            assert_eq!(told["dropped"], Value::Null, "{told}");
            let title = told["event"]["data"]["title"].as_str().expect("a title").to_owned();
            heard.push(title.clone());
            if title == end {
                return heard;
            }
        }
    };
    let (_, (came, dropped), heard) = tokio::join!(house.bash(&id, flood), counting, hearing);
    println!("{came} file events came, {dropped} were dropped; {} titles", heard.len());
}

async fn connected(house: &RunningController, id: &str) -> Client {
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    Client::open(house.address(), &path, &[]).await.expect("accepted")
}
