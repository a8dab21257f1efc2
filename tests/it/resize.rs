//! Do resizes do what they say, dimension by dimension, and do row and machine agree after a crash? (interface.md
//! "Resize" and "Resize ceilings", wire.md 5.3; threats.md T18, T23)

use futures_util::future::join_all;
use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::controller::config::Limits;
use hotdesk::domain::allowance::Used;
use hotdesk::domain::computer::Hardware;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Capabilities, EngineError};
use hotdesk::store::computers::Computer;
use serde_json::{Value, json};

use crate::harness::agent::Answered;
use crate::harness::simulation::Simulation;

const GB: u64 = 1 << 30;

/// A computer of 1 vCPU, 4 GB, 8 GB disk in a workspace of its own.
async fn with_a_desk(house: &Simulation) -> String {
    let workspace = house.workspace("home").await;
    house.computer(&workspace, "desk").await
}

async fn resize(house: &Simulation, id: &str, body: Value) -> Answered {
    house.post(&format!("/computers/{id}/resize"), body).await
}

async fn row(house: &Simulation, id: &str) -> Computer {
    let reference = ComputerRef::Id(id.parse().expect("an id"));
    house.store().await.computer(&reference).await.expect("the store answers").expect("a row")
}

/// Asserts that the machine has what the row says and that no resize is under way; vCPUs, GB of RAM, GB of disk, Mbps.
async fn has(house: &Simulation, id: &str, size: (f64, u32, u32, u32)) {
    let row = row(house, id).await;
    let Hardware { cpu, ram_gb, disk_gb, bandwidth_mbps, .. } = row.hardware;
    assert_eq!((cpu, ram_gb, disk_gb, bandwidth_mbps), size, "the row");
    assert!(row.wanted.is_none(), "a resize is under way: {:?}", row.wanted);
    let machine = house.size(id);
    let ram = u32::try_from(machine.memory_bytes / GB).expect("fits");
    let disk = u32::try_from(machine.disk_bytes / GB).expect("fits");
    assert_eq!((machine.cpu, ram, disk, machine.bandwidth_mbps), size, "the machine");
}

fn fails(house: &Simulation, call: u32, failure: EngineError) {
    let call = house.engine.calls(Verb::Resize) + call;
    house.engine.plan(Fault { verb: Verb::Resize, call, failure: Failure::Before(failure) });
}

fn broken() -> EngineError {
    EngineError::failed("resize", "/var/lib/secret: broken")
}

/// `results` as one line an entry.
fn results(answer: &Answered) -> Vec<String> {
    let all = answer.body["results"].as_array().unwrap_or_else(|| panic!("no results: {}", answer.body));
    let told = |one: &Value| {
        assert_eq!(one["ok"].as_bool().expect("ok"), one.get("error").is_none(), "{one}");
        format!("{} {}->{}", one["dimension"].as_str().expect("one"), one["requested"], one["applied"])
    };
    all.iter().map(told).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_dimension_changes_live() {
    let house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    let before = house.get(&format!("/computers/{desk}")).await.body;
    let all = json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 20, "bandwidth_limit_mbps": 50,
        "auto_stop_minutes": 30, "unknown": 1});
    let told = resize(&house, &desk, all).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let expected =
        ["vcpus 2.0->2.0", "mem_mb 8192.0->8192.0", "disk_gb 20.0->20.0", "bandwidth_mbps 50.0->50.0"];
    assert_eq!(results(&told), expected);
    for (field, value) in [
        ("vcpus", json!(2.0)),
        ("mem_gb", json!(8)),
        ("disk_size_gb", json!(20)),
        ("bandwidth_limit_mbps", json!(50)),
        ("auto_stop_minutes", json!(30)),
        ("partial", json!(false)),
        ("restarted", json!(false)),
        ("connection_changed", json!(false)),
        ("changed", json!([])),
    ] {
        assert_eq!(told.body[field], value, "{field}");
    }
    has(&house, &desk, (2.0, 8, 20, 50)).await;
    let record = house.get(&format!("/computers/{desk}")).await.body;
    let size = ["cpu", "ram", "disk_size_gb", "auto_stop_minutes"].map(|field| record[field].as_f64());
    assert_eq!(size, [2.0, 8.0, 20.0, 30.0].map(Some));
    assert_eq!(record["vnc_password"], before["vnc_password"]);
    assert_eq!(house.engine.calls(Verb::Start), 1);

    // By PATCH and the instance handle; smaller as well, but for the disk.
    let path = format!("/computers/{}/resize", record["instance_id"].as_str().expect("a handle"));
    let told = house.patch(&path, json!({"vcpus": 0.5, "mem_gb": 4})).await;
    assert_eq!((told.status, results(&told).len()), (200, 2), "{}", told.body);
    assert_eq!(told.body.get("auto_stop_minutes"), None);
    has(&house, &desk, (0.5, 4, 20, 50)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_so_already_is_not_attempted() {
    let house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    let same = json!({"vcpus": 1, "mem_gb": 4, "disk_size_gb": 8, "bandwidth_limit_mbps": 0});
    let told = resize(&house, &desk, same).await;
    assert_eq!((told.status, &told.body["results"]), (200, &json!([])), "{}", told.body);
    assert_eq!(told.body["partial"], false);
    assert_eq!(house.engine.calls(Verb::Resize), 0);
    let told = resize(&house, &desk, json!({"vcpus": 2, "mem_gb": 4})).await;
    assert_eq!(results(&told), ["vcpus 2.0->2.0"]);
    let told = resize(&house, &desk, json!({"auto_stop_minutes": 15})).await;
    assert_eq!((told.status, &told.body["auto_stop_minutes"]), (200, &json!(15)), "{}", told.body);
    for absent in ["results", "partial"] {
        assert_eq!(told.body.get(absent), None, "{absent}");
    }
    has(&house, &desk, (2.0, 4, 8, 0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dimensions_fail_one_by_one() {
    let house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    let all = json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 20});
    fails(&house, 2, EngineError::NoCapacity("full".to_owned()));
    let told = resize(&house, &desk, all.clone()).await;
    assert_eq!((told.status, &told.body["partial"]), (207, &json!(true)), "{}", told.body);
    assert_eq!(results(&told), ["vcpus 2.0->2.0", "mem_mb 8192.0->4096.0", "disk_gb 20.0->20.0"]);
    assert_eq!(told.body["results"][1]["error"], "The host has no room for it");
    assert_eq!((&told.body["mem_gb"], &told.body["disk_size_gb"]), (&json!(4), &json!(20)));
    assert_eq!(told.body.get("error"), None);
    has(&house, &desk, (2.0, 4, 20, 0)).await;

    fails(&house, 1, broken());
    fails(&house, 2, EngineError::Unsupported("grow"));
    let told = resize(&house, &desk, json!({"mem_gb": 8, "disk_size_gb": 30})).await;
    assert_eq!((told.status, &told.body["partial"]), (422, &json!(true)), "{}", told.body);
    assert_eq!(results(&told), ["mem_mb 8192.0->4096.0", "disk_gb 30.0->20.0"]);
    assert!(told.body["error"].is_string() && !told.body.to_string().contains("secret"), "{}", told.body);
    has(&house, &desk, (2.0, 4, 20, 0)).await;
    // And nothing of it stands in the way.
    assert_eq!(resize(&house, &desk, json!({"mem_gb": 8})).await.status, 200);
    has(&house, &desk, (2.0, 8, 20, 0)).await;
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
    let house = Simulation::boot_limited(limits).await;
    let desk = with_a_desk(&house).await;
    for (field, value, status, told) in [
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
        let refused = resize(&house, &desk, json!({ field: value })).await;
        assert_eq!(refused.status, status, "{field}: {}", refused.body);
        if field != "auto_stop_minutes" {
            assert!(refused.body.to_string().contains(told), "{told}: {}", refused.body);
        }
        if told == "max_disk_gb" {
            assert_eq!(refused.body["max_disk_gb"], 300);
        }
    }
    // One bad value of several refuses all.
    let refused = resize(&house, &desk, json!({"vcpus": 2, "mem_gb": 5})).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert_eq!(resize(&house, &desk, json!({})).await.status, 400);
    let nobody = uuid::Uuid::new_v4().to_string();
    assert_eq!(resize(&house, &nobody, json!({"vcpus": 2})).await.status, 404);
    assert_eq!(house.engine.calls(Verb::Resize), 0);
    // A new computer has the plan's bandwidth.
    has(&house, &desk, (1.0, 4, 8, 100)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_running_computer_is_resized() {
    let house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    house.command(format!("/computers/{desk}/stop")).await;
    house.until_status(&desk, "stopped").await;
    for body in [json!({"vcpus": 2}), json!({"auto_stop_minutes": 5})] {
        let refused = resize(&house, &desk, body).await;
        let text = json!("Computer is not running (status: stopped)");
        assert_eq!((refused.status, &refused.body["error"]), (409, &text), "{}", refused.body);
    }
    assert_eq!(house.engine.calls(Verb::Resize), 0);
    let now = row(&house, &desk).await;
    assert_eq!((now.hardware.cpu, now.auto_stop_minutes), (1.0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_auto_stop_is_told_after_the_hardware_has_changed() {
    let house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    for (minutes, cpu) in [(-1, 2.0), (43_201, 4.0)] {
        let body = json!({"vcpus": cpu, "auto_stop_minutes": minutes});
        let told = resize(&house, &desk, body).await;
        assert_eq!(told.status, 500, "{}", told.body);
        assert!(told.body["error"].as_str().expect("a text").contains("auto_stop_minutes"), "{}", told.body);
        has(&house, &desk, (cpu, 4, 8, 0)).await;
        assert_eq!(row(&house, &desk).await.auto_stop_minutes, 0);
    }
    let told = resize(&house, &desk, json!({"auto_stop_minutes": 43_200})).await;
    assert_eq!((told.status, row(&house, &desk).await.auto_stop_minutes), (200, 43_200));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_live_takes_one_restart_at_the_end() {
    let house = Simulation::boot_able(Capabilities { live_cpu: true, ..Capabilities::default() }).await;
    let desk = with_a_desk(&house).await;
    let before = row(&house, &desk).await;
    let told = resize(&house, &desk, json!({"vcpus": 2})).await;
    assert_eq!((told.status, &told.body["restarted"]), (200, &json!(false)), "{}", told.body);
    let told = resize(&house, &desk, json!({"vcpus": 4, "mem_gb": 8, "disk_size_gb": 9})).await;
    assert_eq!((told.status, &told.body["restarted"]), (200, &json!(true)), "{}", told.body);
    assert_eq!(
        (&told.body["connection_changed"], &told.body["changed"]),
        (&json!(true), &json!(["vnc_password"]))
    );
    assert_eq!(results(&told), ["vcpus 4.0->4.0", "mem_mb 8192.0->8192.0", "disk_gb 9.0->9.0"]);
    let after = row(&house, &desk).await;
    assert_eq!(after.generation, before.generation + 1, "one restart");
    assert_ne!(after.vnc_password.reveal(), before.vnc_password.reveal());
    assert_eq!(house.status(&desk).await, "running");
    has(&house, &desk, (4.0, 8, 9, 0)).await;
    // A dimension that failed is no reason to restart.
    fails(&house, 1, broken());
    let told = resize(&house, &desk, json!({"mem_gb": 16})).await;
    assert_eq!((told.status, &told.body["restarted"]), (422, &json!(false)), "{}", told.body);
    assert_eq!(row(&house, &desk).await.generation, after.generation);
    // A restart that fails is told, and a start leads out of it with the new size.
    let call = house.engine.calls(Verb::Start) + 1;
    house.engine.plan(Fault { verb: Verb::Start, call, failure: Failure::Before(broken()) });
    let told = resize(&house, &desk, json!({"mem_gb": 16})).await;
    assert_eq!(told.status, 500, "{}", told.body);
    assert_eq!(house.status(&desk).await, "error");
    house.command(format!("/computers/{desk}/start")).await;
    house.until_status(&desk, "running").await;
    has(&house, &desk, (4.0, 16, 9, 0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ceilings_are_what_a_resize_reaches() {
    let limits = Limits { max_cpu: 8, max_account_ram_gb: 21, max_account_disk_gb: 100, ..Limits::default() };
    let house = Simulation::boot_limited(limits).await;
    let desk = with_a_desk(&house).await;
    let workspace = house.workspace("other").await;
    house.made("/computers", json!({"workspace_id": workspace, "name": "b", "disk_size_gb": 50})).await;
    let path = format!("/computers/{desk}/resize");
    let told = house.get(&path).await.body;
    for (field, value) in [
        ("resizable", json!(true)),
        ("current_disk_gb", json!(8)),
        ("max_disk_gb", json!(50)),
        ("disk_size_gb", json!(50)),
        ("max_ram_gb", json!(16)),
        ("mem_gb", json!(16)),
        ("max_cpu", json!(8.0)),
        ("vcpus", json!(8.0)),
        ("bandwidth_limit_mbps", json!(100_000)),
        ("mem_gb_live", json!(true)),
    ] {
        assert_eq!(told[field], value, "{field}: {told}");
    }
    let most = json!({"vcpus": told["vcpus"], "mem_gb": told["mem_gb"], "disk_size_gb": told["disk_size_gb"],
        "bandwidth_limit_mbps": told["bandwidth_limit_mbps"]});
    assert_eq!(resize(&house, &desk, most).await.status, 200);
    has(&house, &desk, (8.0, 16, 50, 100_000)).await;

    house.command(format!("/computers/{desk}/stop")).await;
    house.until_status(&desk, "stopped").await;
    let told = house.get(&path).await.body;
    assert_eq!((&told["resizable"], told.get("mem_gb_live")), (&json!(true), None), "{told}");
    let call = house.engine.calls(Verb::Start) + 1;
    house.engine.plan(Fault { verb: Verb::Start, call, failure: Failure::Before(broken()) });
    house.command(format!("/computers/{desk}/start")).await;
    house.until_status(&desk, "error").await;
    let expected = json!({"resizable": false, "reason": "Computer is not running (status: error)",
        "code": "NOT_RESIZABLE", "current_disk_gb": 50, "max_disk_gb": 50, "max_ram_gb": 16, "max_cpu": 8.0});
    let told = house.get(&path).await;
    assert_eq!((told.status, told.body), (200, expected));
}

/// threats.md T23.
#[tokio::test(flavor = "multi_thread")]
async fn t23_two_resizes_do_not_take_the_same_ram() {
    let limits = Limits { max_account_ram_gb: 28, ..Limits::default() };
    let house = Simulation::boot_limited(limits).await;
    let workspace = house.workspace("home").await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        ids.push(house.computer(&workspace, name).await);
    }
    // 24 of 28 GB are taken: one more of 4 GB, whoever comes first. The engine takes its time over each.
    let answers = join_all(ids.iter().map(|id| resize(&house, id, json!({"mem_gb": 8})))).await;
    let won = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|it| (it.status, &it.body["code"]) == (403, &json!("RAM_ADDON")));
    assert_eq!((won, refused.count()), (1, 5), "{answers:?}");
    let full = house.post("/computers", json!({"workspace_id": workspace, "name": "g"})).await;
    assert_eq!((full.status, &full.body["code"]), (403, &json!("RAM_ADDON")), "{}", full.body);
}

/// What a resize that is under way leads to is taken already.
#[tokio::test(flavor = "multi_thread")]
async fn t23_an_intent_counts_until_its_outcome() {
    let house = Simulation::boot_limited(Limits { max_account_ram_gb: 12, ..Limits::default() }).await;
    let desk = with_a_desk(&house).await;
    let other = row(&house, &house.computer(&house.workspace("w").await, "other").await).await;
    let store = house.store().await;
    let beside = async || store.used_beside(&other).await.expect("added up");
    assert_eq!(beside().await, Used { computers: 1, ram_gb: 4, disk_gb: 8 });
    let id: ComputerId = desk.parse().expect("an id");
    let plan = |now: &Hardware, _: &Used| Ok(Hardware { ram_gb: 8, disk_gb: 20, ..*now });
    let wanted = store.intend_hardware(id, plan).await.expect("stored");
    assert_eq!(beside().await, Used { computers: 1, ram_gb: 8, disk_gb: 20 });
    let now = row(&house, &desk).await;
    assert_eq!((now.hardware.ram_gb, now.wanted), (4, Some(wanted)));
    // A shrink is free only when it is done.
    let plan = |now: &Hardware, _: &Used| Ok(Hardware { ram_gb: 2, disk_gb: 8, ..*now });
    store.intend_hardware(id, plan).await.expect("stored");
    assert_eq!(beside().await, Used { computers: 1, ram_gb: 4, disk_gb: 8 });
    store.settle_hardware(id, &Hardware { ram_gb: 2, ..now.hardware }, None).await.expect("stored");
    assert_eq!(beside().await, Used { computers: 1, ram_gb: 2, disk_gb: 8 });
    assert_eq!(row(&house, &desk).await.wanted, None);
}

/// Stores the intent of a resize as a controller does that dies right after.
async fn cut_short(house: &Simulation, desk: &str) {
    let plan = |now: &Hardware, _: &Used| Ok(Hardware { cpu: 2.0, ram_gb: 8, disk_gb: 20, ..*now });
    house.store().await.intend_hardware(desk.parse().expect("an id"), plan).await.expect("stored");
}

/// threats.md T18.
#[tokio::test(flavor = "multi_thread")]
async fn t18_a_resize_that_was_cut_short_is_finished_at_the_next_start() {
    let mut house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    cut_short(&house, &desk).await;
    house.restart().await;
    house.until_status(&desk, "running").await;
    // Adopted: the same boot as before.
    assert_eq!(row(&house, &desk).await.generation, 1);
    has(&house, &desk, (2.0, 8, 20, 0)).await;

    // Where it takes a restart there is one.
    let mut house = Simulation::boot_able(Capabilities::default()).await;
    let desk = with_a_desk(&house).await;
    cut_short(&house, &desk).await;
    house.restart().await;
    house.until_status(&desk, "running").await;
    assert_eq!(row(&house, &desk).await.generation, 2);
    has(&house, &desk, (2.0, 8, 20, 0)).await;

    // A computer that ended meanwhile has its new size when it starts.
    let mut house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    house.command(format!("/computers/{desk}/stop")).await;
    house.until_status(&desk, "stopped").await;
    cut_short(&house, &desk).await;
    house.restart().await;
    house.until_status(&desk, "stopped").await;
    house.command(format!("/computers/{desk}/start")).await;
    house.until_status(&desk, "running").await;
    has(&house, &desk, (2.0, 8, 20, 0)).await;
}

/// An outcome that could not be stored leaves the intent; the next resize carries it along.
#[tokio::test(flavor = "multi_thread")]
async fn t18_the_next_resize_carries_an_unfinished_one_along() {
    let house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    cut_short(&house, &desk).await;
    let told = resize(&house, &desk, json!({"vcpus": 4})).await;
    assert_eq!(told.status, 200, "{}", told.body);
    assert_eq!(results(&told), ["vcpus 4.0->4.0", "mem_mb 8192.0->8192.0", "disk_gb 20.0->20.0"]);
    has(&house, &desk, (4.0, 8, 20, 0)).await;
}

/// A resize, a stop and a delete at once end in one clear state.
#[tokio::test(flavor = "multi_thread")]
async fn a_resize_takes_its_turn() {
    let house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    let sizes = [2.0, 4.0, 8.0, 2.0, 4.0, 8.0];
    let answers = join_all(sizes.map(|cpu| resize(&house, &desk, json!({"vcpus": cpu})))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let cpu = row(&house, &desk).await.hardware.cpu;
    has(&house, &desk, (cpu, 4, 8, 0)).await;
    let stop = house.command(format!("/computers/{desk}/stop"));
    let (told, stopped) = tokio::join!(resize(&house, &desk, json!({"mem_gb": 8})), stop);
    assert!([200, 409].contains(&told.status) && stopped.status == 200, "{} {}", told.body, stopped.body);
    house.until_status(&desk, "stopped").await;
    assert!(row(&house, &desk).await.wanted.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_resize_whose_outcome_could_not_be_stored_is_put_right_by_the_next_one() {
    let house = Simulation::boot().await;
    let desk = with_a_desk(&house).await;
    let before = row(&house, &desk).await.hardware;
    let full =
        "CREATE TRIGGER full BEFORE UPDATE OF cpu ON computers BEGIN SELECT RAISE(ABORT, 'on purpose'); END";
    house.sql(full).await;
    let failed = resize(&house, &desk, json!({"vcpus": 2})).await;
    assert_eq!(failed.status, 500, "{}", failed.body);
    assert!((house.size(&desk).cpu - 2.0).abs() < f64::EPSILON, "the machine has changed");
    house.sql("DROP TRIGGER full").await;
    let told = resize(&house, &desk, json!({"vcpus": 1})).await;
    assert_eq!(told.status, 200, "{}", told.body);
    has(&house, &desk, (1.0, before.ram_gb, before.disk_gb, before.bandwidth_mbps)).await;
}
