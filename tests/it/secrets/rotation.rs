//! `hotdesk secrets rotate`, and death at each of its steps and at each step of the sealing of an older database. D14
//! (docs/security.md).

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use hotdesk::store::Store;

use super::older::OlderStore;
use crate::harness::process::gone;
use crate::harness::program::program;
use crate::harness::syscall_trace::{Trace, TracedProcess};

fn command(folder: &Path, words: &[&str]) -> Command {
    // The shell waits for a line, so that a tracer can attach before the program begins.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "read _ && exec \"$0\" \"$@\"", program()]).args(words).arg("--data-dir").arg(folder);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a command and kills it before a step.
async fn kill_before(folder: &Path, words: &[&str], step: usize) -> Trace {
    let output = tempfile::NamedTempFile::new().expect("a file");
    let mut command = command(folder, words);
    command.stdout(output.reopen().expect("the file"));
    let mut child = command.spawn().expect("a shell");
    let traced = TracedProcess::until(child.id(), step);
    child.stdin.take().expect("a pipe").write_all(b"go\n").expect("the shell reads");
    // Not waited for: the tracer, which is in this process too, would miss events.
    assert!(gone(&child.id().to_string()).await, "{words:?} does not end");
    let trace = traced.end().await;
    // A tracer has reaped it.
    let _reaped = child.wait();
    let printed = fs::read_to_string(output.path()).expect("text");
    assert!(trace.killed || !printed.is_empty(), "{words:?} failed: {trace:?}");
    trace
}

/// Kills a command before each of its steps in turn, and checks the secrets after each.
async fn die_at_each_step(older: &OlderStore, words: &[&str], prepare: impl Fn()) -> usize {
    for step in 1.. {
        prepare();
        let trace = kill_before(older.folder(), words, step).await;
        let store = Store::open(&older.file()).await;
        let store =
            store.unwrap_or_else(|error| panic!("after death before step {step} {trace:?}: {error:#}"));
        older.check(&store).await;
        store.close().await;
        assert_eq!(older.plain_text(), [], "after death before step {step} {trace:?}");
        if !trace.killed {
            return trace.steps.len();
        }
    }
    unreachable!("a command ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_that_is_killed_at_any_step_loses_no_secret() {
    let older = OlderStore::new().await;
    Store::open(&older.file()).await.expect("sealed").close().await;
    let steps = die_at_each_step(&older, &["secrets", "rotate"], || ()).await;
    assert!(steps > 5, "{steps} steps");
    // The last one was complete.
    assert_eq!(fs::read_to_string(older.key_file()).expect("the key file").lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_killed_at_any_step_seals_everything_at_the_next_start() {
    let older = OlderStore::new().await;
    let kept = tempfile::tempdir().expect("a folder");
    let copy = kept.path().join("hotdesk.db");
    fs::copy(older.file(), &copy).expect("copied");
    let start_over = || {
        for entry in fs::read_dir(older.folder()).expect("the folder") {
            fs::remove_file(entry.expect("an entry").path()).expect("removed");
        }
        fs::copy(&copy, older.file()).expect("copied");
    };
    let steps = die_at_each_step(&older, &["admin", "list"], start_over).await;
    assert!(steps > 5, "{steps} steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_replaces_the_key_and_makes_the_former_one_useless() {
    let older = OlderStore::new().await;
    Store::open(&older.file()).await.expect("sealed").close().await;
    let former = fs::read_to_string(older.key_file()).expect("the key file");
    let values = fs::read(older.file()).expect("the database");
    let run = |folder: &Path| {
        let mut child = command(folder, &["secrets", "rotate"]).spawn().expect("a shell");
        child.stdin.take().expect("a pipe").write_all(b"go\n").expect("the shell reads");
        child.wait().expect("a child").success()
    };
    let lock = hotdesk::controller::data_dir::lock::acquire(older.folder()).expect("the lock");
    assert!(!run(older.folder()), "a controller that runs has the former key in memory");
    assert_eq!(fs::read(older.file()).expect("the database"), values);
    drop(lock);
    assert!(run(older.folder()));
    assert_ne!(fs::read_to_string(older.key_file()).expect("the key file"), former);
    older.check(&Store::open(&older.file()).await.expect("the store opens")).await;
    fs::write(older.key_file(), former).expect("written");
    assert!(Store::open(&older.file()).await.is_err());
}
