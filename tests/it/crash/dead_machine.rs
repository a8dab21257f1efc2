//! Status of a computer within seconds after its machine has died, and its restart by `start`.

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::events::source::{JsonMessages, subscribe};
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::host;
use crate::harness::socket::Client;

/// Longest time until the status shows the death.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// The same on a busy machine; the best of some attempts must meet [`STATUS_TIMEOUT`].
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Verbs that start a stopped computer.
const VERBS: [&str; 2] = ["start", "ensure-running"];
/// Most attempts, of which an ordinary run takes one for each verb.
const ATTEMPTS: usize = 6;

/// Kills processes of a running computer once for each verb, and starts it again by the verb; checks its
/// status and the contents of its disk. The best attempt must meet [`STATUS_TIMEOUT`].
async fn check_status_after_kill(controller: &RunningController, victims: impl Fn(&str) -> Vec<u32>) {
    let workspace = controller.workspace("w").await;
    let created = controller.computer(&workspace, "desk").await;
    let id = created["id"].as_str().expect("an id");
    controller.bash(id, "echo kept >/root/kept; sync /root/kept").await;
    let mut quickest = Duration::MAX;
    for (attempt, verb) in VERBS.into_iter().cycle().take(ATTEMPTS).enumerate() {
        if attempt >= VERBS.len() && quickest < STATUS_TIMEOUT {
            break;
        }
        let victims = victims(id);
        assert!(!victims.is_empty(), "the computer must have processes");
        let died = Instant::now();
        for pid in victims {
            kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).expect("the process runs");
        }
        controller.until_status(id, "stopped").await;
        let delay = died.elapsed();
        println!("status changed after {delay:?}");
        assert!(delay < BUSY_TIMEOUT, "status changed after {delay:?}");
        quickest = quickest.min(delay);
        assert_eq!(host::find_leftover(id), None, "the boot's resources must be released");
        let refused = controller.post(&format!("/computers/{id}/click"), json!({"x": 1, "y": 1})).await;
        assert_eq!(
            (refused.status, &refused.body["error"]),
            (409, &json!("Computer is not running (status: stopped)"))
        );
        assert_eq!(controller.act(id, verb, json!({})).await.status, 200);
        controller.until_status(id, "running").await;
        assert_eq!(controller.bash(id, "cat /root/kept").await, "kept\n");
    }
    assert!(quickest < STATUS_TIMEOUT, "status changed after {quickest:?} at best");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_first_process_was_killed_reads_stopped_and_starts_again() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    check_status_after_kill(&controller, |id| vec![controller.init_pid(id).unsigned_abs()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_whose_kernel_in_user_space_was_killed_reads_stopped_and_starts_again() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    check_status_after_kill(&controller, host::gvisor_kernels).await;
}

/// The type and the data of the next event.
async fn next_event(client: &mut Client) -> (String, Value) {
    let event = client.next_json().await["event"].take();
    (event["type"].as_str().expect("a type").to_owned(), event["data"].clone())
}

/// Stops all processes of a computer again and again: its record says that it does not answer, and every verb
/// that ends it works.
async fn check_hung_computer(controller: &RunningController) {
    let workspace = controller.workspace("hung").await;
    let created = controller.computer(&workspace, "desk").await;
    let id = created["id"].as_str().expect("an id");
    controller.bash(id, "echo kept >/root/kept; sync /root/kept").await;
    let path = format!("/computers/{id}");
    assert_eq!(controller.record(id).await.get("agent_unresponsive_since"), None);

    let password = controller.get(&format!("{path}/vnc-password")).await;
    let socket =
        format!("/desktops/{id}/ws/events?token={}", password.body["password"].as_str().expect("a password"));
    let mut events = Client::open(controller.address(), &socket, &[]).await.expect("accepted");
    subscribe(&mut events, "subscribe", &["agent_change"]).await;

    host::stop_processes(id);
    let refused = controller.act(id, "click", json!({"x": 1, "y": 1})).await;
    let body = &refused.body;
    assert_eq!((refused.status, &body["code"]), (504, &json!("agent_unresponsive")), "{body}");
    assert_eq!(body["remedy"], "restart", "{body}");
    let record = controller.record(id).await;
    assert_eq!(
        (&record["status"], record["agent_unresponsive_since"].is_string()),
        (&json!("running"), true)
    );
    assert_eq!(body["agent_unresponsive_since"], record["agent_unresponsive_since"]);
    let change = |state: &str| {
        let since = &record["agent_unresponsive_since"];
        ("agent_change".to_owned(), json!({ "state": state, "since": since }))
    };
    assert_eq!(next_event(&mut events).await, change("unresponsive"));
    host::continue_processes(id);
    assert_eq!(next_event(&mut events).await, change("responsive"));
    let answers = wait::until(BUSY_TIMEOUT, || async {
        controller.record(id).await.get("agent_unresponsive_since").is_none().then_some(())
    });
    answers.await.expect("the record shows that the agent answers again");

    host::stop_processes(id);
    assert_eq!(controller.act(id, "restart", json!({})).await.status, 200);
    controller.until_status(id, "running").await;
    assert_eq!(controller.bash(id, "cat /root/kept").await, "kept\n");
    host::stop_processes(id);
    assert_eq!(controller.act(id, "stop", json!({})).await.status, 200);
    controller.until_status(id, "stopped").await;
    assert_eq!(host::find_leftover(id), None, "the boot's resources must be released");
    let ensured = controller.act(id, "ensure-running", json!({})).await;
    assert_eq!(ensured.body["status"], "running", "{}", ensured.body);
    host::stop_processes(id);
    assert_eq!(controller.delete(&path).await.status, 200);
    assert_eq!(controller.get(&path).await.status, 404);
    assert_eq!(host::find_leftover(id), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_container_says_so_and_can_be_ended() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    check_hung_computer(&RunningController::boot().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_gvisor_computer_says_so_and_can_be_ended() {
    let Some(configuration) = gvisor() else { return };
    check_hung_computer(&RunningController::boot_with(&configuration).await).await;
}
