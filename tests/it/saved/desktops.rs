//! Real desktops, on gVisor and as virtual machines: state is copied, evicted and fetched, also when the
//! controller is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::controller::{RunningController, gvisor};

/// Longest time to copy tens of megabytes and read them back, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A process that counts in its memory and writes the count to a file. It starts no other process, which would keep an
/// emulated computer busy.
const COUNT: &str = "setsid bash -c 'exec 9<> <(:); while :; do echo $((++i)) >/root/count; read -t 0.1 -u 9; done' \
                     >/dev/null 2>&1 </dev/null & echo $! >/root/counter; echo kept >/root/note";

/// All files below a folder, with their sizes.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        // A file may disappear during the walk.
        let Ok(data) = entry.metadata() else { continue };
        if data.is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.path().display().to_string(), data.len()));
        }
    }
    found
}

async fn until(what: &str, probe: impl Fn() -> bool) {
    let found = wait::until(TIMEOUT, || async { probe().then_some(()) }).await;
    assert!(found.is_some(), "{what}");
}

async fn count(controller: &RunningController, id: &str) -> u64 {
    // The file appears late, and is empty for a moment at each count.
    let command = "until { read n </root/count; } 2>/dev/null && test -n \"$n\"; do :; done; echo $n";
    controller.bash(id, command).await.trim().parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_wakes_from_storage_where_it_was() {
    let Some(engines) = gvisor() else { return };
    let copies = tempfile::tempdir().expect("a folder");
    let configuration = format!("{engines}{}", storage(copies.path()));
    let controller = RunningController::boot_with(&configuration).await;
    wakes_from_storage_where_it_was(controller, copies.path()).await;
}

fn storage(place: &Path) -> String {
    let place = place.display();
    format!("[storage]\nurl = \"{place}\"\nlocal_quota_mb = 0\nbandwidth_mbps = 200\n")
}

async fn wakes_from_storage_where_it_was(mut controller: RunningController, copies: &Path) {
    let workspace = controller.workspace("demo").await;
    let record = controller.computer(&workspace, "one").await;
    let id = record["id"].as_str().expect("an id").to_owned();
    controller.bash(&id, COUNT).await;
    let process = controller.bash(&id, "cat /root/counter; cut -d' ' -f22 /proc/1/stat").await;
    let before = count(&controller, &id).await;

    let suspended = controller.act(&id, "suspend", json!({})).await;
    assert_eq!(
        (suspended.status, &suspended.body["status"]),
        (200, &json!("suspended")),
        "{}",
        suspended.body
    );
    let began = Instant::now();
    until("a part", || !files(copies).is_empty()).await;
    controller.kill();
    controller.start_again().await;
    let machine = controller.machine(&id);
    until("evicted", || !machine.join("disk.img").exists() && !machine.join("memory").exists()).await;
    let stored: u64 = files(copies).iter().map(|(_, bytes)| bytes).sum();
    println!("copied, read back and evicted in {:?}, a restart included: {stored} bytes", began.elapsed());
    assert_eq!(
        controller.get(&format!("/computers/{id}/suspension")).await.body,
        json!({"status": "suspended"})
    );
    let left: u64 = files(&machine).iter().filter(|(name, _)| !name.ends_with("/agent")).map(|it| it.1).sum();
    assert!(left < 1 << 20, "{left} bytes are left: {:?}", files(&machine));

    let began = Instant::now();
    let woken = controller.act(&id, "resume", json!({})).await;
    assert_eq!((woken.status, &woken.body["waking"]), (202, &json!(true)), "{}", woken.body);
    controller.until_status(&id, "running").await;
    println!("woken from storage in {:?}", began.elapsed());
    let same = controller.bash(&id, "cat /root/counter; cut -d' ' -f22 /proc/1/stat").await;
    assert_eq!(same, process);
    let now = count(&controller, &id).await;
    assert!(now >= before, "{before} then {now}");
    let counts = wait::until(TIMEOUT, || async { (count(&controller, &id).await > now).then_some(()) });
    assert!(counts.await.is_some(), "the counter continues");
    assert_eq!(controller.bash(&id, "cat /root/note").await, "kept\n");
    let after = controller.record(&id).await;
    assert_ne!(after["instance_id"], record["instance_id"]);
    let old = record["instance_id"].as_str().expect("a handle");
    assert_eq!(controller.record(old).await["id"], json!(id));
    assert_eq!(controller.bash(old, "echo hi").await, "hi\n");
    until("no objects", || files(copies).is_empty()).await;

    // A second round, with a kill during the resume: the next controller completes it.
    let asleep = wait::until(TIMEOUT, || async {
        (controller.act(&id, "suspend", json!({})).await.status == 200).then_some(())
    });
    assert!(asleep.await.is_some(), "suspended again");
    until("evicted again", || !machine.join("disk.img").exists()).await;
    let request =
        controller.request(reqwest::Method::POST, &format!("/computers/{id}/start")).json(&json!({}));
    let answer: Value = request.send().await.expect("an answer").json().await.expect("a body");
    assert_eq!(answer["status"], "starting", "{answer}");
    controller.kill();
    controller.start_again().await;
    controller.until_status(&id, "running").await;
    assert_eq!(
        controller.bash(&id, "cat /root/note; cat /root/counter; cut -d' ' -f22 /proc/1/stat").await,
        format!("kept\n{process}")
    );
    until("no objects again", || files(copies).is_empty()).await;
    assert!(!controller.log().contains("panicked"));
    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
}
