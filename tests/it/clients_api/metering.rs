//! Is the time that computers run written down with their status, whatever becomes of their controller and their host?

use std::time::Duration;

use hotdesk::base::clock::now_ms;
use hotdesk::base::ids::{ClientId, ComputerId};
use hotdesk::base::wait;
use hotdesk::domain::usage::{Run, kept_since};
use hotdesk::store::Store;
use reqwest::Method;
use serde_json::{Value, json};

use super::{client, order};
use crate::harness::agent::answered;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// A house with a client whose computer runs.
struct Scene {
    house: Simulation,
    client: Value,
    key: String,
    id: String,
}

impl Scene {
    async fn set() -> Self {
        let house = Simulation::boot().await;
        let (client, key) = client(&house, json!({"external_id": "acme"})).await;
        let id = id_of(&order(&house, &key, &client, "one").await.body);
        Self { house, client, key, id }
    }

    async fn runs(&self) -> Vec<Run> {
        let client: ClientId = id_of(&self.client).parse().expect("an id");
        self.house.store().await.runs_of(client, &(0..i64::MAX)).await.expect("read")
    }

    async fn ask(&self, command: &str, status: &str) {
        let answer = self.house.command(format!("/computers/{}/{command}", self.id)).await;
        assert!([200, 202].contains(&answer.status), "{command}: {}", answer.body);
        self.house.until_status(&self.id, status).await;
    }

    /// Waits until the wall clock has gone on, so that a run has a length.
    async fn some_time(&self) {
        let since = now_ms();
        let passed = wait::until(Duration::from_secs(10), || async { (now_ms() > since + 20).then_some(()) });
        assert!(passed.await.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_lasts_from_running_to_not_running_at_one_size() {
    let scene = Scene::set().await;
    let first = scene.runs().await;
    assert!(matches!(first[..], [Run { ram_gb: 4, ended_at: None, .. }]), "{first:?}");
    scene.some_time().await;
    scene.ask("stop", "stopped").await;
    let stopped = scene.runs().await;
    let [Run { started_at, ended_at: Some(ended_at), .. }] = stopped[..] else { panic!("{stopped:?}") };
    assert!(ended_at > started_at && started_at == first[0].started_at);
    scene.ask("start", "running").await;
    let body = json!({"mem_gb": 8});
    let path = format!("/computers/{}/resize", scene.id);
    let resized = answered(scene.house.request_with(&scene.key, Method::POST, &path).json(&body)).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    let sizes: Vec<(u32, bool)> =
        scene.runs().await.iter().map(|run| (run.ram_gb, run.ended_at.is_some())).collect();
    assert_eq!(sizes, [(4, true), (4, true), (8, false)]);
    scene.ask("suspend", "suspended").await;
    scene.ask("resume", "running").await;
    scene.ask("restart", "running").await;
    let runs = scene.runs().await;
    assert!(runs.len() == 5 && runs[..4].iter().all(|run| run.ended_at.is_some()), "{runs:?}");
    // In another workspace it is charged to another.
    let away = scene.house.workspace("away").await;
    let moved =
        scene.house.patch(&format!("/computers/{}/move", scene.id), json!({"workspace_id": away})).await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    assert!(scene.runs().await.iter().all(|run| run.ended_at.is_some()));
    let usage = scene.house.get(&format!("/clients/{}/usage", id_of(&scene.client))).await.body;
    assert!(usage["computer_hours"].as_f64().is_some_and(|hours| hours > 0.0), "{usage}");
}

#[tokio::test]
async fn runs_are_kept_for_the_months_that_usage_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hotdesk.db");
    let store = Store::open(&file).await.expect("a store");
    let pool = sqlx::AnyPool::connect(&format!("sqlite://{}", file.display())).await.expect("the store");
    let (client, computer, kept) = (ClientId::random(), ComputerId::random(), kept_since(now_ms()));
    for (id, ended_at) in [("old", Some(kept - 1)), ("kept", Some(kept)), ("goes on", None)] {
        sqlx::query(
            "INSERT INTO runs (id, computer_id, account_id, client_id, cpu, ram_gb, started_at, seen_at, ended_at) \
             VALUES ($1, $2, 'x', $3, 1, 4, 1, 1, $4)",
        )
        .bind(id)
        .bind(computer.to_string())
        .bind(client.to_string())
        .bind(ended_at)
        .execute(&pool)
        .await
        .expect("a run");
    }
    pool.close().await;
    let ends = async || {
        let runs = store.runs_of(client, &(0..i64::MAX)).await.expect("read");
        let mut ends: Vec<Option<i64>> = runs.iter().map(|run| run.ended_at).collect();
        ends.sort_unstable();
        ends
    };
    assert_eq!(ends().await, [None, Some(kept - 1), Some(kept)]);
    store.forget_usage(kept).await.expect("forgotten");
    assert_eq!(ends().await, [None, Some(kept)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_run_goes_on_without_a_controller_and_ends_with_what_died_meanwhile() {
    let mut scene = Scene::set().await;
    let second = id_of(&order(&scene.house, &scene.key, &scene.client, "two").await.body);
    let before = scene.runs().await;
    scene.some_time().await;
    scene.house.end().await;
    let ended = now_ms();
    scene.house.host.crash(second.parse().expect("an id"));
    scene.some_time().await;
    scene.house.begin(&[]).await;
    scene.house.until_status(&second, "stopped").await;
    scene.house.until_status(&scene.id, "running").await;
    let after = scene.runs().await;
    assert_eq!(after.len(), 2, "{after:?}");
    let of = |id: &str| after.iter().find(|run| run.computer.to_string() == id).expect("a run");
    assert_eq!(before.iter().find(|run| run.computer.to_string() == scene.id), Some(of(&scene.id)));
    // It ran until it was last seen, at most: not while nobody knows that it did.
    assert!(of(&second).ended_at.is_some_and(|end| end <= ended), "{after:?}, ended {ended}");
    // What dies before the controller's eyes is charged until then.
    scene.some_time().await;
    let before = now_ms();
    scene.house.host.crash(scene.id.parse().expect("an id"));
    scene.house.until_status(&scene.id, "stopped").await;
    let after = scene.runs().await;
    let run = after.iter().find(|run| run.computer.to_string() == scene.id).expect("a run");
    assert!(run.ended_at.is_some_and(|end| end >= before), "{run:?} ended before {before}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_starts_and_stops_lengthens_runs_instead_of_adding_them() {
    let scene = Scene::set().await;
    let length = |runs: &[Run]| -> i64 {
        runs.iter().map(|run| run.ended_at.map_or(0, |end| end - run.started_at)).sum()
    };
    // As many of this month as have rows of their own, of 1 ms each.
    scene
        .house
        .sql(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) \
             INSERT INTO runs (id, computer_id, account_id, client_id, cpu, ram_gb, started_at, seen_at, ended_at) \
             SELECT 'old ' || n.i, computer_id, account_id, client_id, cpu, ram_gb, started_at - 2 * n.i, \
             started_at - 2 * n.i + 1, started_at - 2 * n.i + 1 FROM runs, n",
        )
        .await;
    assert_eq!(length(&scene.runs().await), 100);
    scene.some_time().await;
    scene.ask("stop", "stopped").await;
    let runs = scene.runs().await;
    assert_eq!(runs.len(), 100, "the one that ended is part of another");
    assert!(runs.iter().all(|run| run.ended_at.is_some()) && length(&runs) >= 120, "{runs:?}");
    scene.ask("start", "running").await;
    scene.some_time().await;
    scene.ask("stop", "stopped").await;
    let again = scene.runs().await;
    assert!(again.len() == 100 && length(&again) >= length(&runs) + 20, "{again:?}");
    // What is long past is forgotten.
    scene.house.store().await.forget_usage(now_ms() + 1).await.expect("forgotten");
    assert!(scene.runs().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_that_is_killed_in_the_middle_leaves_no_run_of_what_does_not_run() {
    let mut scene = Scene::set().await;
    for command in ["stop", "start", "restart", "suspend", "resume"] {
        let path = format!("/computers/{}/{command}", scene.id);
        let ask = scene.house.command(path);
        // However far it gets.
        let _cut = tokio::time::timeout(Duration::from_millis(3), ask).await;
        scene.house.kill().await;
        let id = scene.id.clone();
        let at_rest = wait::until(Duration::from_secs(20), || async {
            let status = scene.house.status(&id).await;
            ["running", "stopped", "suspended"].contains(&status.as_str()).then_some(status)
        });
        let status = at_rest.await.expect("it comes to rest");
        let under_way = scene.runs().await.iter().filter(|run| run.ended_at.is_none()).count();
        assert_eq!(under_way, usize::from(status == "running"), "{command}: {status}");
        let back = scene.house.command(format!("/computers/{id}/ensure-running")).await;
        assert_eq!(back.status, 200, "{}", back.body);
    }
}
