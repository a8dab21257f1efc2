//! Forks, rollbacks and launches of desktops over gVisor through the API.

use std::time::Instant;

use futures_util::future::join_all;
use hotdesk::base::wait;
use serde_json::json;

use super::desktop::{
    PROGRAMS, TIMEOUT, check_screenshot, clock_offset, count, type_line, wait_for_count, wait_for_terminal,
};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};

/// Prints the start times of process 1 and of the counter.
pub const START_TIMES: &str =
    "cut -d' ' -f22 /proc/1/stat; cut -d' ' -f22 /proc/$(pgrep -of 'echo .*count')/stat";

/// Commands that print what identifies a computer to its programs, one line each.
const IDENTITY: [&str; 7] = [
    "hostname",
    "cat /etc/hostname",
    "cat /etc/machine-id",
    "cat /run/hotdesk/token",
    "ip -o link | grep -o 'ether [0-9a-f:]*'",
    "ip -o addr | grep -o 'inet 10[0-9.]*'",
    "head -c 16 /dev/urandom | base64",
];

/// Asserts that the commands print different values on two computers.
pub async fn expect_different(controller: &RunningController, one: &str, two: &str, about: &[&str]) {
    for answers in about {
        let (first, second) = (controller.bash(one, answers).await, controller.bash(two, answers).await);
        assert!(!second.trim().is_empty() && first != second, "{answers}: {first} and {second}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_is_forked_while_it_goes_on() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let workspace = controller.workspace("demo").await;
    let record = controller.computer(&workspace, "one").await;
    let one = id_of(&record);
    controller.bash(&one, PROGRAMS).await;
    wait_for_terminal(&controller, &one).await;
    type_line(&controller, &one, "before", "before").await;
    let (since, before) = (controller.bash(&one, START_TIMES).await, wait_for_count(&controller, &one).await);

    // With a request in progress, which is interrupted on the fork.
    let fork = async {
        let started = wait::until(TIMEOUT, || async {
            (!controller.bash(&one, "pgrep -f 'sleep [6]0' || true").await.is_empty()).then_some(())
        });
        started.await.expect("the request must be in progress");
        let began = Instant::now();
        let forked = controller.act(&one, "fork", json!({})).await;
        println!("a desktop: forked in {:?}", began.elapsed());
        forked
    };
    let (interrupted, forked) =
        tokio::join!(controller.act(&one, "bash", json!({"command": "sleep 60"})), fork);
    assert!(interrupted.status >= 500, "{interrupted:?}");
    assert_eq!((forked.status, &forked.body["name"]), (201, &json!("one (fork)")), "{}", forked.body);
    let two = id_of(&forked.body);

    // The source is not interrupted, and its identity is unchanged.
    let after = wait_for_count(&controller, &one).await;
    assert!(after > before, "{before} then {after}");
    assert_eq!(controller.bash(&one, START_TIMES).await, since);
    let now = controller.record(&one).await;
    assert_eq!((&now["status"], &now["vnc_password"]), (&json!("running"), &record["vnc_password"]));
    type_line(&controller, &one, "source", "before\nsource").await;

    // The fork continues from the same state with another identity.
    assert!(wait_for_count(&controller, &two).await > before);
    assert_eq!(controller.bash(&two, START_TIMES).await, since, "the same processes");
    type_line(&controller, &two, "fork", "before\nfork").await;
    check_screenshot(&controller, &two).await;
    for id in [&one, &two] {
        let offset = clock_offset(&controller, id).await;
        assert!(offset < 0.5, "clock offset of {offset} s on {id}");
    }
    expect_different(&controller, &one, &two, &IDENTITY).await;
    assert_eq!(controller.bash(&two, "hostname").await.trim(), format!("hotdesk-{}", &two[..8]));
    for own in ["vnc_password", "instance_id", "ip"] {
        assert!(now[own].is_string() && now[own] != forked.body[own], "{own}: {now} {}", forked.body);
    }
    assert_eq!(controller.delete(&format!("/computers/{one}")).await.status, 200);
    assert_eq!(controller.act(&two, "suspend", json!({})).await.status, 200);
    wait_for_count(&controller, &two).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_goes_back_to_what_ran() {
    if let Some(configuration) = gvisor() {
        check_rollback(RunningController::boot_with(&configuration).await).await;
    }
}

/// Takes a snapshot of a running desktop and restores it twice.
pub async fn check_rollback(mut controller: RunningController) {
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    controller.bash(&id, PROGRAMS).await;
    controller.bash(&id, "echo early > /root/note").await;
    wait_for_count(&controller, &id).await;
    let since = controller.bash(&id, START_TIMES).await;
    let began = Instant::now();
    let made = controller.act(&id, "snapshots", json!({"name": "early", "memory": true})).await;
    println!("a desktop: snapshot in {:?}, {} bytes", began.elapsed(), made.body["size_bytes"]);
    assert_eq!((made.status, &made.body["state"]), (201, &json!("ready")), "{}", made.body);
    let created = count(&controller, &id).await;
    controller.bash(&id, "echo late > /root/note; pkill xterm || true").await;
    let mut snapshot_count = created;
    while snapshot_count < created + 20 {
        snapshot_count = wait_for_count(&controller, &id).await;
    }
    let body = json!({"snapshot_id": made.body["id"]});
    for round in 0..2 {
        let began = Instant::now();
        let answer = controller.act(&id, "rollback", body.clone()).await;
        println!("a desktop: rolled back in {:?}", began.elapsed());
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("running")), "{}", answer.body);
        assert_eq!(controller.bash(&id, "cat /root/note").await, "early\n", "round {round}");
        assert_eq!(controller.bash(&id, START_TIMES).await, since, "the same processes");
        let offset = clock_offset(&controller, &id).await;
        assert!(offset < 0.5, "clock offset of {offset} s");
        wait_for_count(&controller, &id).await;
        if round == 0 {
            controller.bash(&id, "echo late > /root/note").await;
            controller.kill();
            controller.start_again().await;
        }
    }
    let path = format!("/computers/{id}/snapshots/{}", made.body["id"].as_str().expect("an id"));
    assert_eq!(controller.delete(&path).await.status, 200);
    let disk = controller.act(&id, "snapshots", json!({})).await;
    assert_eq!((disk.status, &disk.body["memory"]), (201, &json!(false)), "{}", disk.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn four_desktops_are_launched_at_once_from_one_snapshot() {
    let Some(configuration) = gvisor() else { return };
    check_launches(RunningController::boot_with(&configuration).await, 4, &IDENTITY).await;
}

/// Launches desktops from one snapshot. No two of them may answer the commands of `about` alike.
pub async fn check_launches(controller: RunningController, number: usize, about: &[&str]) {
    let workspace = controller.workspace("demo").await;
    let source = id_of(&controller.computer(&workspace, "one").await);
    controller.bash(&source, PROGRAMS).await;
    wait_for_terminal(&controller, &source).await;
    type_line(&controller, &source, "before", "before").await;
    let since = controller.bash(&source, START_TIMES).await;
    let created = controller.act(&source, "snapshots", json!({"memory": true})).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let snapshot_count = wait_for_count(&controller, &source).await;
    controller.bash(&source, "echo late >/root/note").await;

    let began = Instant::now();
    let body = json!({"snapshot_id": created.body["id"]});
    let launched = join_all((0..number).map(|_| controller.act(&source, "fork", body.clone()))).await;
    println!("{number} desktops: launched in {:?}", began.elapsed());
    let mut all = vec![source.clone()];
    for made in &launched {
        assert_eq!((made.status, &made.body["status"]), (201, &json!("running")), "{}", made.body);
        all.push(id_of(&made.body));
    }
    // The source continues, and the launched desktops depend neither on it nor on its snapshot.
    assert!(wait_for_count(&controller, &source).await > snapshot_count);
    assert_eq!(controller.bash(&source, START_TIMES).await, since);
    let mut answers: Vec<Vec<String>> = Vec::new();
    for id in &all {
        let mut of = Vec::new();
        for command in about {
            of.push(controller.bash(id, command).await);
        }
        let record = controller.record(id).await;
        of.extend(["vnc_password", "instance_id", "ip"].map(|own| record[own].to_string()));
        answers.push(of);
    }
    for (snapshot_count, of) in answers.iter().enumerate() {
        assert!(of.iter().all(|word| !word.trim().is_empty()), "{of:?}");
        for other in &answers[..snapshot_count] {
            assert!(of.iter().zip(other).all(|(one, another)| one != another), "{of:?} and {other:?}");
        }
    }
    let snapshot = created.body["id"].as_str().expect("an id");
    assert_eq!(controller.delete(&format!("/computers/{source}/snapshots/{snapshot}")).await.status, 200);
    assert_eq!(controller.delete(&format!("/computers/{source}")).await.status, 200);
    for id in &all[1..] {
        assert_eq!(
            controller.bash(id, "cat /root/note 2>/dev/null || true").await,
            "",
            "the disk must be that of the snapshot"
        );
        assert_eq!(controller.bash(id, START_TIMES).await, since, "the same processes");
        assert!(wait_for_count(&controller, id).await > 0);
        type_line(&controller, id, id, &format!("before\n{id}")).await;
        check_screenshot(&controller, id).await;
        let offset = clock_offset(&controller, id).await;
        assert!(offset < 0.5, "clock offset of {offset} s on {id}");
    }
    assert_eq!(controller.act(&all[1], "suspend", json!({})).await.status, 200);
    wait_for_count(&controller, &all[1]).await;
}
