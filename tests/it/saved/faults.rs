//! What becomes of a state when the store lies or fails, the engine fails, or the controller dies on the way? It is where
//! it was or where it was to go, never half, and nothing of it is left behind.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hotdesk::base::ids::ComputerRef;
use hotdesk::controller::config::When;
use hotdesk::domain::lifecycle::Status;
use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::store::computers::Computer;
use serde_json::json;

use super::Vault;
use super::store::Mangled;
use crate::suspension::refused;

pub const LOST: &str =
    "The computer's saved memory is damaged or missing; stop it and start it to boot from its disk";

pub fn broken() -> EngineError {
    EngineError::failed("do the step", "on purpose")
}

/// The computer as it is stored.
async fn row(vault: &Vault) -> Computer {
    let store = vault.scene.house.store().await;
    let id = vault.scene.id.parse().expect("an id");
    let row = store.computer(&ComputerRef::Id(id)).await.expect("a store").expect("a row");
    store.close().await;
    row
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_is_asked_until_it_takes_it_and_a_copy_that_is_not_whole_is_made_again() {
    let vault = Vault::evicting().await;
    assert_eq!(vault.scene.count().await, 1);
    for (turn, mangled) in
        [None, Some(Mangled::Truncated), Some(Mangled::Flipped), Some(Mangled::Lost)].into_iter().enumerate()
    {
        vault
            .until("running", || async { vault.scene.house.status(&vault.scene.id).await == "running" })
            .await;
        vault.store.puts_fail.store(2, Ordering::SeqCst);
        *vault.store.mangle.lock().expect("no panic") = mangled;
        vault.suspend_again().await;
        // Nothing is given up for a copy that is not whole: it was read back before.
        vault.until_evicted().await;
        let woken = vault.scene.ask("resume").await;
        assert_eq!(woken.status, 202, "{mangled:?}: {}", woken.body);
        assert_eq!(vault.scene.count().await, u32::try_from(turn).expect("small") + 2);
        vault.disk_is_as_it_was();
        vault.until_empty().await;
    }
    assert_eq!(vault.scene.house.engine.calls(Verb::Start), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_in_storage_has_a_name_and_is_never_booted() {
    let vault = Vault::evicting().await;
    let scene = &vault.scene;
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    vault.sleeps_in_storage().await;
    let mut names = vault.objects("part-").await;
    names.extend(vault.objects("manifest").await);
    for name in &names {
        let whole = vault.store.read(name).await;
        for damage in [Mangled::Truncated, Mangled::Flipped, Mangled::Lost] {
            let mut bytes = whole.clone();
            let half = bytes.len() / 2;
            match damage {
                Mangled::Truncated => vault.store.write(name, &whole[..half]).await,
                Mangled::Flipped => {
                    bytes[half] ^= 1;
                    vault.store.write(name, &bytes).await;
                }
                Mangled::Lost => vault.store.remove(name).await,
            }
            refused(&scene.ask("resume").await, 503, Some("saved_state_unavailable"), LOST);
            scene.is("suspended").await;
        }
        vault.store.write(name, &whole).await;
    }
    // Neither does a stop pretend: the disk is not there.
    let disk = names.iter().find(|name| name.ends_with("part-1")).expect("a part of the disk");
    let whole = vault.store.read(disk).await;
    vault.store.remove(disk).await;
    for verb in ["stop", "restart"] {
        assert_eq!(scene.ask(verb).await.status, 200);
        vault.until_status("suspended").await;
    }
    vault.store.write(disk, &whole).await;
    assert_eq!(scene.house.engine.calls(Verb::Start), 1);
    assert_eq!(scene.count().await, 3, "whole again, with the token that was saved");

    // Where only its memory is damaged, the disk is still what it was.
    vault.until_empty().await;
    vault.suspend_again().await;
    vault.until_evicted().await;
    let memory = vault.objects("part-0").await;
    vault.store.remove(&memory[0]).await;
    refused(&scene.ask("ensure-running").await, 503, Some("saved_state_unavailable"), LOST);
    assert_eq!(scene.ask("stop").await.status, 200);
    vault.until_status("stopped").await;
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!(scene.count().await, 1);
    vault.disk_is_as_it_was();
    vault.until_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_there_leaves_a_computer_that_sleeps_on() {
    let vault = Vault::evicting().await;
    let scene = &vault.scene;
    assert_eq!(scene.count().await, 1);
    vault.sleeps_in_storage().await;
    vault.store.gets_fail.store(3, Ordering::SeqCst);
    let answer = scene.ask("resume").await;
    refused(&answer, 503, Some("wake_failed"), "Computer could not be woken");
    assert!(!answer.body.to_string().contains("on purpose"), "{}", answer.body);
    scene.is("suspended").await;
    vault.store.gets_hang.store(3, Ordering::SeqCst);
    refused(&scene.ask("resume").await, 503, Some("wake_failed"), "Computer could not be woken");
    // Once is no matter.
    vault.store.gets_fail.store(1, Ordering::SeqCst);
    vault.store.gets_hang.store(1, Ordering::SeqCst);
    assert_eq!(scene.ask("resume").await.status, 202);
    assert_eq!(scene.count().await, 2);
    vault.until_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_the_engine_that_fails_or_is_done_twice_changes_nothing_in_the_end() {
    let vault = Vault::evicting().await;
    let mut counted = vault.scene.count().await;
    for verb in [
        Verb::Suspend,
        Verb::Saved,
        Verb::ReadSaved,
        Verb::Evict,
        Verb::WriteSaved,
        Verb::Arrived,
        Verb::Resume,
        Verb::Converge,
    ] {
        for failure in [Failure::Before(broken()), Failure::After(broken())] {
            let name = format!("{verb:?} {failure:?}");
            vault.plan(verb, failure);
            // Only an answer that is lost: asked again, it is done.
            vault.until(&name, || async { vault.scene.ask("suspend").await.status == 200 }).await;
            vault.until_evicted().await;
            vault.until(&name, || async { vault.scene.ask("resume").await.status < 300 }).await;
            counted += 1;
            assert_eq!(vault.scene.count().await, counted, "{name}");
            vault.disk_is_as_it_was();
            vault.until_empty().await;
            assert_eq!(vault.scene.house.engine.calls(Verb::Start), 1, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_at_any_step_is_followed_by_one_that_goes_on() {
    let mut vault = Vault::evicting().await;
    let mut counted = vault.scene.count().await;
    let pause = || Failure::Delay(Duration::from_millis(300));
    for verb in [Verb::ReadSaved, Verb::Evict, Verb::WriteSaved, Verb::Arrived, Verb::Resume, Verb::Converge]
    {
        // The next controller has an engine of its own, whose calls are counted from 1.
        let call = vault.scene.house.engine.calls(verb) + 1;
        vault.scene.house.engine.plan(Fault { verb, call, failure: pause() });
        vault.suspend_again().await;
        if [Verb::ReadSaved, Verb::Evict].contains(&verb) {
            let begun = || async { vault.scene.house.engine.calls(verb) >= call };
            vault.until("begun", begun).await;
        } else {
            vault.until_evicted().await;
            let (house, id) = (&vault.scene.house, &vault.scene.id);
            assert_eq!(house.post(&format!("/computers/{id}/start"), json!({})).await.status, 200);
            let begun = || async { vault.scene.house.engine.calls(verb) >= call };
            vault.until("begun", begun).await;
        }
        vault.scene.house.restart().await;
        vault.until("awake", || async { vault.scene.ask("resume").await.status < 300 }).await;
        counted += 1;
        assert_eq!(vault.scene.count().await, counted, "{verb:?}");
        vault.disk_is_as_it_was();
        vault.until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_a_restart_interrupts_is_made_by_the_next_controller() {
    for when in [When::Background, When::BeforeRelease] {
        let mut vault = Vault::open(Some(0), when).await;
        assert_eq!(vault.scene.count().await, 1);
        vault.store.opens(false);
        let asked = vault.scene.ask("suspend").await;
        assert_eq!(asked.status, if when == When::Background { 200 } else { 202 });
        vault.scene.house.restart().await;
        let status = if when == When::Background { "suspended" } else { "suspending" };
        assert_eq!(vault.scene.read("/suspension").await.body["status"], status);
        vault.store.opens(true);
        vault.until("evicted", || async { !vault.is_here() }).await;
        vault.until_status("suspended").await;
        assert_eq!(vault.objects("manifest").await.len(), 1);
        vault.scene.house.restart().await;
        assert_eq!(vault.scene.count().await, 2, "woken from storage by the third");
        vault.until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_a_row_are_swept_and_others_objects_are_not_touched() {
    let mut vault = Vault::evicting().await;
    vault.sleeps_in_storage().await;
    let before = vault.store.names().await;
    let namespace = before[0].split('/').next().expect("a name").to_owned();
    let operation = "00000000000040008000000000000001";
    for orphan in [
        format!("{namespace}/{}/9-{operation}/part-0", vault.scene.id),
        format!("{namespace}/00000000-0000-4000-8000-000000000001/1-{operation}/part-7"),
    ] {
        vault.store.write(&orphan, b"left by a crash").await;
    }
    let others = format!("another/{}/9-{operation}/part-0", vault.scene.id);
    let foreign = format!("{namespace}/readme");
    for kept in [&others, &foreign] {
        vault.store.write(kept, b"somebody's").await;
    }
    vault.scene.house.restart().await;
    let mut expected = [&before[..], &[others, foreign]].concat();
    expected.sort();
    vault.until("swept", || async { vault.store.names().await == expected }).await;
    assert_eq!(vault.scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_loses_its_power_before_all_is_on_its_disk_has_the_copy_still() {
    let mut vault = Vault::evicting().await;
    assert_eq!(vault.scene.count().await, 1);
    let saved = row(&vault).await.agent_token;
    vault.sleeps_in_storage().await;
    for call in 1..20 {
        let call = vault.scene.house.engine.calls(Verb::Converge) + call;
        let failure = Failure::Before(broken());
        vault.scene.house.engine.plan(Fault { verb: Verb::Converge, call, failure });
    }
    assert_eq!(vault.scene.count().await, 2);
    vault.scene.house.end().await;
    vault.scene.house.host.reboot();
    vault.scene.house.begin(&[]).await;
    vault.until_status("suspended").await;
    let row = row(&vault).await;
    assert_eq!((row.status, row.converging), (Status::Suspended, false));
    assert_eq!(row.saved_token.expect("kept").reveal(), saved.reveal());
    assert!(!vault.objects("manifest").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reads_stopped_is_on_the_host_s_disk_whatever_was_under_way() {
    let mut vault = Vault::evicting().await;
    assert_eq!(vault.scene.count().await, 1);
    vault.sleeps_in_storage().await;
    for call in 1..3 {
        let call = vault.scene.house.engine.calls(Verb::Converge) + call;
        let failure = Failure::Delay(Duration::from_secs(1));
        vault.scene.house.engine.plan(Fault { verb: Verb::Converge, call, failure });
    }
    assert_eq!(vault.scene.count().await, 2, "it woke, and converges");
    std::fs::write(vault.scene.house.disk(&vault.scene.id).join("late"), "written since").expect("a file");
    assert_eq!(vault.scene.ask("stop").await.status, 200);
    vault.until_status("stopped").await;
    vault.scene.house.end().await;
    vault.scene.house.host.reboot();
    vault.scene.house.begin(&[]).await;
    vault.scene.is("stopped").await;
    vault.until_empty().await;
    assert_eq!(vault.scene.ask("start").await.status, 200);
    assert_eq!(vault.scene.count().await, 1, "booted from its disk");
    assert_eq!(vault.scene.house.engine.calls(Verb::WriteSaved), 0, "nothing is fetched again");
    let late = std::fs::read(vault.scene.house.disk(&vault.scene.id).join("late"));
    assert_eq!(late.expect("the file"), b"written since");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ended_by_itself_before_all_was_on_the_disk_sleeps_again_after_a_power_cut() {
    let mut vault = Vault::evicting().await;
    assert_eq!(vault.scene.count().await, 1);
    vault.sleeps_in_storage().await;
    for call in 1..20 {
        let call = vault.scene.house.engine.calls(Verb::Converge) + call;
        let failure = Failure::Before(broken());
        vault.scene.house.engine.plan(Fault { verb: Verb::Converge, call, failure });
    }
    assert_eq!(vault.scene.count().await, 2);
    vault.scene.house.host.crash(vault.scene.id.parse().expect("an id"));
    vault.until_status("error").await;
    vault.scene.house.end().await;
    vault.scene.house.host.reboot();
    vault.scene.house.begin(&[]).await;
    vault.until_status("suspended").await;
    assert!(!row(&vault).await.converging && !vault.objects("manifest").await.is_empty());
    assert_eq!(vault.scene.ask("stop").await.status, 200);
    vault.until_status("stopped").await;
    vault.disk_is_as_it_was();
    vault.until_empty().await;
    assert_eq!(vault.scene.ask("start").await.status, 200);
    assert_eq!(vault.scene.count().await, 1);
}
