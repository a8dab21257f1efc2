//! Commands for what runs in a computer, against real controllers and computers.

use serde_json::{Value, json};

use super::copy::relay::{Fault, Relay};
use super::person::Shell;
use super::{ID, one_computer};
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

/// A controller with the computer `one` in the workspace `demo`, and a shell that knows its key.
async fn a_computer() -> Option<(RunningController, String, Shell)> {
    let (controller, _, id) = RunningController::with_a_computer().await?;
    let shell = Shell::with_key(controller.base(), controller.key());
    Some((controller, id, shell))
}

/// Waits for a window with this text in its title. A program that hands a file to a running one ends before it.
async fn until_a_window_has(shell: &Shell, title: &str) {
    let look = format!("until hotdesk windows list one | grep '{title}'; do sleep 0.2; done");
    shell.run_in_bash(&look).await.expect_success();
}

#[tokio::test(flavor = "multi_thread")]
async fn screens_windows_and_programs_are_managed() {
    let Some((_controller, _, shell)) = a_computer().await else { return };
    let listed = shell.run(&["screens", "list", "one"]).await.expect_success();
    assert!(listed.contains("default") && listed.contains("1280x720") && listed.contains("boot screen"));
    let made = shell.run(&["screens", "create", "one", "800x600"]).await.expect_success();
    assert_eq!(made, "screen-100 has 800x600 pixels.\n");
    let resized = shell.run(&["screens", "resize", "one", "screen-100", "1024x768"]).await.expect_success();
    assert_eq!(resized, "screen-100 has 1024x768 pixels.\n");
    let listed = shell.run(&["screens", "ls", "one", "--json"]).await.json();
    assert_eq!(listed["screens"][1]["width"], 1024);
    shell.run(&["screens", "create", "one", "8x6"]).await.expect_failure(1, &["request"]);
    shell.run(&["screens", "create", "one", "big"]).await.expect_failure(2, &["1280x720"]);

    let here = ["--screen", "screen-100"];
    let program = ["xterm", "-T", "hello window", "-e", "sleep", "1000"];
    let launch = [&["launch", "one"][..], &here, &program].concat();
    let started = shell.run(&launch).await.expect_success();
    assert!(started.contains("opened window 0x"), "{started}");
    let list = [&["windows", "list", "one"][..], &here].concat();
    let listed = shell.run(&list).await.expect_success();
    let line = listed.lines().find(|line| line.contains("hello window")).expect("the window is listed");
    assert!(line.starts_with("0x") && line.contains("XTerm"), "{listed}");
    let on = |words: &[&'static str]| [&["windows"], words, &here[..]].concat();
    let focused = shell.run(&on(&["focus", "one", "HELLO"])).await.expect_success();
    assert!(focused.contains("focused"), "{focused}");
    let maximized = shell.run(&on(&["maximize", "one", "xterm"])).await.expect_success();
    assert!(maximized.contains("maximized"), "{maximized}");
    let restored = shell.run(&on(&["restore", "one", "xterm"])).await.expect_success();
    assert!(!restored.contains("maximized"), "{restored}");
    let moved = shell.run(&on(&["move", "one", "xterm", "--x", "40", "--y", "60"])).await.expect_success();
    assert!(moved.contains("+40+60"), "{moved}");
    let minimized = shell.run(&on(&["minimize", "one", "xterm", "--json"])).await.json();
    assert_eq!(minimized["minimized"], true);
    shell.run(&on(&["move", "one", "xterm"])).await.expect_failure(2, &["--width"]);
    shell
        .run(&on(&["focus", "one", "nothing"]))
        .await
        .expect_failure(1, &["there is no window", "windows list"]);
    let closed = shell.run(&on(&["close", "one", "hello window"])).await.expect_success();
    assert!(closed.starts_with("Closed 0x"), "{closed}");
    let deleted = shell.run(&["screens", "delete", "one", "screen-100"]).await.expect_success();
    assert_eq!(deleted, "Deleted screen-100.\n");

    // The small image has a default program for folders only.
    shell.run(&["bash", "one", "mkdir 'my papers'"]).await.expect_success();
    shell.run(&["launch", "one", "--file", "my papers"]).await.expect_success();
    until_a_window_has(&shell, "my papers").await;
    let ended = shell.run(&["launch", "one", "exit 3"]).await;
    ended.expect_failure(1, &["exit code 3"]);
    shell.run(&["launch", "one", "--file", "nothing"]).await.expect_failure(1, &["exit code 1"]);
    shell.run(&["launch", "one"]).await.expect_failure(2, &["PROGRAM"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clipboard_carries_text_and_images_exactly() {
    let Some((_controller, _, shell)) = a_computer().await else { return };
    shell.run(&["clipboard", "get", "one"]).await.expect_failure(1, &["neither text nor image"]);
    let text = "Grüße, 二\n\tend without a line end";
    let set = shell.run_with_input(&["clipboard", "set", "one", "-"], text).await.expect_success();
    assert_eq!(set, format!("The clipboard has {} characters.\n", text.chars().count()));
    assert_eq!(shell.run(&["clipboard", "get", "one"]).await.expect_success(), text);
    assert_eq!(shell.run(&["clipboard", "get", "one", "--json"]).await.json()["text"], text);
    shell.run(&["clipboard", "set", "one", "--", "--json"]).await.expect_success();
    assert_eq!(shell.run(&["clipboard", "get", "one", "-o", "-"]).await.expect_success(), "--json");
    shell.run(&["clipboard", "set", "one", "--primary", "selected"]).await.expect_success();
    assert_eq!(shell.run(&["clipboard", "get", "one", "--primary"]).await.expect_success(), "selected");

    shell.run(&["screenshot", "one", "--scale", "0.1", "-o", "shot.png"]).await.expect_success();
    shell.run(&["clipboard", "set", "one", "--image", "shot.png"]).await.expect_success();
    shell.run(&["clipboard", "get", "one", "-o", "back.png"]).await.expect_success();
    let file = |name: &str| std::fs::read(shell.file(name)).expect("a file");
    assert_eq!(file("shot.png"), file("back.png"));
    shell.run(&["clipboard", "set", "one"]).await.expect_failure(2, &["TEXT"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn background_processes_are_started_read_and_ended() {
    let Some((_controller, _, shell)) = a_computer().await else { return };
    assert_eq!(
        shell.run(&["ps", "list", "one"]).await.expect_success(),
        "There are no background processes.\n"
    );
    assert_eq!(shell.run(&["ps", "one"]).await.expect_success(), "There are no background processes.\n");
    // The follower reads both lines, although the second is written after it began.
    let count = "echo first; until test -e go; do sleep 0.1; done; echo second; exit 4";
    shell.run(&["ps", "start", "one", "--name", "counter", count]).await.expect_success();
    let follow = "hotdesk logs one counter --follow >followed & \
                  until grep first followed; do sleep 0.1; done; hotdesk bash one touch go; wait; cat followed";
    let followed = shell.run_in_bash(follow).await.expect_success();
    assert!(followed.ends_with("first\nsecond\n"), "{followed}");
    assert_eq!(shell.run(&["logs", "one", "counter"]).await.expect_success(), "first\nsecond\n");
    assert_eq!(shell.run(&["logs", "one", "counter", "-n", "1"]).await.expect_success(), "second\n");
    assert_eq!(shell.run(&["logs", "one", "counter", "-n", "1", "-f"]).await.expect_success(), "second\n");

    shell.run(&["ps", "start", "one", "--name", "sleeper", "sleep", "1000"]).await.expect_success();
    let killed = shell.run(&["ps", "kill", "one", "Sleeper"]).await.expect_success();
    assert!(killed.starts_with("Sent TERM to "), "{killed}");
    let ended = "until hotdesk ps list one | grep 'killed TERM'; do sleep 0.1; done";
    shell.run_in_bash(ended).await.expect_success();
    let listed = shell.run(&["ps", "list", "one"]).await.expect_success();
    assert!(listed.lines().any(|line| line.starts_with("counter") && line.contains("exited 4")), "{listed}");
    shell.run(&["ps", "kill", "one", "sleeper"]).await.expect_failure(1, &["request"]);
    shell
        .run(&["ps", "kill", "one", "nothing"])
        .await
        .expect_failure(1, &["no background process", "ps list"]);
    shell.run(&["logs", "one", "nothing"]).await.expect_failure(1, &["no background process"]);

    // The agent may write a line in between.
    let last = shell.run(&["logs", "one", "-n", "1"]).await.expect_success();
    let log = shell.run(&["logs", "one"]).await.expect_success();
    assert!(log.contains("agent"), "{log}");
    assert!(last.lines().count() == 1 && log.contains(&last), "{last}");
    // A line that is written later is followed.
    let follow = "hotdesk logs one -n 0 --follow >log & follower=$!; \
                  until grep 'a later line' log; do \
                  hotdesk bash one 'echo a later line >>/var/log/hotdesk/agent.log'; done; kill $follower";
    shell.run_in_bash(follow).await.expect_success();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_listed_and_followed() {
    let Some((_controller, _, shell)) = a_computer().await else { return };
    let types = shell.run(&["events", "one"]).await.expect_success();
    assert!(types.contains("window_open") && types.contains("hotdesk events one --follow"), "{types}");
    assert_eq!(shell.run(&["events", "one", "--json"]).await.json()["event_types"][0], "window_focus");
    // An event before the subscription is not reported: the clipboard is set until the followers have ended.
    // Unlike `idle`, the other type of the first does not happen.
    let follow = "hotdesk events one --follow --type clipboard,download_finished --count 2 >lines & \
                  hotdesk events one -f -t clipboard --count 1 --json >json & \
                  number=0; while [ -n \"$(jobs -r)\" ]; do number=$((number + 1)); \
                  hotdesk clipboard set one \"text $number\" >/dev/null; done; wait; cat lines json";
    let printed = shell.run_in_bash(follow).await.expect_success();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[..2].iter().all(|line| line.contains("Z  clipboard ") && line.contains("content=\"text ")));
    let event: Value = serde_json::from_str(lines[2]).expect("JSON");
    assert_eq!((&event["type"], &event["event"]["type"]), (&json!("event"), &json!("clipboard")));
    let unknown = shell.run(&["events", "one", "-f", "-t", "earthquake"]).await;
    unknown.expect_failure(1, &["earthquake"]);
    // The end of the computer ends the command.
    let stop = "hotdesk events one -f >out & number=0; until [ -s out ]; do number=$((number + 1)); \
                hotdesk clipboard set one \"last $number\" >/dev/null; done; \
                hotdesk computers stop one >/dev/null; wait $!; echo $?";
    let stopped = shell.run_in_bash(stop).await;
    assert!(
        stopped.out.ends_with("1\n") && stopped.err.contains("the server closed the socket"),
        "{stopped:?}"
    );
    shell.run(&["events", "one", "-f"]).await.expect_failure(1, &["hotdesk: "]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_followed_across_a_broken_connection() {
    let Some((controller, _, shell)) = a_computer().await else { return };
    let relay = Relay::start(controller.base(), Some((Fault::Cut, 200_000))).await;
    // An event has 30 KB, so the connection breaks before the last one.
    let follow = format!(
        "hotdesk --url {} events one -f -t clipboard --count 12 >lines & \
         number=0; while [ -n \"$(jobs -r)\" ]; do number=$((number + 1)); \
         printf 'text %d %030000d' $number 0 | hotdesk clipboard set one - >/dev/null; done; wait $!; \
         echo $?; wc -l <lines",
        relay.url
    );
    let ended = shell.run_in_bash(&follow).await;
    assert_eq!(ended.out, "0\n12\n", "{}", ended.err);
    for told in ["connecting again", "connected again; events that happened meanwhile are missing"] {
        assert_eq!(ended.err.matches(told).count(), 1, "{told}: {}", ended.err);
    }
}

#[tokio::test]
async fn a_computer_before_a_subcommand_of_ps_is_wrong_usage() {
    let (server, shell) = one_computer().await;
    let processes = format!("GET /api/computers/{ID}/processes");
    server.respond(&processes, 200, json!({"processes": []}));
    for line in [&["ps", "first light"][..], &["ps", "list", "first light"]] {
        let output = shell.run(line).await.expect_success();
        assert_eq!(output, "There are no background processes.\n", "{line:?}");
    }
    assert_eq!(server.lines().iter().filter(|line| **line == processes).count(), 2);
    shell.run(&["ps"]).await.expect_failure(2, &["COMPUTER"]);
    for line in [&["ps", "first light", "list", "first light"][..], &["ps", "--watch", "list", "first light"]]
    {
        shell.run(line).await.expect_failure(2, &["hotdesk ps list COMPUTER"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_link_opens_the_screen_once() {
    let Some((controller, id, shell)) = a_computer().await else { return };
    let printed = shell.run(&["share", "one"]).await.expect_success();
    let (url, sentence) = printed.split_once('\n').expect("two lines");
    assert!(sentence.starts_with("It opens one once, to view it, until 20"), "{printed}");
    let (page, ticket) = url.split_once("#ticket=").expect("a ticket in the fragment");
    assert!(page.starts_with(controller.base()), "{url}");
    let path = format!("/desktops/{id}/ws/websockify?ticket={ticket}");
    let mut opened = Client::open(controller.address(), &path, &[]).await.expect("accepted");
    assert!(matches!(opened.next().await, SocketEvent::Binary(bytes) if bytes.starts_with(b"RFB ")));
    let again = Client::open(controller.address(), &path, &[]).await.expect("accepted");
    assert_eq!(again.closed().await, 4001);
    let ticket = shell.run(&["share", "one", "--control", "--ttl", "1h", "--json"]).await.json();
    assert_eq!((&ticket["mode"], &ticket["screen"]), (&json!("control"), &json!("default")));
    shell.run(&["share", "one", "--ttl", "2h"]).await.expect_failure(1, &["3600"]);
    shell.run(&["share", "one", "--ttl", "soon"]).await.expect_failure(2, &["15m"]);
    shell.run(&["share", "one", "--screen", "screen-102"]).await.expect_failure(1, &["request"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_opened_and_a_screen_is_recorded() {
    let Some(controller) = RunningController::boot_full().await else { return };
    let workspace = controller.workspace("demo").await;
    controller.computer(&workspace, "one").await;
    let shell = Shell::with_key(controller.base(), controller.key());
    shell.run(&["bash", "one", "echo content > 'a note.txt'"]).await.expect_success();
    shell.run(&["launch", "one", "--file", "a note.txt"]).await.expect_success();
    until_a_window_has(&shell, "a note.txt - Mousepad").await;
    assert_eq!(shell.run(&["record", "list", "one"]).await.expect_success(), "There are no recordings.\n");
    shell
        .run(&["record", "stop", "one"])
        .await
        .expect_failure(1, &["no recording in progress", "hotdesk record start one"]);
    let started = shell.run(&["record", "start", "one", "--fps", "5", "--max", "1m"]).await.expect_success();
    assert!(started.ends_with(" of screen default has started.\n"), "{started}");
    shell.run(&["click", "one", "10", "20"]).await.expect_success();
    let stopped = shell.run(&["record", "stop", "one"]).await.expect_success();
    assert!(stopped.contains(" s ("), "{stopped}");
    let listed = shell.run(&["record", "list", "one", "--json"]).await.json();
    let id = listed["recordings"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(listed["recordings"][0]["fps"], 5);
    shell.run(&["record", "get", "one", "-o", "video.mp4"]).await.expect_success();
    let video = std::fs::read(shell.file("video.mp4")).expect("a video");
    assert_eq!(&video[4..8], b"ftyp");
    shell.run(&["record", "download", "one", &id[..8]]).await.expect_success();
    assert_eq!(std::fs::read(shell.file(&format!("hotdesk-{id}.mp4"))).expect("a video"), video);
    let timeline = ["record", "download", "one", "--timeline", "-o", "-"];
    let timeline = shell.run(&timeline).await.expect_success();
    let entry: Value = serde_json::from_str(timeline.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&entry["action"], &entry["x"]), (&json!("click"), &json!(10)));
    let actions = shell.run(&["timeline", "one", "--by", "key"]).await.expect_success();
    assert!(actions.contains("click at 10,20") && actions.contains("done"), "{actions}");
    shell.run(&["timeline", "one", "--export", "actions.jsonl"]).await.expect_success();
    let exported = std::fs::read_to_string(shell.file("actions.jsonl")).expect("an export");
    let entry: Value = serde_json::from_str(exported.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&entry["action"], &entry["by"]["kind"]), (&json!("click"), &json!("key")));
    shell.run(&["timeline", "one", "--by", "root"]).await.expect_failure(1, &["by must be"]);
    shell.run(&["record", "rm", "one", &id]).await.expect_success();
    shell.run(&["record", "download", "one", &id]).await.expect_failure(1, &["there is no recording"]);
}

#[tokio::test]
async fn a_download_that_fails_leaves_no_file() {
    let (server, shell) = one_computer().await;
    let recording = json!({"id": "abcd-1", "screen": "default", "status": "stopped", "started_at": "t",
        "ended_at": null, "seconds": 1.0, "size_bytes": 5, "width": 2, "height": 2, "fps": 1, "timeline": false});
    let recordings = format!("/api/computers/{ID}/recordings");
    server.respond(&format!("GET {recordings}"), 200, json!({ "recordings": [recording] }));
    let video = format!("GET {recordings}/abcd-1/video");
    server.respond(&video, 503, json!({"error": "Too busy", "request_id": "r"}));
    let download = ["record", "download", "first light", "-o", "kept"];
    std::fs::write(shell.file("kept"), "before").expect("a file");
    shell.run(&download).await.expect_failure(1, &["Too busy"]);
    shell
        .run(&["record", "download", "first light", "-o", "no/folder"])
        .await
        .expect_failure(1, &["Too busy"]);
    assert_eq!(std::fs::read_to_string(shell.file("kept")).expect("a file"), "before");
    server.respond(&video, 200, "video");
    shell
        .run(&["record", "download", "first light", "-o", "no/folder"])
        .await
        .expect_failure(1, &["no/folder"]);
    assert_eq!(shell.run(&download).await.expect_success(), "kept (5 bytes)\n");
    assert_eq!(std::fs::read_to_string(shell.file("kept")).expect("a file"), "video");
    assert_eq!(std::fs::read_dir(shell.home()).expect("a folder").count(), 1);
    shell.run(&["record", "download", "first light", "--json"]).await.expect_failure(2, &["--json"]);
}
