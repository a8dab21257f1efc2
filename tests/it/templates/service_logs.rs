//! Logs of services that are followed, by HTTP and by command line.

use std::fs;
use std::path::Path;

use hotdesk::base::wait;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::builds::{build, controller, launch};
use super::services::{TIMEOUT, services, status};
use crate::cli::person::Shell;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::host;

/// A service that prints what is written to a FIFO.
const CONTENT: &str = "build: {run: ['mkfifo -m 666 /srv/say']}\n\
    apps: [{name: web, services: [{name: site, user: root, run: 'echo ready; while true; do cat /srv/say; done'}]}]";
/// The file with its output.
const LOG: &str = "/var/log/hotdesk/services/site/current";
/// Lines that exceed the largest log (1 MB) once.
const MANY: usize = 10_000;

/// A log that is followed.
struct LogClient {
    response: Response,
    waiting: String,
}

impl LogClient {
    async fn open(controller: &RunningController, id: &str, query: &str) -> Self {
        let path = format!("/computers/{id}/services/site/log?follow=true{query}");
        let response = controller.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "private, no-store");
        Self { response, waiting: String::new() }
    }

    /// The next line; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((line, rest)) = self.waiting.split_once('\n') {
                let data = line.strip_prefix("data: ").map(str::to_owned);
                self.waiting = rest.to_owned();
                let Some(data) = data else { continue };
                let entry: Value = serde_json::from_str(&data).expect("JSON");
                return Some(entry["line"].as_str().expect("a line").to_owned());
            }
            let chunk =
                tokio::time::timeout(TIMEOUT, self.response.chunk()).await.expect("something in time");
            let chunk = chunk.ok()??;
            self.waiting.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }

    /// Reads lines until one ends with a text, and returns their number.
    async fn until(&mut self, text: &str) -> usize {
        let mut count = 1;
        while !self.next().await.expect("a line").ends_with(text) {
            count += 1;
        }
        count
    }
}

/// A computer whose service runs.
async fn launched(controller: &RunningController) -> String {
    let built = build(controller, "lab@1.0.0", CONTENT).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(controller, &workspace, "one", "lab@1.0.0").await.body);
    services(controller, &id, |list| status(list, "site") == "running").await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_across_its_rotation_until_it_or_the_computer_is_gone() {
    let Some(controller) = controller().await else { return };
    let id = launched(&controller).await;
    let mut all = LogClient::open(&controller, &id, "").await;
    all.until("ready").await;
    let mut new = LogClient::open(&controller, &id, "&bytes=0").await;
    controller.bash(&id, "echo first >/srv/say").await;
    assert_eq!((all.until("first").await, new.until("first").await), (1, 1));

    let many = format!("yes {} | head -n {MANY} >/srv/say; echo last >/srv/say", "x".repeat(99));
    controller.bash(&id, &many).await;
    assert_eq!((all.until("last").await, new.until("last").await), (MANY + 1, MANY + 1), "no line is lost");
    assert_ne!(
        controller.bash(&id, &format!("ls $(dirname {LOG}) | grep -c ^@")).await,
        "0\n",
        "it was rotated"
    );

    controller.bash(&id, &format!("rm {LOG}")).await;
    assert_eq!((all.next().await, new.next().await), (None, None));

    let mut waits = LogClient::open(&controller, &id, "").await;
    let stop = format!("/computers/{id}/stop");
    let (stopped, end) = tokio::join!(controller.post(&stop, json!({})), waits.next());
    assert_eq!((stopped.status, end), (200, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_are_bounded_and_their_requests_are_checked() {
    let Some(controller) = controller().await else { return };
    let id = launched(&controller).await;
    let path = format!("/computers/{id}/services");
    for (request, expected) in [
        ("site/log?follow=true&bytes=1048577", 400),
        ("site/log?follow=maybe", 400),
        ("site/log?follow=false&bytes=0", 400),
        ("none/log?follow=true", 404),
    ] {
        let refused = controller.get(&format!("{path}/{request}")).await;
        assert_eq!(refused.status, expected, "{request}: {}", refused.body);
    }
    let mut open = Vec::new();
    for _ in 0..16 {
        open.push(LogClient::open(&controller, &id, "&bytes=0").await);
    }
    let one_more =
        async || controller.request(Method::GET, &format!("{path}/site/log?follow=true")).send().await;
    let refused = one_more().await.expect("an answer");
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()), (503, &b"1"[..]));
    let body: Value = refused.json().await.expect("JSON");
    assert_eq!(body["code"], "too_many_followers", "{body}");
    assert_eq!(controller.get(&format!("{path}/site/log")).await.status, 200, "reading needs no permit");
    // A client that leaves makes room.
    open.pop();
    let room =
        wait::until(TIMEOUT, || async { one_more().await.ok().filter(|response| response.status() == 200) });
    assert!(room.await.is_some());
    drop(open);
}

/// Whether a process of a computer has the log open. A follower has, and the agent while it adds lines.
fn is_followed(id: &str) -> bool {
    let log = Path::new(LOG.trim_start_matches('/'));
    let open = host::processes(id).into_iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")));
    open.flatten().flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.ends_with(log)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_what_is_written_until_the_log_ends() {
    let Some(controller) = controller().await else { return };
    let id = launched(&controller).await;
    // A service runs before it prints.
    let log = format!("/computers/{id}/services/site/log");
    let ready = wait::until(TIMEOUT, || async {
        controller.get(&log).await.body["text"].as_str()?.contains("ready\n").then_some(())
    });
    ready.await.expect("the service is ready");
    let shell = Shell::with_key(controller.base(), controller.key());
    let write = async {
        let follows = wait::until(TIMEOUT, || async { is_followed(&id).then_some(()) });
        follows.await.expect("the command follows the log");
        let later = format!("echo later >/srv/say; until grep -q later {LOG}; do sleep 0.1; done; rm {LOG}");
        controller.bash(&id, &later).await;
    };
    let follow = ["services", "log", "one", "site", "--follow", "--bytes", "0"];
    let (followed, ()) = tokio::join!(shell.run(&follow), write);
    assert!(followed.err.contains("The log has ended"), "{followed:?}");
    let printed = followed.expect_success();
    assert!(printed.ends_with("later\n") && !printed.contains("ready"), "{printed}");
}
