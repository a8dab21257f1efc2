//! Does a controller that was killed in the middle of a suspend or a wake find out where things stand? (threats.md T18)
//! Each row is what was stored and what the engine has, as a crash at one point leaves them.

use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::domain::lifecycle::Status;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Boot, Endpoint, Engine, EngineError, MachineSpec};
use hotdesk::guest::Guest;
use hotdesk::store::Store;
use hotdesk::store::computers::Computer;
use hotdesk::wire::agent::Renewal;
use serde_json::json;

use super::Scene;

/// A controller that is not there: its store and its machines are.
struct Night {
    scene: Scene,
    store: Store,
    id: ComputerId,
}

impl Night {
    /// A computer that was asked once, and no controller any more.
    async fn falls() -> Self {
        let scene = Scene::set().await;
        assert_eq!(scene.count().await, 1);
        let (store, id) = (scene.house.store().await, scene.id.parse().expect("an id"));
        scene.house.end().await;
        Self { scene, store, id }
    }

    async fn row(&self) -> Computer {
        self.store.computer(&ComputerRef::Id(self.id)).await.expect("a store").expect("a row")
    }

    async fn stored(&self, status: Status) {
        self.store.set_status(self.id, status).await.expect("stored");
    }

    async fn machine_suspended(&self) {
        self.scene.house.engine.suspend(self.id).await.expect("suspended");
    }

    async fn machine_stopped(&self) {
        let engine = &self.scene.house.engine;
        engine.stop(self.id, std::time::Duration::ZERO).await.expect("stopped");
        engine.discard_memory(self.id).await.expect("discarded");
    }

    /// Has the machine go on for the boot that is stored.
    async fn machine_resumed(&self) -> Endpoint {
        let row = self.row().await;
        let (id, resolution) = (self.id, row.hardware.resolution);
        let spec = MachineSpec { id, cpu: 1.0, memory_bytes: 1, disk_bytes: 1, bandwidth_mbps: 0 };
        let boot = Boot { generation: row.generation, token: row.agent_token, resolution };
        self.scene.house.engine.resume(&spec, &boot).await.expect("resumed")
    }

    async fn dawns(mut self, faults: &[Fault]) -> Scene {
        self.store.close().await;
        self.scene.house.begin(faults).await;
        self.scene
    }
}

/// Nobody can see a machine, the first so many times that it is looked for.
fn blind(times: u32) -> Vec<Fault> {
    let failure = || Failure::Before(EngineError::failed("look", "on purpose"));
    (1..=times).map(|call| Fault { verb: Verb::Observe, call, failure: failure() }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_that_was_cut_short_is_what_the_engine_sees() {
    // Before the engine was asked, or while it was: the computer runs, with what it had.
    let night = Night::falls().await;
    night.stored(Status::Suspending).await;
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 2);

    // After it was done.
    let night = Night::falls().await;
    night.stored(Status::Suspending).await;
    night.machine_suspended().await;
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "suspended").await;
    assert_eq!(scene.read("/suspension").await.body, json!({"status": "suspended"}));
    assert_eq!(scene.count().await, 2);

    // The host went down with it.
    let night = Night::falls().await;
    night.stored(Status::Suspending).await;
    night.machine_stopped().await;
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "stopped").await;
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!(scene.count().await, 1);

    // At a second look.
    let night = Night::falls().await;
    night.stored(Status::Suspending).await;
    let scene = night.dawns(&blind(1)).await;
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 2);

    // Nobody can tell.
    let night = Night::falls().await;
    night.stored(Status::Suspending).await;
    let scene = night.dawns(&blind(3)).await;
    scene.house.until_status(&scene.id, "error").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_slept_through_a_restart_sleeps_on_or_tells_that_its_memory_is_gone() {
    let night = Night::falls().await;
    night.stored(Status::Suspended).await;
    night.machine_suspended().await;
    let mut scene = night.dawns(&blind(3)).await;
    scene.is("suspended").await;
    scene.house.restart().await;
    scene.is("suspended").await;
    assert_eq!(scene.count().await, 2);
    assert_eq!(scene.house.engine.calls(Verb::Start), 0);

    let night = Night::falls().await;
    night.stored(Status::Suspended).await;
    night.machine_stopped().await;
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_was_cut_short_is_finished() {
    // Before the engine was asked.
    let night = Night::falls().await;
    night.machine_suspended().await;
    let before = night.row().await;
    night.store.begin_resume(night.id).await.expect("stored");
    let row = night.row().await;
    assert_eq!(row.saved_token.expect("kept").reveal(), before.agent_token.reveal());
    assert!(
        row.agent_token.reveal() != before.agent_token.reveal() && row.generation == before.generation + 1
    );
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.house.engine.calls(Verb::Start)), (2, 0));

    // It goes on and has its old token.
    let night = Night::falls().await;
    night.machine_suspended().await;
    night.store.begin_resume(night.id).await.expect("stored");
    night.machine_resumed().await;
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.agents.renewals.lock().expect("no panic").len()), (2, 1));

    // It has its new token already.
    let night = Night::falls().await;
    night.machine_suspended().await;
    night.store.begin_resume(night.id).await.expect("stored");
    let (endpoint, row) = (night.machine_resumed().await, night.row().await);
    let renewal = Renewal {
        agent_token: row.agent_token.reveal().to_owned(),
        unix_ms: 1,
        seed: String::new(),
        hostname: "desk".to_owned(),
        another: false,
    };
    let saved = Guest::new(endpoint, &row.saved_token.expect("kept")).expect("a guest");
    assert_eq!(saved.renew(&renewal).await.expect("renewed").renewed, ["token"]);
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.agents.renewals.lock().expect("no panic").len()), (2, 1));

    // Its memory was used, and then the host went down.
    let night = Night::falls().await;
    night.machine_suspended().await;
    night.store.begin_resume(night.id).await.expect("stored");
    night.machine_stopped().await;
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.house.engine.calls(Verb::Start)), (1, 1));

    // A stop of a computer that slept is finished, memory and all.
    let night = Night::falls().await;
    night.machine_suspended().await;
    night.stored(Status::Stopping).await;
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "stopped").await;
    assert!(!scene.house.memory(&scene.id).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_nobody_could_watch_is_taken_up_with_the_token_that_was_saved() {
    // The engine went on, its answer was lost, and nobody could look: the row says suspended, the machine runs.
    let night = Night::falls().await;
    night.machine_suspended().await;
    night.store.begin_resume(night.id).await.expect("stored");
    night.machine_resumed().await;
    night.stored(Status::Suspended).await;
    let scene = night.dawns(&[]).await;
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!((scene.count().await, scene.agents.renewals.lock().expect("no panic").len()), (2, 1));
}
