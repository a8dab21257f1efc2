//! Order of processes for the OOM killer.

use crate::harness::controller::RunningController;

/// The kernel kills the process with the highest score. Without the agent or process 1 the computer would be
/// lost.
#[tokio::test(flavor = "multi_thread")]
async fn commands_are_killed_before_the_agent_and_process_1() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let scores = "cat /proc/self/oom_score_adj /proc/1/oom_score_adj \
        /proc/$(pgrep -o -P 1)/oom_score_adj";
    let output = controller.bash(&id, scores).await;
    let scores: Vec<i32> = output.lines().map(|line| line.parse().expect("a score")).collect();
    let [command, init, agent] = scores[..] else { panic!("three scores expected: {output}") };
    assert!(command >= init + 200 && command >= agent + 200 && init > 0, "{output}");
}
