//! Is a desktop over gVisor forked, and rolled back, with all that runs on it, through the API?

use std::time::Instant;

use futures_util::future::join_all;
use hotdesk::base::wait;
use serde_json::json;

use super::desktop::{TIMEOUT, PROGRAMS, clock_is_off, count, counts_on, reads, shows_a_screen, types};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};

/// Process 1's and the counter's start, as the computer's kernel tells.
pub const SINCE: &str = "cut -d' ' -f22 /proc/1/stat; cut -d' ' -f22 /proc/$(pgrep -of 'echo .*count')/stat";

/// Who a computer is to its programs, a line each.
const IDENTITY: [&str; 7] = [
    "hostname",
    "cat /etc/hostname",
    "cat /etc/machine-id",
    "cat /run/hotdesk/token",
    "ip -o link | grep -o 'ether [0-9a-f:]*'",
    "ip -o addr | grep -o 'inet 10[0-9.]*'",
    "head -c 16 /dev/urandom | base64",
];

/// Asserts that two computers say different things.
pub async fn differ(house: &RunningController, one: &str, two: &str, about: &[&str]) {
    for told in about {
        let (first, second) = (house.bash(one, told).await, house.bash(two, told).await);
        assert!(!second.trim().is_empty() && first != second, "{told}: {first} and {second}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_is_forked_while_it_goes_on() {
    let Some(configuration) = gvisor() else { return };
    let house = RunningController::boot_with(&configuration).await;
    let workspace = house.workspace("demo").await;
    let record = house.computer(&workspace, "one").await;
    let one = id_of(&record);
    house.bash(&one, PROGRAMS).await;
    reads(&house, &one).await;
    types(&house, &one, "before", "before").await;
    let (since, before) = (house.bash(&one, SINCE).await, counts_on(&house, &one).await);

    // With a request under way, which is broken off.
    let fork = async {
        let begun = wait::until(TIMEOUT, || async {
            (!house.bash(&one, "pgrep -f 'sleep [6]0' || true").await.is_empty()).then_some(())
        });
        begun.await.expect("it is under way");
        let began = Instant::now();
        let forked = house.act(&one, "fork", json!({})).await;
        println!("a desktop: forked in {:?}", began.elapsed());
        forked
    };
    let (broken, forked) = tokio::join!(house.act(&one, "bash", json!({"command": "sleep 60"})), fork);
    assert!(broken.status >= 500, "{broken:?}");
    assert_eq!((forked.status, &forked.body["name"]), (201, &json!("one (fork)")), "{}", forked.body);
    let two = id_of(&forked.body);

    // The source never stopped, and is who it was.
    let after = counts_on(&house, &one).await;
    assert!(after > before, "{before} then {after}");
    assert_eq!(house.bash(&one, SINCE).await, since);
    let now = house.record(&one).await;
    assert_eq!((&now["status"], &now["vnc_password"]), (&json!("running"), &record["vnc_password"]));
    types(&house, &one, "source", "before\nsource").await;

    // The fork goes on from there, as somebody else.
    assert!(counts_on(&house, &two).await > before);
    assert_eq!(house.bash(&two, SINCE).await, since, "the same processes");
    types(&house, &two, "fork", "before\nfork").await;
    shows_a_screen(&house, &two).await;
    for id in [&one, &two] {
        let off = clock_is_off(&house, id).await;
        assert!(off < 0.5, "the clock of {id} is off by {off} s");
    }
    differ(&house, &one, &two, &IDENTITY).await;
    assert_eq!(house.bash(&two, "hostname").await.trim(), format!("hotdesk-{}", &two[..8]));
    for own in ["vnc_password", "instance_id", "ip"] {
        assert!(now[own].is_string() && now[own] != forked.body[own], "{own}: {now} {}", forked.body);
    }
    assert_eq!(house.delete(&format!("/computers/{one}")).await.status, 200);
    assert_eq!(house.act(&two, "suspend", json!({})).await.status, 200);
    counts_on(&house, &two).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_goes_back_to_what_ran() {
    if let Some(configuration) = gvisor() {
        goes_back_to_what_ran(RunningController::boot_with(&configuration).await).await;
    }
}

/// Keeps a desktop with what runs on it, and brings it back to that twice.
pub async fn goes_back_to_what_ran(mut house: RunningController) {
    let workspace = house.workspace("demo").await;
    let id = id_of(&house.computer(&workspace, "one").await);
    house.bash(&id, PROGRAMS).await;
    house.bash(&id, "echo early > /root/note").await;
    counts_on(&house, &id).await;
    let since = house.bash(&id, SINCE).await;
    let began = Instant::now();
    let made = house.act(&id, "snapshots", json!({"name": "early", "memory": true})).await;
    println!("a desktop: kept in {:?}, {} bytes", began.elapsed(), made.body["size_bytes"]);
    assert_eq!((made.status, &made.body["state"]), (201, &json!("ready")), "{}", made.body);
    let kept = count(&house, &id).await;
    house.bash(&id, "echo late > /root/note; pkill xterm || true").await;
    let mut at = kept;
    while at < kept + 20 {
        at = counts_on(&house, &id).await;
    }
    let body = json!({"snapshot_id": made.body["id"]});
    for round in 0..2 {
        let began = Instant::now();
        let done = house.act(&id, "rollback", body.clone()).await;
        println!("a desktop: rolled back in {:?}", began.elapsed());
        assert_eq!((done.status, &done.body["status"]), (200, &json!("running")), "{}", done.body);
        assert_eq!(house.bash(&id, "cat /root/note").await, "early\n", "round {round}");
        assert_eq!(house.bash(&id, SINCE).await, since, "the same processes");
        let off = clock_is_off(&house, &id).await;
        assert!(off < 0.5, "its clock is off by {off} s");
        counts_on(&house, &id).await;
        if round == 0 {
            house.bash(&id, "echo late > /root/note").await;
            house.kill();
            house.start_again().await;
        }
    }
    let path = format!("/computers/{id}/snapshots/{}", made.body["id"].as_str().expect("an id"));
    assert_eq!(house.delete(&path).await.status, 200);
    let disk = house.act(&id, "snapshots", json!({})).await;
    assert_eq!((disk.status, &disk.body["memory"]), (201, &json!(false)), "{}", disk.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn four_desktops_are_launched_at_once_from_one_snapshot() {
    let Some(configuration) = gvisor() else { return };
    are_launched_at_once(RunningController::boot_with(&configuration).await, 4, &IDENTITY).await;
}

/// Launches desktops from one snapshot; `about` is asked of each, and no two may answer alike.
pub async fn are_launched_at_once(house: RunningController, number: usize, about: &[&str]) {
    let workspace = house.workspace("demo").await;
    let source = id_of(&house.computer(&workspace, "one").await);
    house.bash(&source, PROGRAMS).await;
    reads(&house, &source).await;
    types(&house, &source, "before", "before").await;
    let since = house.bash(&source, SINCE).await;
    let kept = house.act(&source, "snapshots", json!({"memory": true})).await;
    assert_eq!(kept.status, 201, "{}", kept.body);
    let at = counts_on(&house, &source).await;
    house.bash(&source, "echo late >/root/note").await;

    let began = Instant::now();
    let body = json!({"snapshot_id": kept.body["id"]});
    let launched = join_all((0..number).map(|_| house.act(&source, "fork", body.clone()))).await;
    println!("{number} desktops: launched in {:?}", began.elapsed());
    let mut all = vec![source.clone()];
    for made in &launched {
        assert_eq!((made.status, &made.body["status"]), (201, &json!("running")), "{}", made.body);
        all.push(id_of(&made.body));
    }
    // The source goes on, and neither it nor its snapshot is needed by those that were launched.
    assert!(counts_on(&house, &source).await > at);
    assert_eq!(house.bash(&source, SINCE).await, since);
    let mut told: Vec<Vec<String>> = Vec::new();
    for id in &all {
        let mut of = Vec::new();
        for question in about {
            of.push(house.bash(id, question).await);
        }
        let record = house.record(id).await;
        of.extend(["vnc_password", "instance_id", "ip"].map(|own| record[own].to_string()));
        told.push(of);
    }
    for (at, of) in told.iter().enumerate() {
        assert!(of.iter().all(|word| !word.trim().is_empty()), "{of:?}");
        for other in &told[..at] {
            assert!(of.iter().zip(other).all(|(one, another)| one != another), "{of:?} and {other:?}");
        }
    }
    let snapshot = kept.body["id"].as_str().expect("an id");
    assert_eq!(house.delete(&format!("/computers/{source}/snapshots/{snapshot}")).await.status, 200);
    assert_eq!(house.delete(&format!("/computers/{source}")).await.status, 200);
    for id in &all[1..] {
        assert_eq!(
            house.bash(id, "cat /root/note 2>/dev/null || true").await,
            "",
            "it is of the moment before"
        );
        assert_eq!(house.bash(id, SINCE).await, since, "the same processes");
        assert!(counts_on(&house, id).await > 0);
        types(&house, id, id, &format!("before\n{id}")).await;
        shows_a_screen(&house, id).await;
        let off = clock_is_off(&house, id).await;
        assert!(off < 0.5, "the clock of {id} is off by {off} s");
    }
    assert_eq!(house.act(&all[1], "suspend", json!({})).await.status, 200);
    counts_on(&house, &all[1]).await;
}
