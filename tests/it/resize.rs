//! Resizes by dimension, and agreement of row and machine after a crash (docs/lifecycle.md#resize; T18, T23
//! in docs/security.md).

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::base::wait;
use hotdesk::controller::config::Limits;
use hotdesk::domain::computer::Hardware;
use hotdesk::domain::computer::allowance::ResourceUse;
use hotdesk::domain::computer::lifecycle::Status;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Capabilities, EngineError, Shortage};
use hotdesk::store::fleet::computers::Computer;
use serde_json::{Value, json};

use crate::harness::agent::HttpAnswer;
use crate::harness::simulation::Simulation;

const GB: u64 = 1 << 30;
/// Longest time of a recovery, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Creates a computer of 1 vCPU, 4 GB of RAM and 8 GB of disk in a new workspace.
async fn create_desk(controller: &Simulation) -> String {
    let workspace = controller.workspace("home").await;
    controller.computer(&workspace, "desk").await
}

async fn resize(controller: &Simulation, id: &str, body: Value) -> HttpAnswer {
    controller.post(&format!("/computers/{id}/resize"), body).await
}

async fn row(controller: &Simulation, id: &str) -> Computer {
    let reference = ComputerRef::Id(id.parse().expect("an id"));
    controller.store().await.computer(&reference).await.expect("the store answers").expect("a row")
}

/// Waits until a computer runs without a pending resize. One that a restart of the controller interrupted
/// goes on while the status is that of before.
async fn until_resized(controller: &Simulation, id: &str) -> Computer {
    let (store, reference) = (controller.store().await, ComputerRef::Id(id.parse().expect("an id")));
    let resized = wait::until(TIMEOUT, || async {
        let row = store.computer(&reference).await.expect("the store answers").expect("a row");
        (row.wanted.is_none() && row.status == Status::Running).then_some(row)
    });
    resized.await.expect("the resize ends")
}

/// Asserts that row and machine have this size (vCPUs, GB of RAM, GB of disk, Mbps) and that no resize is
/// pending.
async fn assert_size(controller: &Simulation, id: &str, size: (f64, u32, u32, u32)) {
    let row = row(controller, id).await;
    let Hardware { cpu, ram_gb, disk_gb, bandwidth_mbps, .. } = row.hardware;
    assert_eq!((cpu, ram_gb, disk_gb, bandwidth_mbps), size, "the row");
    assert!(row.wanted.is_none(), "a resize is pending: {:?}", row.wanted);
    let machine = controller.size(id);
    let ram = u32::try_from(machine.memory_bytes / GB).expect("fits");
    let disk = u32::try_from(machine.disk_bytes / GB).expect("fits");
    assert_eq!((machine.cpu, ram, disk, machine.bandwidth_mbps), size, "the machine");
}

fn fail_next(controller: &Simulation, call: u32, failure: EngineError) {
    let call = controller.engine.calls(Verb::Resize) + call;
    controller.engine.plan(Fault { verb: Verb::Resize, call, failure: Failure::Before(failure) });
}

fn broken() -> EngineError {
    EngineError::failed("resize", "/var/lib/secret: broken")
}

/// The entries of `results`, one line each.
fn results(answer: &HttpAnswer) -> Vec<String> {
    let all = answer.body["results"].as_array().unwrap_or_else(|| panic!("no results: {}", answer.body));
    let line = |one: &Value| {
        assert_eq!(one["ok"].as_bool().expect("ok"), one.get("error").is_none(), "{one}");
        format!("{} {}->{}", one["dimension"].as_str().expect("one"), one["requested"], one["applied"])
    };
    all.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_dimension_changes_live() {
    let controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    let before = controller.get(&format!("/computers/{desk}")).await.body;
    let all = json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 20, "bandwidth_limit_mbps": 50,
        "auto_stop_minutes": 30, "cpu": 16});
    let answer = resize(&controller, &desk, all).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let expected = ["vcpus 2->2", "mem_mb 8192->8192", "disk_gb 20->20", "bandwidth_mbps 50->50"];
    assert_eq!(results(&answer), expected);
    for (field, value) in [
        ("vcpus", json!(2)),
        ("mem_gb", json!(8)),
        ("disk_size_gb", json!(20)),
        ("bandwidth_limit_mbps", json!(50)),
        ("auto_stop_minutes", json!(30)),
        ("partial", json!(false)),
        ("restarted", json!(false)),
        ("connection_changed", json!(false)),
        ("changed", json!([])),
    ] {
        assert_eq!(answer.body[field], value, "{field}");
    }
    assert_size(&controller, &desk, (2.0, 8, 20, 50)).await;
    let record = controller.get(&format!("/computers/{desk}")).await.body;
    let size = ["cpu", "ram", "disk_size_gb", "auto_stop_minutes"].map(|field| record[field].as_f64());
    assert_eq!(size, [2.0, 8.0, 20.0, 30.0].map(Some));
    assert_eq!(record["vnc_password"], before["vnc_password"]);
    assert_eq!(controller.engine.calls(Verb::Start), 1);

    // With PATCH and the instance handle. All dimensions but the disk can shrink.
    let path = format!("/computers/{}/resize", record["instance_id"].as_str().expect("a handle"));
    let answer = controller.patch(&path, json!({"vcpus": 0.5, "mem_gb": 4})).await;
    assert_eq!((answer.status, results(&answer).len()), (200, 2), "{}", answer.body);
    assert_eq!((answer.body.get("auto_stop_minutes"), answer.body.get("keeps_memory")), (None, None));
    assert_size(&controller, &desk, (0.5, 4, 20, 50)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_so_already_is_not_attempted() {
    let controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    let same = json!({"vcpus": 1, "mem_gb": 4, "disk_size_gb": 8, "bandwidth_limit_mbps": 0});
    let answer = resize(&controller, &desk, same).await;
    assert_eq!((answer.status, &answer.body["results"]), (200, &json!([])), "{}", answer.body);
    assert_eq!(answer.body["partial"], false);
    assert_eq!(controller.engine.calls(Verb::Resize), 0);
    let answer = resize(&controller, &desk, json!({"vcpus": 2, "mem_gb": 4})).await;
    assert_eq!(results(&answer), ["vcpus 2->2"]);
    let answer = resize(&controller, &desk, json!({"auto_stop_minutes": 15})).await;
    assert_eq!((answer.status, &answer.body["auto_stop_minutes"]), (200, &json!(15)), "{}", answer.body);
    assert_eq!(answer.body["keeps_memory"], json!(true));
    for absent in ["results", "partial"] {
        assert_eq!(answer.body.get(absent), None, "{absent}");
    }
    assert_size(&controller, &desk, (2.0, 4, 8, 0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dimensions_fail_one_by_one() {
    let controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    let all = json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 20});
    fail_next(&controller, 2, EngineError::NoCapacity(Shortage::DiskSpace, "full".to_owned()));
    let answer = resize(&controller, &desk, all.clone()).await;
    assert_eq!((answer.status, &answer.body["partial"]), (207, &json!(true)), "{}", answer.body);
    assert_eq!(results(&answer), ["vcpus 2->2", "mem_mb 8192->4096", "disk_gb 20->20"]);
    assert_eq!(answer.body["results"][1]["error"], "The host has no room for it");
    assert_eq!((&answer.body["mem_gb"], &answer.body["disk_size_gb"]), (&json!(4), &json!(20)));
    assert_eq!(answer.body.get("error"), None);
    assert_size(&controller, &desk, (2.0, 4, 20, 0)).await;

    fail_next(&controller, 1, EngineError::MemoryInUse { used: 47 * GB / 10, limit: 4 * GB });
    let busy = resize(&controller, &desk, json!({"mem_gb": 8})).await;
    let text = "Memory in use: 4.7 GB of 4. End programs in the computer, then resize it again";
    assert_eq!((busy.status, &busy.body["results"][0]["error"]), (422, &json!(text)), "{}", busy.body);

    fail_next(&controller, 1, broken());
    fail_next(&controller, 2, EngineError::Unsupported("grow"));
    let answer = resize(&controller, &desk, json!({"mem_gb": 8, "disk_size_gb": 30})).await;
    assert_eq!((answer.status, &answer.body["partial"]), (422, &json!(true)), "{}", answer.body);
    assert_eq!(results(&answer), ["mem_mb 8192->4096", "disk_gb 30->20"]);
    assert!(
        answer.body["error"].is_string() && !answer.body.to_string().contains("secret"),
        "{}",
        answer.body
    );
    assert_eq!(answer.body["results"][0]["error"], "The change failed: could not resize");
    assert_size(&controller, &desk, (2.0, 4, 20, 0)).await;
    // The failures do not block a later resize.
    assert_eq!(resize(&controller, &desk, json!({"mem_gb": 8})).await.status, 200);
    assert_size(&controller, &desk, (2.0, 8, 20, 0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_out_of_range_are_refused_and_change_nothing() {
    let limits = Limits {
        max_cpu: 8,
        max_ram_gb: 16,
        max_account_ram_gb: 12,
        max_bandwidth_mbps: 100,
        ..Limits::default()
    };
    let controller = Simulation::boot_limited(limits).await;
    let desk = create_desk(&controller).await;
    for (field, value, status, expected) in [
        ("vcpus", json!(3), 400, "vcpus"),
        ("vcpus", json!(0), 400, "vcpus"),
        ("vcpus", json!(-1), 400, "vcpus"),
        ("vcpus", json!("2"), 400, ""),
        ("vcpus", json!(16), 403, "PER_COMPUTER_CPU_CAP"),
        ("mem_gb", json!(5), 400, "mem_gb"),
        ("mem_gb", json!(9999), 400, "mem_gb"),
        ("mem_gb", json!(64), 400, "mem_gb"),
        ("mem_gb", json!(32), 403, "PER_COMPUTER_RAM_CAP"),
        ("mem_gb", json!(16), 403, "RAM_ADDON"),
        ("disk_size_gb", json!(7), 400, "max_disk_gb"),
        ("disk_size_gb", json!(0), 400, "max_disk_gb"),
        ("disk_size_gb", json!(301), 400, "max_disk_gb"),
        ("disk_size_gb", json!(9.5), 400, "max_disk_gb"),
        ("bandwidth_limit_mbps", json!(-1), 400, "bandwidth_limit_mbps"),
        ("bandwidth_limit_mbps", json!(101), 400, "bandwidth_limit_mbps"),
        ("auto_stop_minutes", json!(1.5), 400, "auto_stop_minutes"),
        ("auto_stop_minutes", json!("x"), 400, ""),
        ("cpu", json!(2), 400, "vcpus"),
    ] {
        let refused = resize(&controller, &desk, json!({ field: value })).await;
        assert_eq!(refused.status, status, "{field}: {}", refused.body);
        if field != "auto_stop_minutes" {
            assert!(refused.body.to_string().contains(expected), "{expected}: {}", refused.body);
        }
        if expected == "max_disk_gb" {
            assert_eq!(refused.body["max_disk_gb"], 300);
        }
    }
    // One bad value refuses the whole request.
    let refused = resize(&controller, &desk, json!({"vcpus": 2, "mem_gb": 5})).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert_eq!(resize(&controller, &desk, json!({})).await.status, 400);
    let unknown_id = uuid::Uuid::new_v4().to_string();
    assert_eq!(resize(&controller, &unknown_id, json!({"vcpus": 2})).await.status, 404);
    assert_eq!(controller.engine.calls(Verb::Resize), 0);
    // A new computer has the plan's bandwidth.
    assert_size(&controller, &desk, (1.0, 4, 8, 100)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_running_computer_is_resized() {
    let controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    controller.command(format!("/computers/{desk}/stop")).await;
    controller.until_status(&desk, "stopped").await;
    for body in [json!({"vcpus": 2}), json!({"auto_stop_minutes": 5})] {
        let refused = resize(&controller, &desk, body).await;
        let text = json!("Computer is not running (status: stopped)");
        assert_eq!((refused.status, &refused.body["error"]), (409, &text), "{}", refused.body);
    }
    assert_eq!(controller.engine.calls(Verb::Resize), 0);
    let now = row(&controller, &desk).await;
    assert_eq!((now.hardware.cpu, now.auto_stop_minutes), (1.0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_auto_stop_is_told_after_the_hardware_has_changed() {
    let controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    for (minutes, cpu) in [(-1, 2.0), (43_201, 4.0)] {
        let body = json!({"vcpus": cpu, "auto_stop_minutes": minutes});
        let answer = resize(&controller, &desk, body).await;
        assert_eq!(answer.status, 500, "{}", answer.body);
        assert!(
            answer.body["error"].as_str().expect("a text").contains("auto_stop_minutes"),
            "{}",
            answer.body
        );
        assert_size(&controller, &desk, (cpu, 4, 8, 0)).await;
        assert_eq!(row(&controller, &desk).await.auto_stop_minutes, 0);
    }
    let answer = resize(&controller, &desk, json!({"auto_stop_minutes": 43_200})).await;
    assert_eq!((answer.status, row(&controller, &desk).await.auto_stop_minutes), (200, 43_200));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_live_takes_one_restart_at_the_end() {
    let controller =
        Simulation::boot_with_capabilities(Capabilities { live_cpu: true, ..Capabilities::default() }).await;
    let desk = create_desk(&controller).await;
    let before = row(&controller, &desk).await;
    let answer = resize(&controller, &desk, json!({"vcpus": 2})).await;
    assert_eq!((answer.status, &answer.body["restarted"]), (200, &json!(false)), "{}", answer.body);
    let answer = resize(&controller, &desk, json!({"vcpus": 4, "mem_gb": 8, "disk_size_gb": 9})).await;
    assert_eq!((answer.status, &answer.body["restarted"]), (200, &json!(true)), "{}", answer.body);
    assert_eq!(
        (&answer.body["connection_changed"], &answer.body["changed"]),
        (&json!(true), &json!(["vnc_password"]))
    );
    assert_eq!(results(&answer), ["vcpus 4->4", "mem_mb 8192->8192", "disk_gb 9->9"]);
    let after = row(&controller, &desk).await;
    assert_eq!(after.generation, before.generation + 1, "one restart");
    assert_ne!(after.vnc_password.reveal(), before.vnc_password.reveal());
    assert_eq!(controller.status(&desk).await, "running");
    assert_size(&controller, &desk, (4.0, 8, 9, 0)).await;
    // A failed dimension causes no restart.
    fail_next(&controller, 1, broken());
    let answer = resize(&controller, &desk, json!({"mem_gb": 16})).await;
    assert_eq!((answer.status, &answer.body["restarted"]), (422, &json!(false)), "{}", answer.body);
    assert_eq!(row(&controller, &desk).await.generation, after.generation);
    // A failed restart is reported. A start then uses the new size.
    let call = controller.engine.calls(Verb::Start) + 1;
    controller.engine.plan(Fault { verb: Verb::Start, call, failure: Failure::Before(broken()) });
    let answer = resize(&controller, &desk, json!({"mem_gb": 16})).await;
    assert_eq!(answer.status, 500, "{}", answer.body);
    assert_eq!(controller.status(&desk).await, "error");
    controller.command(format!("/computers/{desk}/start")).await;
    controller.until_status(&desk, "running").await;
    assert_size(&controller, &desk, (4.0, 16, 9, 0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ceilings_are_what_a_resize_reaches() {
    let limits = Limits { max_cpu: 8, max_account_ram_gb: 21, max_account_disk_gb: 100, ..Limits::default() };
    let controller = Simulation::boot_limited(limits).await;
    let desk = create_desk(&controller).await;
    let workspace = controller.workspace("other").await;
    controller
        .create("/computers", json!({"workspace_id": workspace, "name": "b", "disk_size_gb": 50}))
        .await;
    let path = format!("/computers/{desk}/resize");
    let answer = controller.get(&path).await.body;
    for (field, value) in [
        ("resizable", json!(true)),
        ("current_disk_gb", json!(8)),
        ("max_disk_gb", json!(50)),
        ("disk_size_gb", json!(50)),
        ("max_ram_gb", json!(16)),
        ("mem_gb", json!(16)),
        ("max_cpu", json!(8)),
        ("vcpus", json!(8)),
        ("bandwidth_limit_mbps", json!(100_000)),
        ("mem_gb_live", json!(true)),
    ] {
        assert_eq!(answer[field], value, "{field}: {answer}");
    }
    let most = json!({"vcpus": answer["vcpus"], "mem_gb": answer["mem_gb"], "disk_size_gb": answer["disk_size_gb"],
        "bandwidth_limit_mbps": answer["bandwidth_limit_mbps"]});
    assert_eq!(resize(&controller, &desk, most).await.status, 200);
    assert_size(&controller, &desk, (8.0, 16, 50, 100_000)).await;

    controller.command(format!("/computers/{desk}/stop")).await;
    controller.until_status(&desk, "stopped").await;
    let fixed = |status: &str| {
        json!({"resizable": false, "reason": format!("Computer is not running (status: {status})"),
            "code": "NOT_RESIZABLE", "current_disk_gb": 50, "max_disk_gb": 50, "max_ram_gb": 16, "max_cpu": 8})
    };
    assert_eq!(controller.get(&path).await.body, fixed("stopped"));
    let call = controller.engine.calls(Verb::Start) + 1;
    controller.engine.plan(Fault { verb: Verb::Start, call, failure: Failure::Before(broken()) });
    controller.command(format!("/computers/{desk}/start")).await;
    controller.until_status(&desk, "error").await;
    let answer = controller.get(&path).await;
    assert_eq!((answer.status, answer.body), (200, fixed("error")));
}

/// T23 (docs/security.md).
#[tokio::test(flavor = "multi_thread")]
async fn t23_two_resizes_do_not_take_the_same_ram() {
    let limits = Limits { max_account_ram_gb: 28, ..Limits::default() };
    let controller = Simulation::boot_limited(limits).await;
    let workspace = controller.workspace("home").await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        ids.push(controller.computer(&workspace, name).await);
    }
    // 24 of 28 GB are in use: only one of the resizes by 4 GB can succeed. The engine takes some time for
    // each.
    let answers = join_all(ids.iter().map(|id| resize(&controller, id, json!({"mem_gb": 8})))).await;
    let accepted = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|it| (it.status, &it.body["code"]) == (403, &json!("RAM_ADDON")));
    assert_eq!((accepted, refused.count()), (1, 5), "{answers:?}");
    let full = controller.post("/computers", json!({"workspace_id": workspace, "name": "g"})).await;
    assert_eq!((full.status, &full.body["code"]), (403, &json!("RAM_ADDON")), "{}", full.body);
}

/// The result of a pending resize counts as used.
#[tokio::test(flavor = "multi_thread")]
async fn t23_an_intent_counts_until_its_outcome() {
    let controller = Simulation::boot_limited(Limits { max_account_ram_gb: 12, ..Limits::default() }).await;
    let desk = create_desk(&controller).await;
    let other = row(&controller, &controller.computer(&controller.workspace("w").await, "other").await).await;
    let store = controller.store().await;
    let used_beside = async || store.resource_use_besides(&other).await.expect("added up");
    assert_eq!(used_beside().await, ResourceUse { computers: 1, ram_gb: 4, disk_gb: 8 });
    let id: ComputerId = desk.parse().expect("an id");
    let plan = |now: &Hardware, _: &ResourceUse| Ok(Hardware { ram_gb: 8, disk_gb: 20, ..*now });
    let wanted = store.intend_hardware(id, plan).await.expect("stored");
    assert_eq!(used_beside().await, ResourceUse { computers: 1, ram_gb: 8, disk_gb: 20 });
    let now = row(&controller, &desk).await;
    assert_eq!((now.hardware.ram_gb, now.wanted), (4, Some(wanted)));
    // A shrink frees resources only when it is done.
    let plan = |now: &Hardware, _: &ResourceUse| Ok(Hardware { ram_gb: 2, disk_gb: 8, ..*now });
    store.intend_hardware(id, plan).await.expect("stored");
    assert_eq!(used_beside().await, ResourceUse { computers: 1, ram_gb: 4, disk_gb: 8 });
    store.settle_hardware(id, &Hardware { ram_gb: 2, ..now.hardware }, None).await.expect("stored");
    assert_eq!(used_beside().await, ResourceUse { computers: 1, ram_gb: 2, disk_gb: 8 });
    assert_eq!(row(&controller, &desk).await.wanted, None);
}

/// Stores the intent of a resize, like a controller that dies right after it.
async fn store_intent(controller: &Simulation, desk: &str) {
    let plan = |now: &Hardware, _: &ResourceUse| Ok(Hardware { cpu: 2.0, ram_gb: 8, disk_gb: 20, ..*now });
    controller.store().await.intend_hardware(desk.parse().expect("an id"), plan).await.expect("stored");
}

/// T18 (docs/security.md).
#[tokio::test(flavor = "multi_thread")]
async fn t18_a_resize_that_was_cut_short_is_finished_at_the_next_start() {
    let mut controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    store_intent(&controller, &desk).await;
    controller.restart().await;
    // The machine was adopted: no new boot.
    assert_eq!(until_resized(&controller, &desk).await.generation, 1);
    assert_size(&controller, &desk, (2.0, 8, 20, 0)).await;

    // Where a dimension needs a restart, there is one.
    let mut controller = Simulation::boot_with_capabilities(Capabilities::default()).await;
    let desk = create_desk(&controller).await;
    store_intent(&controller, &desk).await;
    controller.restart().await;
    assert_eq!(until_resized(&controller, &desk).await.generation, 2);
    assert_size(&controller, &desk, (2.0, 8, 20, 0)).await;

    // A computer that was stopped has its new size after the next start.
    let mut controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    controller.command(format!("/computers/{desk}/stop")).await;
    controller.until_status(&desk, "stopped").await;
    store_intent(&controller, &desk).await;
    controller.restart().await;
    controller.until_status(&desk, "stopped").await;
    controller.command(format!("/computers/{desk}/start")).await;
    controller.until_status(&desk, "running").await;
    assert_size(&controller, &desk, (2.0, 8, 20, 0)).await;
}

/// A failed write of the outcome leaves the intent, and the next resize completes it.
#[tokio::test(flavor = "multi_thread")]
async fn t18_the_next_resize_carries_an_unfinished_one_along() {
    let controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    store_intent(&controller, &desk).await;
    let answer = resize(&controller, &desk, json!({"vcpus": 4})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(results(&answer), ["vcpus 4->4", "mem_mb 8192->8192", "disk_gb 20->20"]);
    assert_size(&controller, &desk, (4.0, 8, 20, 0)).await;
}

/// A resize, a stop and a delete at once end in one clear state.
#[tokio::test(flavor = "multi_thread")]
async fn a_resize_takes_its_turn() {
    let controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    let sizes = [2.0, 4.0, 8.0, 2.0, 4.0, 8.0];
    let answers = join_all(sizes.map(|cpu| resize(&controller, &desk, json!({"vcpus": cpu})))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let cpu = row(&controller, &desk).await.hardware.cpu;
    assert_size(&controller, &desk, (cpu, 4, 8, 0)).await;
    let stop = controller.command(format!("/computers/{desk}/stop"));
    let (answer, stopped) = tokio::join!(resize(&controller, &desk, json!({"mem_gb": 8})), stop);
    assert!([200, 409].contains(&answer.status) && stopped.status == 200, "{} {}", answer.body, stopped.body);
    controller.until_status(&desk, "stopped").await;
    assert!(row(&controller, &desk).await.wanted.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_resize_whose_outcome_could_not_be_stored_is_put_right_by_the_next_one() {
    let controller = Simulation::boot().await;
    let desk = create_desk(&controller).await;
    let before = row(&controller, &desk).await.hardware;
    let full =
        "CREATE TRIGGER full BEFORE UPDATE OF cpu ON computers BEGIN SELECT RAISE(ABORT, 'on purpose'); END";
    controller.sql(full).await;
    let failed = resize(&controller, &desk, json!({"vcpus": 2})).await;
    assert_eq!(failed.status, 500, "{}", failed.body);
    assert!((controller.size(&desk).cpu - 2.0).abs() < f64::EPSILON, "the machine has the new size");
    controller.sql("DROP TRIGGER full").await;
    let answer = resize(&controller, &desk, json!({"vcpus": 1})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_size(&controller, &desk, (1.0, before.ram_gb, before.disk_gb, before.bandwidth_mbps)).await;
}
