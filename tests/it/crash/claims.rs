//! Claims of the pool by controllers that are killed.
//!
//! T18 (docs/security.md). Whenever a controller dies during a claim, the machine becomes one computer's,
//! stays in the pool, or is removed; it is never two at once. A step is as in `points`; the steps of a refill
//! that runs meanwhile count too. `make soak` (`HOTDESK_ROUNDS`) takes every step.

use std::collections::BTreeSet;
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use super::rounds::{look, requested_rounds};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::syscall_trace::TracedProcess;
use crate::pool::until_filled;

/// Distance between the steps that an ordinary run takes: a prime, so that it is no period of the work, and
/// less than a claim has.
const STRIDE: usize = 17;
/// Configuration lines for a pool with one machine.
const POOL: &str = "[pool]\n[[pool.sizes]]\nwanted = 1\n";
/// Longest time until nothing else is on the host: removals run in the background.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kills the controller before a step of a claim, and checks what the next one finds. Returns whether the
/// claim has such a step.
async fn kill_at_step(controller: &mut RunningController, workspace: &str, step: usize) -> bool {
    let ready = until_filled(controller, 1).await;
    let traced = TracedProcess::until(controller.pid(), step);
    let body = json!({ "workspace_id": workspace, "name": "claimed" });
    let answer = controller.request(Method::POST, "/computers").json(&body).send().await;
    let trace = traced.end().await;
    controller.reap();
    let case = format!("killed before step {step}: {:?}", trace.steps.last());
    let acknowledged = answer.is_ok_and(|answer| {
        assert_eq!(answer.status(), 201, "{case}");
        true
    });
    controller.start_again().await;
    look::wait_until_settled(controller).await;
    let records = look::records(controller).await;
    let computers: BTreeSet<String> = records.iter().map(id_of).collect();
    assert!(computers.len() == 1 || computers.is_empty() && !acknowledged, "{case}: {records:?}");
    assert!(computers.is_subset(&ready), "{case}: {records:?} is not of {ready:?}");
    for id in &computers {
        controller.until_status(id, "running").await;
        assert_eq!(controller.bash(id, "echo there").await, "there\n", "{case}");
    }
    let refilled = until_filled(controller, 1).await;
    assert!(refilled.is_disjoint(&computers), "{case}: {refilled:?} is a computer");
    let expected: BTreeSet<String> = computers.union(&refilled).cloned().collect();
    let found = || BTreeSet::from_iter(controller.machines());
    let alone = wait::until(TIMEOUT, || async { (found() == expected).then_some(()) });
    assert!(alone.await.is_some(), "{case}: {:?} instead of {expected:?}", found());
    for id in &computers {
        let removed = controller.delete(&format!("/computers/{id}")).await;
        assert_eq!(removed.status, 200, "{case}: {}", removed.body);
    }
    trace.killed
}

async fn sweep(mut controller: RunningController) {
    let workspace = controller.workspace("w").await;
    let stride = if requested_rounds().is_some() { 1 } else { STRIDE };
    let mut step = 1;
    while kill_at_step(&mut controller, &workspace, step).await {
        step += stride;
    }
    assert!(step > 1, "a claim has steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_before_any_step_of_a_claim() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    sweep(RunningController::boot_with(POOL).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_before_any_step_of_a_claim_over_gvisor() {
    let Some(configuration) = gvisor() else { return };
    sweep(RunningController::boot_with(&format!("{configuration}{POOL}")).await).await;
}
