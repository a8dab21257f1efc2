//! Does a clone of a real computer have its disk and nothing of its identity, and does a real computer have the size that a
//! resize says? (interface.md "Clone" and "Resize", wire.md 5.2 and 5.3; threats.md T28)

use serde_json::{Value, json};

use crate::engines::limits::setting;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;

/// What a computer is told apart by, a line each; the token as its hash, so that a failed test shows none.
const IDENTITY: [(&str, &str); 3] = [
    ("machine-id", "cat /etc/machine-id"),
    ("host name", "uname -n"),
    ("agent token", "sha256sum </run/hotdesk/token"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_has_the_disk_of_a_computer_that_runs_and_an_identity_of_its_own() {
    let Some((house, workspace, source)) = RunningController::with_a_computer().await else { return };
    let before = house.record(&source).await;
    let write = "mkdir -p /root/work /opt/tool && head -c 3000000 /dev/urandom >/root/work/data && chmod 640 /root/work/data \
        && ln -s data /root/work/link && echo '#!/bin/sh' >/opt/tool/run && chmod 755 /opt/tool/run \
        && rm /etc/motd 2>/dev/null; echo theirs >/dev/shm/memory";
    house.bash(&source, write).await;
    // The whole of it: contents, modes, owners, links, what was added to the image and what was taken from it.
    let look = "cd / && { sha256sum </root/work/data; stat -c '%n %A %U %s' /root/work/data /opt/tool/run; \
        readlink /root/work/link; ls /etc/motd 2>/dev/null; ls /etc | md5sum; } 2>&1";
    let told = house.bash(&source, look).await;

    let made = house.post(&format!("/computers/{source}/clone"), json!({"name": "copy"})).await;
    assert_eq!((made.status, &made.body["status"]), (201, &json!("running")), "{}", made.body);
    let copy = id_of(&made.body);
    assert_eq!(made.body["workspace_id"], json!(workspace));
    assert_eq!(house.bash(&copy, look).await, told);
    assert_eq!(house.bash(&copy, "cat /dev/shm/memory 2>/dev/null || echo none").await, "none\n");
    for (what, command) in IDENTITY {
        let (own, theirs) = (house.bash(&copy, command).await, house.bash(&source, command).await);
        assert!(!own.trim().is_empty() && own != theirs, "{what}: {own:?} and {theirs:?}");
    }
    for own in ["vnc_password", "instance_id", "ip"] {
        assert!(made.body[own].is_string() && made.body[own] != before[own], "{own}");
    }

    // The source went on as it was, and each goes its own way from here.
    assert_eq!(house.record(&source).await, before);
    assert_eq!(house.bash(&source, "cat /dev/shm/memory").await, "theirs\n");
    house.bash(&copy, "echo changed >/root/work/data; rm /opt/tool/run").await;
    assert_eq!(house.bash(&source, look).await, told);
    house.bash(&source, "echo of the source >/root/work/other").await;
    assert_eq!(house.bash(&copy, "ls /root/work").await, "data\nlink\n");
    assert_eq!(house.delete(&format!("/computers/{source}")).await.status, 200);
    assert_eq!(house.bash(&copy, "cat /root/work/data").await, "changed\n", "a clone outlives its source");

    // Of one that is stopped as well.
    assert_eq!(house.act(&copy, "stop", json!({})).await.status, 200);
    house.until_status(&copy, "stopped").await;
    let made = house.post(&format!("/computers/{copy}/clone"), json!({})).await;
    assert_eq!((made.status, &made.body["name"]), (201, &json!("copy (clone)")), "{}", made.body);
    assert_eq!(house.bash(&id_of(&made.body), "cat /root/work/data").await, "changed\n");
    assert_eq!(house.record(&copy).await["status"], "stopped");
}

/// Size of the guest's file system in MiB, as it sees it.
async fn disk_mib(house: &RunningController, id: &str) -> u64 {
    let told = house.bash(id, "df --output=size -BM / | tail -1 | tr -dc 0-9").await;
    told.trim().parse().expect("MiB")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_is_what_the_computer_has() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let before = disk_mib(&house, &id).await;
    house.bash(&id, "echo kept >/root/kept; echo kept >/dev/shm/kept").await;
    let wanted = json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 12});
    let told = house.post(&format!("/computers/{id}/resize"), wanted).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let result = |dimension: &str, value: f64| json!({"dimension": dimension, "requested": value, "applied": value, "ok": true});
    let results = json!([result("vcpus", 2.0), result("mem_mb", 8192.0), result("disk_gb", 12.0)]);
    assert_eq!(told.body["results"], results);
    assert_eq!((&told.body["vcpus"], &told.body["mem_gb"]), (&json!(2.0), &json!(8)));
    assert_eq!((&told.body["disk_size_gb"], &told.body["partial"]), (&json!(12), &json!(false)));

    // The kernel enforces it, and the guest has the room.
    house.until_status(&id, "running").await;
    let quota = setting(&id, ["cpu.max", "cpu.cfs_quota_us"]);
    assert_eq!(quota.split(' ').next(), Some("200000"), "{quota}");
    assert_eq!(setting(&id, ["memory.max", "memory.limit_in_bytes"]), (8_u64 << 30).to_string());
    let now = disk_mib(&house, &id).await;
    assert!(now > before + 3500 && now < 12 << 10, "{before} MiB became {now}");
    assert_eq!(house.bash(&id, "cat /root/kept").await, "kept\n");
    // A disk grows live where the host lets root do it; else there was one restart, and the answer says so.
    let memory = house.bash(&id, "cat /dev/shm/kept 2>/dev/null || echo gone").await;
    let restarted = told.body["restarted"] == true;
    assert_eq!(memory, if restarted { "gone\n" } else { "kept\n" });
    let record = house.record(&id).await;
    let size = ["cpu", "ram", "disk_size_gb"].map(|field| record[field].as_f64());
    assert_eq!(size, [2.0, 8.0, 12.0].map(Some));

    // A disk never shrinks; the rest does, live.
    let refused = house.post(&format!("/computers/{id}/resize"), json!({"disk_size_gb": 10})).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let halved = house.patch(&format!("/computers/{id}/resize"), json!({"vcpus": 0.5, "mem_gb": 4})).await;
    assert_eq!((halved.status, &halved.body["restarted"]), (200, &Value::Bool(false)), "{}", halved.body);
    assert_eq!(setting(&id, ["memory.max", "memory.limit_in_bytes"]), (4_u64 << 30).to_string());
    assert_eq!(setting(&id, ["cpu.max", "cpu.cfs_quota_us"]).split(' ').next(), Some("50000"));

    // All of it holds at the next boot.
    assert_eq!(house.act(&id, "restart", json!({})).await.status, 200);
    house.until_status(&id, "running").await;
    let limits = house.bash(&id, "cat /run/hotdesk/limits.json").await;
    let limits: Value = serde_json::from_str(&limits).expect("JSON");
    let expected = json!({"cpu": 0.5, "memory_bytes": 4_u64 << 30, "disk_bytes": 12_u64 << 30});
    assert_eq!(limits, expected);
    assert_eq!(disk_mib(&house, &id).await, now);
}
