//! Run times of computers: recorded with their status across failures of the controller and the host.

use std::time::Duration;

use hotdesk::base::clock;
use hotdesk::base::ids::{ClientId, ComputerId};
use hotdesk::base::time::UnixMillis;
use hotdesk::base::wait;
use hotdesk::domain::billing::usage::{Run, retained_since};
use hotdesk::store::Store;
use reqwest::Method;
use serde_json::{Value, json};

use super::{create_client, create_computer};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// A controller with a client whose computer runs.
struct Scene {
    controller: Simulation,
    client: Value,
    key: String,
    id: String,
}

impl Scene {
    async fn new() -> Self {
        let controller = Simulation::boot().await;
        let (client, key) = create_client(&controller, json!({"external_id": "acme"})).await;
        let id = id_of(&create_computer(&controller, &key, &client, "one").await.body);
        Self { controller, client, key, id }
    }

    async fn runs(&self) -> Vec<Run> {
        let client: ClientId = id_of(&self.client).parse().expect("an id");
        self.controller
            .store()
            .await
            .runs_of(client, &(UnixMillis::EPOCH..UnixMillis::MAX))
            .await
            .expect("read")
    }

    async fn set_status(&self, command: &str, status: &str) {
        let answer = self.controller.command(format!("/computers/{}/{command}", self.id)).await;
        assert!([200, 202].contains(&answer.status), "{command}: {}", answer.body);
        self.controller.until_status(&self.id, status).await;
    }

    /// Waits until the wall clock has advanced, so that a run has a length.
    async fn advance_clock(&self) {
        let since = clock::now();
        let passed = wait::until(Duration::from_secs(10), || async {
            (clock::now() > since.plus(Duration::from_millis(20))).then_some(())
        });
        assert!(passed.await.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_lasts_from_running_to_not_running_at_one_size() {
    let scene = Scene::new().await;
    let first = scene.runs().await;
    assert!(matches!(first[..], [Run { ram_gb: 4, ended_at: None, .. }]), "{first:?}");
    scene.advance_clock().await;
    scene.set_status("stop", "stopped").await;
    let stopped = scene.runs().await;
    let [Run { started_at, ended_at: Some(ended_at), .. }] = stopped[..] else { panic!("{stopped:?}") };
    assert!(ended_at > started_at && started_at == first[0].started_at);
    scene.set_status("start", "running").await;
    let body = json!({"mem_gb": 8});
    let path = format!("/computers/{}/resize", scene.id);
    let resized =
        fetch_json(scene.controller.request_with(&scene.key, Method::POST, &path).json(&body)).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    let sizes: Vec<(u32, bool)> =
        scene.runs().await.iter().map(|run| (run.ram_gb, run.ended_at.is_some())).collect();
    assert_eq!(sizes, [(4, true), (4, true), (8, false)]);
    scene.set_status("suspend", "suspended").await;
    scene.set_status("resume", "running").await;
    scene.set_status("restart", "running").await;
    let runs = scene.runs().await;
    assert!(runs.len() == 5 && runs[..4].iter().all(|run| run.ended_at.is_some()), "{runs:?}");
    // In another workspace another account is charged.
    let other_workspace = scene.controller.workspace("away").await;
    let moved = scene
        .controller
        .patch(&format!("/computers/{}/move", scene.id), json!({"workspace_id": other_workspace}))
        .await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    assert!(scene.runs().await.iter().all(|run| run.ended_at.is_some()));
    let usage = scene.controller.get(&format!("/clients/{}/usage", id_of(&scene.client))).await.body;
    assert!(usage["computer_hours"].as_f64().is_some_and(|hours| hours > 0.0), "{usage}");
}

#[tokio::test]
async fn runs_are_kept_for_the_months_that_usage_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hotdesk.db");
    let store = Store::open(&file).await.expect("a store");
    let pool = sqlx::AnyPool::connect(&format!("sqlite://{}", file.display())).await.expect("the store");
    let (client, computer, kept) = (ClientId::random(), ComputerId::random(), retained_since(clock::now()));
    let early = kept.minus(Duration::from_millis(1));
    for (id, ended_at) in [("old", Some(early)), ("kept", Some(kept)), ("goes on", None)] {
        sqlx::query(
            "INSERT INTO runs (id, computer_id, account_id, client_id, cpu, ram_gb, started_at, seen_at, ended_at) \
             VALUES ($1, $2, 'x', $3, 1, 4, 1, 1, $4)",
        )
        .bind(id)
        .bind(computer.to_string())
        .bind(client.to_string())
        .bind(ended_at.map(UnixMillis::as_i64))
        .execute(&pool)
        .await
        .expect("a run");
    }
    pool.close().await;
    let ends = async || {
        let runs = store.runs_of(client, &(UnixMillis::EPOCH..UnixMillis::MAX)).await.expect("read");
        let mut ends: Vec<Option<UnixMillis>> = runs.iter().map(|run| run.ended_at).collect();
        ends.sort_unstable();
        ends
    };
    assert_eq!(ends().await, [None, Some(early), Some(kept)]);
    store.forget_usage(kept).await.expect("forgotten");
    assert_eq!(ends().await, [None, Some(kept)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_run_goes_on_without_a_controller_and_ends_with_what_died_meanwhile() {
    let mut scene = Scene::new().await;
    let second = id_of(&create_computer(&scene.controller, &scene.key, &scene.client, "two").await.body);
    let before = scene.runs().await;
    scene.advance_clock().await;
    scene.controller.end().await;
    let ended = clock::now();
    scene.controller.host.crash(second.parse().expect("an id"));
    scene.advance_clock().await;
    scene.controller.begin(&[]).await;
    scene.controller.until_status(&second, "stopped").await;
    scene.controller.until_status(&scene.id, "running").await;
    let after = scene.runs().await;
    assert_eq!(after.len(), 2, "{after:?}");
    let of = |id: &str| after.iter().find(|run| run.computer.to_string() == id).expect("a run");
    assert_eq!(before.iter().find(|run| run.computer.to_string() == scene.id), Some(of(&scene.id)));
    // The run ends when it was last seen at the latest, because nobody observed it afterwards.
    assert!(of(&second).ended_at.is_some_and(|end| end <= ended), "{after:?}, ended {ended:?}");
    // A death that the controller observes ends the run at that time.
    scene.advance_clock().await;
    let before = clock::now();
    scene.controller.host.crash(scene.id.parse().expect("an id"));
    scene.controller.until_status(&scene.id, "stopped").await;
    let after = scene.runs().await;
    let run = after.iter().find(|run| run.computer.to_string() == scene.id).expect("a run");
    assert!(run.ended_at.is_some_and(|end| end >= before), "{run:?} must end after {before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_starts_and_stops_lengthens_runs_instead_of_adding_them() {
    let scene = Scene::new().await;
    let length = |runs: &[Run]| -> u128 {
        let of = |run: &Run| run.ended_at.and_then(|end| end.since(run.started_at)).unwrap_or_default();
        runs.iter().map(|run| of(run).as_millis()).sum()
    };
    // The maximum number of runs of this month with rows of their own, 1 ms each.
    scene
        .controller
        .sql(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) \
             INSERT INTO runs (id, computer_id, account_id, client_id, cpu, ram_gb, started_at, seen_at, ended_at) \
             SELECT 'old ' || n.i, computer_id, account_id, client_id, cpu, ram_gb, started_at - 2 * n.i, \
             started_at - 2 * n.i + 1, started_at - 2 * n.i + 1 FROM runs, n",
        )
        .await;
    assert_eq!(length(&scene.runs().await), 100);
    scene.advance_clock().await;
    scene.set_status("stop", "stopped").await;
    let runs = scene.runs().await;
    assert_eq!(runs.len(), 100, "the ended run must be merged into another");
    assert!(runs.iter().all(|run| run.ended_at.is_some()) && length(&runs) >= 120, "{runs:?}");
    scene.set_status("start", "running").await;
    scene.advance_clock().await;
    scene.set_status("stop", "stopped").await;
    let again = scene.runs().await;
    assert!(again.len() == 100 && length(&again) >= length(&runs) + 20, "{again:?}");
    // Old usage is removed.
    scene
        .controller
        .store()
        .await
        .forget_usage(clock::now().plus(Duration::from_millis(1)))
        .await
        .expect("forgotten");
    assert!(scene.runs().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_that_is_killed_in_the_middle_leaves_no_run_of_what_does_not_run() {
    let mut scene = Scene::new().await;
    for command in ["stop", "start", "restart", "suspend", "resume"] {
        let path = format!("/computers/{}/{command}", scene.id);
        let set_status = scene.controller.command(path);
        // The request is interrupted at a random point.
        let _interrupted = tokio::time::timeout(Duration::from_millis(3), set_status).await;
        scene.controller.kill().await;
        let id = scene.id.clone();
        let settled = wait::until(Duration::from_secs(20), || async {
            let status = scene.controller.status(&id).await;
            ["running", "stopped", "suspended"].contains(&status.as_str()).then_some(status)
        });
        let status = settled.await.expect("the computer must settle");
        let progress = scene.runs().await.iter().filter(|run| run.ended_at.is_none()).count();
        assert_eq!(progress, usize::from(status == "running"), "{command}: {status}");
        let back = scene.controller.command(format!("/computers/{id}/ensure-running")).await;
        assert_eq!(back.status, 200, "{}", back.body);
    }
}
