//! Recovery of a controller that was killed during a suspend or a resume: T18 (docs/security.md). Each case
//! sets up the store and the engine as a crash at one point leaves them.

use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::domain::computer::lifecycle::Status;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Boot, Endpoint, Engine, EngineError, MachineSpec};
use hotdesk::guest::Guest;
use hotdesk::store::Store;
use hotdesk::store::fleet::computers::Computer;
use hotdesk::wire::agent::Renewal;
use serde_json::json;

use super::Scene;

/// The store and the machines of a controller that has ended.
struct OfflineController {
    scene: Scene,
    store: Store,
    id: ComputerId,
}

impl OfflineController {
    /// A computer whose agent was called once, after the end of its controller.
    async fn new() -> Self {
        let scene = Scene::boot().await;
        assert_eq!(scene.count().await, 1);
        let (store, id) = (scene.controller.store().await, scene.id.parse().expect("an id"));
        scene.controller.end().await;
        Self { scene, store, id }
    }

    async fn row(&self) -> Computer {
        self.store.computer(&ComputerRef::Id(self.id)).await.expect("a store").expect("a row")
    }

    async fn set_status(&self, status: Status) {
        self.store.set_status(self.id, status).await.expect("stored");
    }

    async fn suspend_machine(&self) {
        self.scene.controller.engine.suspend(self.id).await.expect("suspended");
    }

    async fn stop_machine(&self) {
        let engine = &self.scene.controller.engine;
        engine.stop(self.id, std::time::Duration::ZERO).await.expect("stopped");
        engine.discard_memory(self.id).await.expect("discarded");
    }

    /// Resumes the machine for the boot in the store.
    async fn resume_machine(&self) -> Endpoint {
        let row = self.row().await;
        let (id, resolution) = (self.id, row.hardware.resolution);
        let spec = MachineSpec {
            id,
            isolation: Isolation::Sandbox,
            cpu: 1.0,
            memory_bytes: 1,
            disk_bytes: 1,
            bandwidth_mbps: 0,
            layers: Vec::new(),
            egress: None,
        };
        let boot = Boot { generation: row.generation, token: row.agent_token, resolution };
        self.scene.controller.engine.resume(&spec, &boot).await.expect("resumed")
    }

    async fn start(mut self, faults: &[Fault]) -> Scene {
        self.store.close().await;
        self.scene.controller.begin(faults).await;
        self.scene
    }
}

/// Failures of the first `times` observations of a machine.
fn failing_observations(times: u32) -> Vec<Fault> {
    let failure = || Failure::Before(EngineError::failed("look", "on purpose"));
    (1..=times).map(|call| Fault { verb: Verb::Observe, call, failure: failure() }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_that_was_cut_short_is_what_the_engine_sees() {
    // Before or during the engine's call: the computer runs with its memory.
    let offline = OfflineController::new().await;
    offline.set_status(Status::Suspending).await;
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 2);

    // After the engine's call.
    let offline = OfflineController::new().await;
    offline.set_status(Status::Suspending).await;
    offline.suspend_machine().await;
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "suspended").await;
    assert_eq!(scene.read("/suspension").await.body, json!({"status": "suspended"}));
    assert_eq!(scene.count().await, 2);

    // The host rebooted.
    let offline = OfflineController::new().await;
    offline.set_status(Status::Suspending).await;
    offline.stop_machine().await;
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "stopped").await;
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!(scene.count().await, 1);

    // The first observation fails.
    let offline = OfflineController::new().await;
    offline.set_status(Status::Suspending).await;
    let scene = offline.start(&failing_observations(1)).await;
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 2);

    // All observations fail.
    let offline = OfflineController::new().await;
    offline.set_status(Status::Suspending).await;
    let scene = offline.start(&failing_observations(3)).await;
    scene.controller.until_status(&scene.id, "error").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_slept_through_a_restart_sleeps_on_or_tells_that_its_memory_is_gone() {
    let offline = OfflineController::new().await;
    offline.set_status(Status::Suspended).await;
    offline.suspend_machine().await;
    let mut scene = offline.start(&failing_observations(3)).await;
    scene.assert_status("suspended").await;
    scene.controller.restart().await;
    scene.assert_status("suspended").await;
    assert_eq!(scene.count().await, 2);
    assert_eq!(scene.controller.engine.calls(Verb::Start), 0);

    let offline = OfflineController::new().await;
    offline.set_status(Status::Suspended).await;
    offline.stop_machine().await;
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_was_cut_short_is_finished() {
    // Before the engine's call.
    let offline = OfflineController::new().await;
    offline.suspend_machine().await;
    let before = offline.row().await;
    offline.store.begin_resume(offline.id).await.expect("stored");
    let row = offline.row().await;
    assert_eq!(row.saved_token.expect("a saved token").reveal(), before.agent_token.reveal());
    assert!(
        row.agent_token.reveal() != before.agent_token.reveal() && row.generation == before.generation + 1
    );
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.controller.engine.calls(Verb::Start)), (2, 0));

    // The machine runs with its old token.
    let offline = OfflineController::new().await;
    offline.suspend_machine().await;
    offline.store.begin_resume(offline.id).await.expect("stored");
    offline.resume_machine().await;
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.agents.renewals.lock().expect("no panic").len()), (2, 1));

    // The machine runs with its new token.
    let offline = OfflineController::new().await;
    offline.suspend_machine().await;
    offline.store.begin_resume(offline.id).await.expect("stored");
    let (endpoint, row) = (offline.resume_machine().await, offline.row().await);
    let renewal = Renewal {
        agent_token: row.agent_token.reveal().to_owned(),
        unix_ms: 1,
        seed: String::new(),
        hostname: "desk".to_owned(),
        another: false,
    };
    let saved = Guest::new(endpoint, &row.saved_token.expect("a saved token")).expect("a guest");
    assert_eq!(saved.renew(&renewal).await.expect("renewed").renewed, ["token"]);
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.agents.renewals.lock().expect("no panic").len()), (2, 1));

    // The memory was used up, and then the host rebooted.
    let offline = OfflineController::new().await;
    offline.suspend_machine().await;
    offline.store.begin_resume(offline.id).await.expect("stored");
    offline.stop_machine().await;
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.controller.engine.calls(Verb::Start)), (1, 1));

    // The stop of a suspended computer is completed, and its memory is removed.
    let offline = OfflineController::new().await;
    offline.suspend_machine().await;
    offline.set_status(Status::Stopping).await;
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "stopped").await;
    assert!(!scene.controller.memory(&scene.id).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_nobody_could_watch_is_taken_up_with_the_token_that_was_saved() {
    // The engine resumed the machine, its response was lost, and no observation succeeded: the row says
    // suspended.
    let offline = OfflineController::new().await;
    offline.suspend_machine().await;
    offline.store.begin_resume(offline.id).await.expect("stored");
    offline.resume_machine().await;
    offline.set_status(Status::Suspended).await;
    let scene = offline.start(&[]).await;
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.agents.renewals.lock().expect("no panic").len()), (2, 1));
}
