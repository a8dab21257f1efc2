//! What goes first when a computer's memory runs out?

use crate::harness::controller::RunningController;

/// The kernel kills what has the highest score; with the agent or process 1 the whole computer would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn commands_are_killed_before_the_agent_and_process_1() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let scores = "cat /proc/self/oom_score_adj /proc/1/oom_score_adj \
        /proc/$(pgrep -o -P 1)/oom_score_adj";
    let said = house.bash(&id, scores).await;
    let scores: Vec<i32> = said.lines().map(|line| line.parse().expect("a score")).collect();
    let [command, init, agent] = scores[..] else { panic!("three scores expected: {said}") };
    assert!(command >= init + 200 && command >= agent + 200 && init > 0, "{said}");
}
