//! Is a desktop over gVisor forked, and rolled back, with all that runs on it, through the API?

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::json;

use super::gvisor_desktop::{PROGRAMS, clock_is_off, shows_a_screen, types};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, no_computers_here, runsc};

/// By when a program that counts has counted on, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A controller whose computers have a kernel of their own; `None`, with the reason printed, where they cannot run.
async fn house() -> Option<RunningController> {
    if let Some(reason) = no_computers_here() {
        println!("{reason}");
        return None;
    }
    let runtime = runsc();
    if !std::path::Path::new(&runtime).exists() {
        println!("skipped: {runtime} is not there (packaging/dev/deps test)");
        return None;
    }
    Some(RunningController::boot_with(&format!("[container]\nruntime = {runtime:?}\n")).await)
}

/// What the counter wrote last; the file is empty for a moment at each count.
async fn count(house: &RunningController, id: &str) -> u64 {
    let told = wait::until(SOON, || async { house.bash(id, "cat /root/count").await.trim().parse().ok() });
    told.await.expect("it counts")
}

/// Waits until the counter has counted on.
async fn counts_on(house: &RunningController, id: &str) -> u64 {
    let before = count(house, id).await;
    let later = wait::until(SOON, || async {
        let now = count(house, id).await;
        (now > before).then_some(now)
    });
    later.await.expect("it counts on")
}

/// Process 1's and the counter's start, as the computer's kernel tells.
const SINCE: &str = "cut -d' ' -f22 /proc/1/stat; cut -d' ' -f22 /proc/$(pgrep -of 'echo .*count')/stat";

/// Who a computer is to its programs, a line each.
const IDENTITY: [&str; 6] = [
    "hostname",
    "cat /etc/hostname",
    "cat /etc/machine-id",
    "cat /run/hotdesk/token",
    "ip -o link | grep -o 'ether [0-9a-f:]*'",
    "ip -o addr | grep -o 'inet 10[0-9.]*'",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_is_forked_while_it_goes_on() {
    let Some(house) = house().await else { return };
    let workspace = house.workspace("demo").await;
    let record = house.computer(&workspace, "one").await;
    let one = id_of(&record);
    house.bash(&one, PROGRAMS).await;
    let window = wait::until(SOON, || async {
        let windows = house.get(&format!("/computers/{one}/windows")).await.body;
        windows.to_string().contains("\"XTerm\"").then_some(())
    });
    assert!(window.await.is_some(), "a window");
    types(&house, &one, "before", "before").await;
    let (since, before) = (house.bash(&one, SINCE).await, counts_on(&house, &one).await);

    // With a request under way, which is broken off.
    let fork = async {
        let begun = wait::until(SOON, || async {
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
    for told in IDENTITY {
        let (first, second) = (house.bash(&one, told).await, house.bash(&two, told).await);
        assert!(!second.trim().is_empty() && first != second, "{told}: {first} and {second}");
    }
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
    let Some(mut house) = house().await else { return };
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
