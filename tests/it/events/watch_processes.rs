//! Are processes told when they start and end, by their own names, and nothing of what the agent does itself?

use std::process::{Command, Stdio};

use hotdesk::domain::event::Kind;
use serde_json::json;

use super::watch::Hearing;

#[tokio::test]
async fn processes_are_told_by_their_names_and_only_new_ones() {
    let home = tempfile::tempdir().expect("a folder");
    let sleep = || Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().expect("sleep");
    let mut before = sleep();
    let hearing = Hearing::begin(None, home.path(), &[Kind::ProcessStart, Kind::ProcessStop]).await;
    let mut one = sleep();
    let of = |pid: u32| move |_: &str, data: &serde_json::Value| data["pid"] == pid;
    let told = json!({"pid": one.id(), "name": "sleep"});
    assert_eq!(hearing.find(of(one.id())).await, ("process_start".into(), told.clone()));
    one.kill().expect("killed");
    one.wait().expect("an end");
    assert_eq!(hearing.find(of(one.id())).await, ("process_stop".into(), told));
    // Its beginning was not told; its end is.
    let told = json!({"pid": before.id(), "name": "sleep"});
    before.kill().expect("killed");
    before.wait().expect("an end");
    assert_eq!(hearing.find(of(before.id())).await, ("process_stop".into(), told));
    // A name that the kernel cuts, and a shell that goes on as another program.
    let program = home.path().join("a-program-with-a-long-name");
    std::os::unix::fs::symlink("/bin/sleep", &program).expect("a link");
    let mut long = Command::new(&program).arg("1000").spawn().expect("a program");
    let told = json!({"pid": long.id(), "name": "a-program-with-a-long-name"});
    assert_eq!(hearing.find(of(long.id())).await, ("process_start".into(), told));
    long.kill().expect("killed");
    long.wait().expect("an end");
    hearing.end().await;
}
