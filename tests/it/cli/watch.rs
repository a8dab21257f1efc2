//! Lists that are watched in a terminal.

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;

use super::stand_in::{StubServer, computer};
use super::{ID, OTHER, one_computer};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the server has had `more` further requests for the list: all but the last are drawn.
async fn until_asked(server: &StubServer, more: usize) {
    let count = || server.lines().iter().filter(|line| line.starts_with("GET /api/computers")).count();
    let before = count();
    let asked = wait::until(TIMEOUT, || std::future::ready((count() >= before + more).then_some(()))).await;
    assert!(asked.is_some(), "{:?}", server.lines());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_list_follows_the_server_until_an_interrupt() {
    let (server, shell) = one_computer().await;
    let line = "stty rows 24; hotdesk ls --watch & until [ -e go ]; do sleep 0.1; done; \
                kill -INT $!; wait $!; echo \"<code $?>\"";
    let change = async {
        until_asked(&server, 2).await;
        server.add_computers(&[computer(ID, "First Light", "demo"), computer(OTHER, "twin", "demo")]);
        until_asked(&server, 2).await;
        server.respond("GET /api/computers", 503, json!({"error": "Too busy", "request_id": "r"}));
        until_asked(&server, 2).await;
        std::fs::write(shell.file("go"), "").expect("a file");
    };
    let (shown, ()) = tokio::join!(shell.run_in_terminal(line, ""), change);
    let (_, screen) = shown.out.split_once("\u{1b}[?1049h").expect("the second screen");
    let (screen, after) = screen.split_once("\u{1b}[?1049l").expect("the first screen again");
    let frames: Vec<&str> = screen.split("\u{1b}[H").skip(1).collect();
    assert!(frames.len() >= 3, "{frames:?}");
    assert!(frames[0].contains("First Light") && !frames[0].contains("twin"), "{}", frames[0]);
    assert!(
        frames.iter().any(|frame| frame.contains("twin") && !frame.contains("cannot refresh")),
        "{frames:?}"
    );
    let last = frames[frames.len() - 1];
    assert!(last.contains("cannot refresh: Too busy (request r)") && last.contains("twin"), "{last}");
    assert!(after.contains("stopped watching") && after.contains("<code 130>"), "{after}");
}

#[tokio::test]
async fn a_list_is_watched_only_on_a_terminal_and_by_people() {
    let (server, shell) = one_computer().await;
    for list in [
        &["ls"][..],
        &["workspaces", "list"],
        &["ps", "first light"],
        &["templates", "list"],
        &["ports", "list", "first light"],
        &["triggers", "runs", "first light", "nightly"],
        &["clients", "list"],
        &["api-keys", "list"],
    ] {
        let watched = [list, &["--watch"]].concat();
        shell.run(&watched).await.expect_failure(2, &["--watch needs a terminal"]);
        shell.run(&[&watched[..], &["--json"]].concat()).await.expect_failure(2, &["--json"]);
    }
    assert_eq!(server.lines(), Vec::<String>::new());
    // A failure of the first request ends the command.
    server.respond("GET /api/computers", 503, json!({"error": "Too busy", "request_id": "r"}));
    let ended = shell.run_in_terminal("hotdesk ls --watch", "").await;
    assert!(ended.code == 1 && ended.out.contains("Too busy") && !ended.out.contains("1049"), "{ended:?}");
}
