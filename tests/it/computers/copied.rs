//! Clones and resizes of real computers: disk contents, a new identity, and actual sizes.
//!
//! docs/lifecycle.md, T28 (docs/security.md).

use serde_json::{Value, json};

use crate::engines::limits::cgroup_value;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;

/// Properties that identify a computer, one line each; the token as its hash, so that a failed test does not
/// show it.
const IDENTITY: [(&str, &str); 3] = [
    ("machine-id", "cat /etc/machine-id"),
    ("host name", "uname -n"),
    ("agent token", "sha256sum </run/hotdesk/token"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_has_the_disk_of_a_computer_that_runs_and_an_identity_of_its_own() {
    let Some((controller, workspace, source)) = RunningController::with_a_computer().await else { return };
    let before = controller.record(&source).await;
    let write = "mkdir -p /root/work /opt/tool && head -c 3000000 /dev/urandom >/root/work/data && chmod 640 /root/work/data \
        && ln -s data /root/work/link && echo '#!/bin/sh' >/opt/tool/run && chmod 755 /opt/tool/run \
        && rm /etc/motd 2>/dev/null; echo theirs >/dev/shm/memory";
    controller.bash(&source, write).await;
    // Contents, modes, owners, links, and files added to or removed from the image.
    let describe = "cd / && { sha256sum </root/work/data; stat -c '%n %A %U %s' /root/work/data /opt/tool/run; \
        readlink /root/work/link; ls /etc/motd 2>/dev/null; ls /etc | md5sum; } 2>&1";
    let observed = controller.bash(&source, describe).await;

    let created = controller.post(&format!("/computers/{source}/clone"), json!({"name": "copy"})).await;
    assert_eq!((created.status, &created.body["status"]), (201, &json!("running")), "{}", created.body);
    let copy = id_of(&created.body);
    assert_eq!(created.body["workspace_id"], json!(workspace));
    assert_eq!(controller.bash(&copy, describe).await, observed);
    assert_eq!(controller.bash(&copy, "cat /dev/shm/memory 2>/dev/null || echo none").await, "none\n");
    for (what, command) in IDENTITY {
        let (own, theirs) = (controller.bash(&copy, command).await, controller.bash(&source, command).await);
        assert!(!own.trim().is_empty() && own != theirs, "{what}: {own:?} and {theirs:?}");
    }
    for own in ["vnc_password", "instance_id", "ip"] {
        assert!(created.body[own].is_string() && created.body[own] != before[own], "{own}");
    }

    // The source is unchanged, and the two diverge from here.
    assert_eq!(controller.record(&source).await, before);
    assert_eq!(controller.bash(&source, "cat /dev/shm/memory").await, "theirs\n");
    controller.bash(&copy, "echo changed >/root/work/data; rm /opt/tool/run").await;
    assert_eq!(controller.bash(&source, describe).await, observed);
    controller.bash(&source, "echo of the source >/root/work/other").await;
    assert_eq!(controller.bash(&copy, "ls /root/work").await, "data\nlink\n");
    assert_eq!(controller.delete(&format!("/computers/{source}")).await.status, 200);
    assert_eq!(
        controller.bash(&copy, "cat /root/work/data").await,
        "changed\n",
        "a clone must outlive its source"
    );

    // A stopped computer can be cloned too.
    assert_eq!(controller.act(&copy, "stop", json!({})).await.status, 200);
    controller.until_status(&copy, "stopped").await;
    let created = controller.post(&format!("/computers/{copy}/clone"), json!({})).await;
    assert_eq!((created.status, &created.body["name"]), (201, &json!("copy (clone)")), "{}", created.body);
    assert_eq!(controller.bash(&id_of(&created.body), "cat /root/work/data").await, "changed\n");
    assert_eq!(controller.record(&copy).await["status"], "stopped");
}

/// Size of the guest's root file system in MiB.
async fn disk_mib(controller: &RunningController, id: &str) -> u64 {
    let observed = controller.bash(id, "df --output=size -BM / | tail -1 | tr -dc 0-9").await;
    observed.trim().parse().expect("MiB")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_is_what_the_computer_has() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let before = disk_mib(&controller, &id).await;
    controller.bash(&id, "echo kept >/root/kept; echo kept >/dev/shm/kept").await;
    let wanted = json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 12});
    let observed = controller.post(&format!("/computers/{id}/resize"), wanted).await;
    assert_eq!(observed.status, 200, "{}", observed.body);
    let result = |dimension: &str, value: u32| json!({"dimension": dimension, "requested": value, "applied": value, "ok": true});
    let results = json!([result("vcpus", 2), result("mem_mb", 8192), result("disk_gb", 12)]);
    assert_eq!(observed.body["results"], results);
    assert_eq!((&observed.body["vcpus"], &observed.body["mem_gb"]), (&json!(2), &json!(8)));
    assert_eq!((&observed.body["disk_size_gb"], &observed.body["partial"]), (&json!(12), &json!(false)));

    // The kernel enforces the size, and the guest sees it.
    controller.until_status(&id, "running").await;
    let quota = cgroup_value(&id, ["cpu.max", "cpu.cfs_quota_us"]);
    assert_eq!(quota.split(' ').next(), Some("200000"), "{quota}");
    assert_eq!(cgroup_value(&id, ["memory.max", "memory.limit_in_bytes"]), (8_u64 << 30).to_string());
    let now = disk_mib(&controller, &id).await;
    assert!(now > before + 3500 && now < 12 << 10, "{before} MiB became {now}");
    assert_eq!(controller.bash(&id, "cat /root/kept").await, "kept\n");
    // A disk grows live where the host permits it; otherwise the computer restarts once, and the answer says
    // so.
    let memory = controller.bash(&id, "cat /dev/shm/kept 2>/dev/null || echo gone").await;
    let restarted = observed.body["restarted"] == true;
    assert_eq!(memory, if restarted { "gone\n" } else { "kept\n" });
    let record = controller.record(&id).await;
    let size = ["cpu", "ram", "disk_size_gb"].map(|field| record[field].as_f64());
    assert_eq!(size, [2.0, 8.0, 12.0].map(Some));

    // A disk cannot shrink; the other dimensions shrink live.
    let refused = controller.post(&format!("/computers/{id}/resize"), json!({"disk_size_gb": 10})).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let halved =
        controller.patch(&format!("/computers/{id}/resize"), json!({"vcpus": 0.5, "mem_gb": 4})).await;
    assert_eq!((halved.status, &halved.body["restarted"]), (200, &Value::Bool(false)), "{}", halved.body);
    assert_eq!(cgroup_value(&id, ["memory.max", "memory.limit_in_bytes"]), (4_u64 << 30).to_string());
    assert_eq!(cgroup_value(&id, ["cpu.max", "cpu.cfs_quota_us"]).split(' ').next(), Some("50000"));

    // All sizes apply after a restart too.
    assert_eq!(controller.act(&id, "restart", json!({})).await.status, 200);
    controller.until_status(&id, "running").await;
    let limits = controller.bash(&id, "cat /run/hotdesk/limits.json").await;
    let limits: Value = serde_json::from_str(&limits).expect("JSON");
    let expected = json!({"cpu": 0.5, "memory_bytes": 4_u64 << 30, "disk_bytes": 12_u64 << 30});
    assert_eq!(limits, expected);
    assert_eq!(disk_mib(&controller, &id).await, now);
}
