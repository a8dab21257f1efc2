//! Controller killed with signal 9 in the middle of runs on a real desktop: the threads say what was done,
//! the computer is adopted, and the thread is continued to the end.

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::desktop::{assert_saved, boot, closes_editor, editor_call, opens_editor, types_line};
use crate::harness::controller::RunningController;
use crate::harness::models::Turn;

/// Longest wait for a program or a request on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Distinguishes one boot of a computer, and one editor, from the next: start time of its first process, its
/// process namespace, and the editor's process.
const IDENTITY: &str = "cut -d' ' -f22 /proc/1/stat; readlink /proc/1/ns/pid; pgrep -f '[T] poem'";
/// A command that has begun when its file is there, and that no test waits for.
const BLOCKING: &str = "touch /root/begun; sleep 100";

/// Starts a streamed run, continues `thread` if there is one, and returns the open response with the thread.
async fn start(
    controller: &RunningController,
    computer: &str,
    text: &str,
    thread: Option<&str>,
) -> (reqwest::Response, String) {
    let mut body = json!({"computer_id": computer, "stream": true,
        "messages": [{"role": "user", "content": text}]});
    if let Some(thread) = thread {
        body["thread_id"] = json!(thread);
    }
    let request = controller.request(Method::POST, "/v1/chat/completions").json(&body);
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let thread = response.headers()["x-thread-id"].to_str().expect("text").to_owned();
    (response, thread)
}

/// The thread after a kill in the middle of its run, and its steps, which must be these calls. Each picture
/// can be fetched.
async fn interrupted(
    controller: &RunningController,
    thread: &str,
    calls: &[(&str, &Value)],
) -> (Value, Vec<Value>) {
    let path = format!("/chat/threads/{thread}");
    let record = controller.get(&path).await.body;
    assert_eq!(
        (&record["run"], &record["step_count"]),
        (&json!("interrupted"), &json!(calls.len())),
        "{record}"
    );
    let page = controller.get(&format!("{path}/steps")).await.body;
    let steps = page["steps"].as_array().expect("steps").clone();
    let done: Vec<(&str, &Value)> = steps
        .iter()
        .map(|step| (step["call"]["name"].as_str().expect("a name"), &step["call"]["input"]))
        .collect();
    assert_eq!(done, calls);
    for link in steps.iter().filter_map(|step| step["screenshot"].as_str()) {
        let picture = controller.client.get(link).send().await.expect("an answer");
        assert_eq!(picture.status(), 200, "{link}");
        assert!(picture.bytes().await.expect("a picture").starts_with(b"\xff\xd8"), "a JPEG at {link}");
    }
    (record, steps)
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_runs_of_a_killed_controller_are_continued_to_the_end_on_the_adopted_computer() {
    let turns = vec![
        opens_editor(),
        types_line("The first line"),
        Turn::call("bash", &json!({"command": BLOCKING, "timeout": 110})),
        // The second run.
        types_line("The second line"),
        Turn::text("I think about it").stalled_after(3),
        // The third run.
        closes_editor(),
        Turn::text("Both lines are saved."),
    ];
    let Some((mut controller, models, computer)) = boot(turns).await else { return };
    let asked = async |count: usize| {
        let asked = wait::until(TIMEOUT, || async { (models.requests().len() >= count).then_some(()) });
        assert!(asked.await.is_some(), "the model got {} requests, not {count}", models.requests().len());
    };
    let created = controller.record(&computer).await;
    let (response, thread) = start(&controller, &computer, "Write two lines.", None).await;
    let begun = wait::until(TIMEOUT, || async {
        let found = controller.bash(&computer, "ls /root/begun 2>/dev/null; true").await;
        (found == "/root/begun\n").then_some(())
    });
    assert!(begun.await.is_some(), "the run must reach its third turn");
    let identity = controller.bash(&computer, IDENTITY).await;
    assert_eq!(identity.lines().count(), 3, "an open editor: {identity:?}");

    // While a command is executed.
    controller.kill();
    drop(response);
    controller.start_again().await;
    assert_eq!(controller.bash(&computer, IDENTITY).await, identity, "the computer is adopted");
    let adopted = controller.record(&computer).await;
    for field in ["status", "instance_id", "ip"] {
        assert_eq!(adopted[field], created[field], "{field}");
    }
    let [first, second] =
        ["The first line", "The second line"].map(|text| json!({"action": "type", "text": text}));
    let (opened, enter) = (editor_call(), json!({"action": "key", "text": "Return"}));
    let mut calls = vec![("bash", &opened), ("computer", &first), ("computer", &enter)];
    let (record, steps) = interrupted(&controller, &thread, &calls).await;
    assert_eq!(record["messages"][1]["content"], "I open the editor.", "{record}");
    assert!(steps[0]["result"].as_str().is_some_and(|text| text.contains("[exit code 0]")), "{steps:?}");
    assert!(
        steps[1]["effect"]["window_after"].is_object() && steps[2]["screenshot"].is_string(),
        "{steps:?}"
    );

    // While the model replies.
    let (response, continued) = start(&controller, &computer, "Go on.", Some(&thread)).await;
    assert_eq!(continued, thread);
    asked(5).await;
    let told = models.requests()[3].body["messages"].to_string();
    for part in ["Write two lines.", "The first line", BLOCKING, "There is no result", "Go on."] {
        assert!(told.contains(part), "the model must learn of {part:?}: {told:.4000}");
    }
    controller.kill();
    drop(response);
    controller.start_again().await;
    assert_eq!(controller.bash(&computer, IDENTITY).await, identity, "the computer is adopted again");
    calls.extend([("computer", &second), ("computer", &enter)]);
    interrupted(&controller, &thread, &calls).await;

    let body = json!({"computer_id": computer, "thread_id": thread,
        "messages": [{"role": "user", "content": "Save it."}]});
    let ended = controller.post("/v1/chat/completions", body).await;
    assert_eq!((ended.status, &ended.body["orgo"]["ended"]), (200, &json!("done")), "{}", ended.body);
    let choice = &ended.body["choices"][0];
    assert_eq!(choice["message"]["content"], "Both lines are saved.", "{}", ended.body);
    assert_saved(&controller, &computer, "The first line\nThe second line\n").await;
    let record = controller.get(&format!("/chat/threads/{thread}")).await.body;
    assert_eq!((&record["run"], &record["step_count"]), (&json!("done"), &json!(6)), "{record}");
}
