//! Faults of the object store, the engine and the controller: a state stays at its origin or reaches its
//! destination completely, and nothing else remains.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hotdesk::base::ids::ComputerRef;
use hotdesk::controller::config::SuspendCompletion;
use hotdesk::domain::computer::lifecycle::Status;
use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::store::fleet::computers::Computer;
use serde_json::json;

use super::StorageScene;
use super::store::Corruption;
use crate::suspension::assert_refused;

pub const LOST: &str =
    "The computer's saved memory is damaged or missing; stop it and start it to boot from its disk";

pub fn broken() -> EngineError {
    EngineError::failed("do the step", "on purpose")
}

/// The row of the computer.
async fn row(storage: &StorageScene) -> Computer {
    let store = storage.scene.controller.store().await;
    let id = storage.scene.id.parse().expect("an id");
    let row = store.computer(&ComputerRef::Id(id)).await.expect("a store").expect("a row");
    store.close().await;
    row
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_is_asked_until_it_takes_it_and_a_copy_that_is_not_whole_is_made_again() {
    let storage = StorageScene::boot_evicting().await;
    assert_eq!(storage.scene.count().await, 1);
    for (turn, mangled) in
        [None, Some(Corruption::Truncated), Some(Corruption::Flipped), Some(Corruption::Lost)]
            .into_iter()
            .enumerate()
    {
        storage
            .until("running", || async {
                storage.scene.controller.status(&storage.scene.id).await == "running"
            })
            .await;
        storage.store.puts_fail.store(2, Ordering::SeqCst);
        *storage.store.corrupt_next.lock().expect("no panic") = mangled;
        storage.suspend_again().await;
        // The eviction waits for a complete copy, which is read back before.
        storage.until_evicted().await;
        let woken = storage.scene.ask("resume").await;
        assert_eq!(woken.status, 202, "{mangled:?}: {}", woken.body);
        assert_eq!(storage.scene.count().await, u32::try_from(turn).expect("small") + 2);
        storage.assert_disk_unchanged();
        storage.until_empty().await;
    }
    assert_eq!(storage.scene.controller.engine.calls(Verb::Start), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_in_storage_has_a_name_and_is_never_booted() {
    let storage = StorageScene::boot_evicting().await;
    let scene = &storage.scene;
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    storage.suspend_and_evict().await;
    let mut names = storage.objects("part-").await;
    names.extend(storage.objects("manifest").await);
    for name in &names {
        let intact = storage.store.read(name).await;
        for damage in [Corruption::Truncated, Corruption::Flipped, Corruption::Lost] {
            let mut bytes = intact.clone();
            let half = bytes.len() / 2;
            match damage {
                Corruption::Truncated => storage.store.write(name, &intact[..half]).await,
                Corruption::Flipped => {
                    bytes[half] ^= 1;
                    storage.store.write(name, &bytes).await;
                }
                Corruption::Lost => storage.store.remove(name).await,
            }
            assert_refused(&scene.ask("resume").await, 503, Some("saved_state_unavailable"), LOST);
            scene.assert_status("suspended").await;
        }
        storage.store.write(name, &intact).await;
    }
    // A stop and a restart fail, too: the disk is missing.
    let disk = names.iter().find(|name| name.ends_with("part-1")).expect("a part of the disk");
    let intact = storage.store.read(disk).await;
    storage.store.remove(disk).await;
    for verb in ["stop", "restart"] {
        assert_eq!(scene.ask(verb).await.status, 200);
        storage.until_status("suspended").await;
    }
    storage.store.write(disk, &intact).await;
    assert_eq!(scene.controller.engine.calls(Verb::Start), 1);
    assert_eq!(scene.count().await, 3, "the memory is restored with its saved token");

    // With damaged memory, a stop still restores the disk.
    storage.until_empty().await;
    storage.suspend_again().await;
    storage.until_evicted().await;
    let memory = storage.objects("part-0").await;
    storage.store.remove(&memory[0]).await;
    assert_refused(&scene.ask("ensure-running").await, 503, Some("saved_state_unavailable"), LOST);
    assert_eq!(scene.ask("stop").await.status, 200);
    storage.until_status("stopped").await;
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!(scene.count().await, 1);
    storage.assert_disk_unchanged();
    storage.until_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_there_leaves_a_computer_that_sleeps_on() {
    let storage = StorageScene::boot_evicting().await;
    let scene = &storage.scene;
    assert_eq!(scene.count().await, 1);
    storage.suspend_and_evict().await;
    storage.store.gets_fail.store(3, Ordering::SeqCst);
    let answer = scene.ask("resume").await;
    assert_refused(&answer, 503, Some("wake_failed"), "Computer could not be woken");
    assert!(!answer.body.to_string().contains("on purpose"), "{}", answer.body);
    scene.assert_status("suspended").await;
    storage.store.gets_hang.store(3, Ordering::SeqCst);
    assert_refused(&scene.ask("resume").await, 503, Some("wake_failed"), "Computer could not be woken");
    // A single fault is retried.
    storage.store.gets_fail.store(1, Ordering::SeqCst);
    storage.store.gets_hang.store(1, Ordering::SeqCst);
    assert_eq!(scene.ask("resume").await.status, 202);
    assert_eq!(scene.count().await, 2);
    storage.until_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_the_engine_that_fails_or_is_done_twice_changes_nothing_in_the_end() {
    let storage = StorageScene::boot_evicting().await;
    let mut calls = storage.scene.count().await;
    for verb in [
        Verb::Suspend,
        Verb::SavedState,
        Verb::ReadSaved,
        Verb::Evict,
        Verb::WriteSaved,
        Verb::FinishFetch,
        Verb::Resume,
        Verb::SyncFetched,
    ] {
        for failure in [Failure::Before(broken()), Failure::After(broken())] {
            let name = format!("{verb:?} {failure:?}");
            storage.plan(verb, failure);
            // Only the response is lost: the repeated request succeeds.
            storage.until(&name, || async { storage.scene.ask("suspend").await.status == 200 }).await;
            storage.until_evicted().await;
            storage.until(&name, || async { storage.scene.ask("resume").await.status < 300 }).await;
            calls += 1;
            assert_eq!(storage.scene.count().await, calls, "{name}");
            storage.assert_disk_unchanged();
            storage.until_empty().await;
            assert_eq!(storage.scene.controller.engine.calls(Verb::Start), 1, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_at_any_step_is_followed_by_one_that_goes_on() {
    let mut storage = StorageScene::boot_evicting().await;
    let mut calls = storage.scene.count().await;
    let pause = || Failure::Delay(Duration::from_millis(300));
    for verb in
        [Verb::ReadSaved, Verb::Evict, Verb::WriteSaved, Verb::FinishFetch, Verb::Resume, Verb::SyncFetched]
    {
        // The next controller has its own engine, whose calls are counted from 1.
        let call = storage.scene.controller.engine.calls(verb) + 1;
        storage.scene.controller.engine.plan(Fault { verb, call, failure: pause() });
        storage.suspend_again().await;
        if [Verb::ReadSaved, Verb::Evict].contains(&verb) {
            let started = || async { storage.scene.controller.engine.calls(verb) >= call };
            storage.until("started", started).await;
        } else {
            storage.until_evicted().await;
            let (controller, id) = (&storage.scene.controller, &storage.scene.id);
            assert_eq!(controller.post(&format!("/computers/{id}/start"), json!({})).await.status, 200);
            let started = || async { storage.scene.controller.engine.calls(verb) >= call };
            storage.until("started", started).await;
        }
        storage.scene.controller.restart().await;
        storage.until("resumed", || async { storage.scene.ask("resume").await.status < 300 }).await;
        calls += 1;
        assert_eq!(storage.scene.count().await, calls, "{verb:?}");
        storage.assert_disk_unchanged();
        storage.until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_a_restart_interrupts_is_made_by_the_next_controller() {
    for when in [SuspendCompletion::Background, SuspendCompletion::BeforeRelease] {
        let mut storage = StorageScene::boot(Some(0), when).await;
        assert_eq!(storage.scene.count().await, 1);
        storage.store.set_open(false);
        let suspend = storage.scene.ask("suspend").await;
        assert_eq!(suspend.status, if when == SuspendCompletion::Background { 200 } else { 202 });
        storage.scene.controller.restart().await;
        let status = if when == SuspendCompletion::Background { "suspended" } else { "suspending" };
        assert_eq!(storage.scene.read("/suspension").await.body["status"], status);
        storage.store.set_open(true);
        storage.until("evicted", || async { !storage.is_on_host() }).await;
        storage.until_status("suspended").await;
        assert_eq!(storage.objects("manifest").await.len(), 1);
        storage.scene.controller.restart().await;
        assert_eq!(storage.scene.count().await, 2, "resumed from storage by the third controller");
        storage.until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_a_row_are_swept_and_others_objects_are_not_touched() {
    let mut storage = StorageScene::boot_evicting().await;
    storage.suspend_and_evict().await;
    let before = storage.store.names().await;
    let namespace = before[0].split('/').next().expect("a name").to_owned();
    let operation = "00000000000040008000000000000001";
    for orphan in [
        format!("{namespace}/{}/9-{operation}/part-0", storage.scene.id),
        format!("{namespace}/00000000-0000-4000-8000-000000000001/1-{operation}/part-7"),
    ] {
        storage.store.write(&orphan, b"left by a crash").await;
    }
    let other_namespace = format!("another/{}/9-{operation}/part-0", storage.scene.id);
    let foreign = format!("{namespace}/readme");
    for name in [&other_namespace, &foreign] {
        storage.store.write(name, b"foreign").await;
    }
    storage.scene.controller.restart().await;
    let mut expected = [&before[..], &[other_namespace, foreign]].concat();
    expected.sort();
    storage.until("orphans removed", || async { storage.store.names().await == expected }).await;
    assert_eq!(storage.scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_loses_its_power_before_all_is_on_its_disk_has_the_copy_still() {
    let mut storage = StorageScene::boot_evicting().await;
    assert_eq!(storage.scene.count().await, 1);
    let saved = row(&storage).await.agent_token;
    storage.suspend_and_evict().await;
    for call in 1..20 {
        let call = storage.scene.controller.engine.calls(Verb::SyncFetched) + call;
        let failure = Failure::Before(broken());
        storage.scene.controller.engine.plan(Fault { verb: Verb::SyncFetched, call, failure });
    }
    assert_eq!(storage.scene.count().await, 2);
    storage.scene.controller.end().await;
    storage.scene.controller.host.reboot();
    storage.scene.controller.begin(&[]).await;
    storage.until_status("suspended").await;
    let row = row(&storage).await;
    assert_eq!((row.status, row.converging), (Status::Suspended, false));
    assert_eq!(row.saved_token.expect("a saved token").reveal(), saved.reveal());
    assert!(!storage.objects("manifest").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reads_stopped_is_on_the_host_s_disk_whatever_was_under_way() {
    let mut storage = StorageScene::boot_evicting().await;
    assert_eq!(storage.scene.count().await, 1);
    storage.suspend_and_evict().await;
    for call in 1..3 {
        let call = storage.scene.controller.engine.calls(Verb::SyncFetched) + call;
        let failure = Failure::Delay(Duration::from_secs(1));
        storage.scene.controller.engine.plan(Fault { verb: Verb::SyncFetched, call, failure });
    }
    assert_eq!(storage.scene.count().await, 2, "it is resumed and converges");
    std::fs::write(storage.scene.controller.disk(&storage.scene.id).join("late"), "written since")
        .expect("a file");
    assert_eq!(storage.scene.ask("stop").await.status, 200);
    storage.until_status("stopped").await;
    storage.scene.controller.end().await;
    storage.scene.controller.host.reboot();
    storage.scene.controller.begin(&[]).await;
    storage.scene.assert_status("stopped").await;
    storage.until_empty().await;
    assert_eq!(storage.scene.ask("start").await.status, 200);
    assert_eq!(storage.scene.count().await, 1, "a boot from its disk");
    assert_eq!(storage.scene.controller.engine.calls(Verb::WriteSaved), 0, "no second fetch");
    let late = std::fs::read(storage.scene.controller.disk(&storage.scene.id).join("late"));
    assert_eq!(late.expect("the file"), b"written since");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ended_by_itself_before_all_was_on_the_disk_sleeps_again_after_a_power_cut() {
    let mut storage = StorageScene::boot_evicting().await;
    assert_eq!(storage.scene.count().await, 1);
    storage.suspend_and_evict().await;
    for call in 1..20 {
        let call = storage.scene.controller.engine.calls(Verb::SyncFetched) + call;
        let failure = Failure::Before(broken());
        storage.scene.controller.engine.plan(Fault { verb: Verb::SyncFetched, call, failure });
    }
    assert_eq!(storage.scene.count().await, 2);
    storage.scene.controller.host.crash(storage.scene.id.parse().expect("an id"));
    storage.until_status("error").await;
    storage.scene.controller.end().await;
    storage.scene.controller.host.reboot();
    storage.scene.controller.begin(&[]).await;
    storage.until_status("suspended").await;
    assert!(!row(&storage).await.converging && !storage.objects("manifest").await.is_empty());
    assert_eq!(storage.scene.ask("stop").await.status, 200);
    storage.until_status("stopped").await;
    storage.assert_disk_unchanged();
    storage.until_empty().await;
    assert_eq!(storage.scene.ask("start").await.status, 200);
    assert_eq!(storage.scene.count().await, 1);
}
