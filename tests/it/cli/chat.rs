//! `hotdesk chat` with scripted models.

use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::person::Shell;
use crate::chat::scene::{Scene, click, command};
use crate::harness::models::Turn;
use crate::harness::process::OwnedChild;

const TIMEOUT: Duration = Duration::from_secs(60);

fn shell(scene: &Scene) -> Shell {
    Shell::with_key(&scene.controller.base, scene.controller.key())
}

/// The id of the thread in the command that continues it.
fn thread(told: &str) -> &str {
    let (_, rest) = told.split_once("--thread ").unwrap_or_else(|| panic!("no thread in {told}"));
    rest.split_whitespace().next().expect("an id")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_printed_with_its_steps_and_its_thread_is_continued() {
    let turns = vec![
        Turn::text("I click.")
            .then_call("computer", &json!({"action": "left_click", "coordinate": [10, 20]})),
        command("ls -l"),
        Turn::text("It is \u{1b}[2Jdone."),
        Turn::text("Again."),
        command("pwd"),
        Turn::text("Quiet."),
        Turn::text("Lines."),
    ];
    let scene = Scene::new(turns).await;
    let shell = shell(&scene);
    let first = shell.run(&["chat", "desk", "click it"]).await;
    assert_eq!(first.code, 0, "{first:?}");
    assert!(first.out.starts_with("I click.") && first.out.ends_with("It is [2Jdone.\n"), "{first:?}");
    for step in ["] computer left_click coordinate=[10,20]\n", "] bash ls -l\n", "Ended: done, steps: 2, "] {
        assert!(first.err.contains(step), "{step}: {first:?}");
    }
    let id = thread(&first.err).to_owned();
    assert!(first.err.contains(&format!("hotdesk chat desk --thread {id} TEXT")), "{first:?}");

    let again = shell.run_with_input(&["chat", "desk", "--thread", &id, "-"], "and again").await;
    assert_eq!((again.code, &*again.out), (0, "Again.\n"), "{again:?}");
    assert!(!again.err.contains("] bash"), "steps of an earlier run must not be printed: {again:?}");
    assert_eq!(thread(&again.err), id);
    assert!(Value::from(scene.last_messages()).to_string().contains("and again"));

    let quiet = shell.run(&["chat", "desk", "--quiet", "--model", "scripted", "x"]).await;
    assert_eq!((quiet.code, &*quiet.out), (0, "Quiet.\n"), "{quiet:?}");
    assert!(!quiet.err.contains("] bash"), "{quiet:?}");
    let lines = shell.run(&["chat", "desk", "--json", "x"]).await.expect_success();
    let chunks: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"), "{lines}");
    assert_eq!(chunks.iter().filter(|chunk| chunk["orgo"]["ended"] == "done").count(), 1, "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_executed_once_it_is_approved() {
    let scene = Scene::new(vec![command("rm x"), Turn::text("It is done.")]).await;
    let shell = shell(&scene);
    let waiting = shell.run(&["chat", "desk", "--confirm", "bash", "go"]).await;
    assert_eq!(waiting.code, 1, "{waiting:?}");
    assert!(scene.agent.commands().is_empty());
    let id = thread(&waiting.err);
    let approve = format!("To confirm bash rm x: hotdesk chat desk --thread {id} --approve\n");
    assert!(waiting.err.contains(&approve), "{waiting:?}");
    let approved = shell.run(&["chat", "desk", "--thread", id, "--approve"]).await;
    assert_eq!((approved.code, &*approved.out), (0, "It is done.\n"), "{approved:?}");
    assert_eq!(scene.agent.commands().len(), 1);
    let refused = shell.run(&["chat", "desk", "--thread", id, "--approve"]).await;
    refused.expect_failure(1, &["no_pending_call", "request"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_run_says_why_and_wrong_usage_asks_nobody() {
    let scene = Scene::new(vec![click(), Turn::refused(400)]).await;
    let shell = shell(&scene);
    shell
        .run(&["chat", "desk", "--model", "nothing", "x"])
        .await
        .expect_failure(1, &["invalid_model", "request"]);
    shell.run(&["chat", "nobody", "x"]).await.expect_failure(1, &["there is no computer \"nobody\""]);
    shell.run(&["chat", "desk"]).await.expect_failure(2, &["MESSAGE"]);
    shell.run(&["chat", "desk", "--approve"]).await.expect_failure(2, &["--thread"]);
    assert!(scene.models.requests().is_empty());
    // The second turn fails, after a step.
    let failed = shell.run(&["chat", "desk", "x"]).await;
    assert_eq!(failed.code, 1, "{failed:?}");
    for told in ["hotdesk: the run failed: ", "To continue: hotdesk chat desk --thread thr_"] {
        assert!(failed.err.contains(told), "{told}: {failed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_run_and_names_its_thread() {
    let scene = Scene::new(vec![Turn::silent()]).await;
    let home = tempfile::tempdir().expect("a home folder");
    let mut chat = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    chat.args(["chat", "desk", "--json", "wait"]).env_clear().env("HOME", home.path());
    chat.env("HOTDESK_URL", &scene.controller.base).env("HOTDESK_API_KEY", scene.controller.key());
    chat.stdin(Stdio::null()).stderr(Stdio::piped());
    // The first chunk has the role; the model says nothing after it.
    let begun = |line: &str| line.contains("assistant").then_some(());
    let (mut child, ()) = OwnedChild::spawn_until_ready(&mut chat, TIMEOUT, begun).await;
    kill(Pid::from_raw(child.0.id().cast_signed()), Signal::SIGINT).expect("a child");
    let ended = wait::until(TIMEOUT, || std::future::ready(child.0.try_wait().expect("a child"))).await;
    assert_eq!(ended.expect("the command must end").code(), Some(130));
    let mut told = String::new();
    let mut errors = child.0.stderr.take().expect("piped");
    std::io::Read::read_to_string(&mut errors, &mut told).expect("text");
    assert!(told.starts_with("hotdesk: ") && told.contains("hotdesk chat desk --thread thr_"), "{told}");
    scene.until_run(thread(&told), "cancelled").await;
}
