//! Computer over gVisor as a desktop: suspend, fork, rollback and launches.

use hotdesk::base::wait;
use serde_json::json;

use super::desktop::{Desktop, TIMEOUT};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};

/// Commands that print what identifies a computer to its programs.
const IDENTITY: [&str; 7] = [
    "hostname",
    "cat /etc/hostname",
    "cat /etc/machine-id",
    "cat /run/hotdesk/token",
    "ip -o link | grep -o 'ether [0-9a-f:]*'",
    "ip -o addr | grep -o 'inet 10[0-9.]*'",
    "head -c 16 /dev/urandom | base64",
];

/// What GLib calls before it executes a program. It continues only when this works or is not there (ENOSYS).
const CLOSE_RANGE: &str = "python3 -c 'import ctypes, errno; c = ctypes.CDLL(None, use_errno=True); \
    print(c.close_range(1000, ctypes.c_uint(2**32 - 1), 0), errno.errorcode[ctypes.get_errno()])'";

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_over_gvisor_is_a_desktop_that_sleeps_forks_and_goes_back() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let mut desktop = Desktop::start(controller, &IDENTITY, None).await;
    let version = desktop.controller.bash(&desktop.id, "uname -v").await;
    // By this version the agent knows that it runs under gVisor.
    assert_eq!(version.trim_end(), "#1 SMP Sun Jan 10 15:06:54 PST 2016", "gVisor's kernel reports this");
    // The window manager starts a program when it manages windows, and the session waits for it.
    let log = desktop.controller.bash(&desktop.id, "cat /var/log/hotdesk/agent.log").await;
    assert!(
        log.contains("agent listening") && !log.contains("session(") && !log.contains("in time"),
        "{log}"
    );
    assert_eq!(desktop.controller.bash(&desktop.id, CLOSE_RANGE).await, "-1 ENOSYS\n");
    desktop.check_suspends(3).await;
    assert_eq!(desktop.controller.bash(&desktop.id, CLOSE_RANGE).await, "-1 ENOSYS\n");
    // A request in progress is interrupted on both sides of a fork.
    let request = desktop.controller.act(&desktop.id, "bash", json!({"command": "sleep 60"}));
    let fork = async {
        let started = wait::until(TIMEOUT, || async {
            let found = desktop.controller.bash(&desktop.id, "pgrep -f 'sleep [6]0' || true").await;
            (!found.is_empty()).then_some(())
        });
        started.await.expect("the request must be in progress");
        desktop.controller.act(&desktop.id, "fork", json!({"name": "interrupted"})).await
    };
    let (interrupted, forked) = tokio::join!(request, fork);
    assert!(interrupted.status >= 500, "{interrupted:?}");
    assert_eq!(forked.status, 201, "{}", forked.body);
    let removed = desktop.controller.delete(&format!("/computers/{}", id_of(&forked.body))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);

    let fork = desktop.check_fork().await;
    let snapshot = desktop.check_rollback(2).await;
    // A stop discards the memory: the next boot has the contents of the disk.
    let controller = &desktop.controller;
    assert_eq!(controller.act(&fork, "stop", json!({})).await.status, 200);
    controller.until_status(&fork, "stopped").await;
    assert!(!controller.machine(&fork).join("memory").exists(), "the memory must be removed");
    assert_eq!(controller.act(&fork, "start", json!({})).await.status, 200);
    let left = controller.bash(&fork, "pgrep -c xterm || true; tail -1 /root/typed").await;
    assert_eq!(left.trim(), format!("0\n{fork}"));
    assert_eq!(controller.delete(&format!("/computers/{fork}")).await.status, 200);
    desktop.check_launches(&snapshot, 4).await;
}
