//! A controller without privileges beside its host helper, as real processes, D15 (docs/security.md).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use serde_json::json;

use crate::crash::remains::Leftovers;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::host_helper::{HostHelper, USER};

/// Distinguishes one boot of a computer from the next: start time of its first process.
const IDENTITY: &str = "cut -d' ' -f22 /proc/1/stat";

/// A field of `/proc/PID/status`.
fn status(pid: u32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field}")).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The capabilities in a set of `/proc/PID/status`.
fn capabilities(pid: u32, set: &str) -> u64 {
    u64::from_str_radix(&status(pid, set), 16).expect("a set")
}

fn expect_no_privileges(controller: &RunningController) {
    let pid = controller.pid();
    for set in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
        assert_eq!(capabilities(pid, set), 0, "{set}");
    }
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    let user = USER.to_string();
    assert_eq!(status(pid, "Uid"), [user.as_str(); 4].join(" "));
    assert_eq!(status(pid, "Gid"), [user.as_str(); 4].join(" "));
    assert_eq!(status(pid, "Groups"), "");
}

fn expect_restricted(helper: u32) {
    // CAP_SYS_MODULE 16, CAP_SYS_RAWIO 17, CAP_SYS_BOOT 22, CAP_SYS_TIME 25, CAP_SYSLOG 34.
    for number in [16, 17, 22, 25, 34] {
        for set in ["CapEff", "CapPrm", "CapBnd"] {
            assert_eq!(capabilities(helper, set) >> number & 1, 0, "{set} has capability {number}");
        }
    }
    assert_eq!(status(helper, "NoNewPrivs"), "1");
    assert_eq!(status(helper, "Seccomp"), "2");
}

/// Whether a process of a user can write to a file or connect to a socket.
fn can_open(user: u32, path: &Path) -> bool {
    let script = "import socket, stat, os, sys\n\
                  path = sys.argv[1]\n\
                  if stat.S_ISSOCK(os.stat(path).st_mode): socket.socket(socket.AF_UNIX).connect(path)\n\
                  else: os.listdir(path) if os.path.isdir(path) else open(path)";
    let mut attempt = Command::new("python3");
    attempt.args(["-c", script]).arg(path).uid(user).gid(user).current_dir("/");
    attempt.output().expect("python3").status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn d15_a_controller_gives_up_its_privileges_and_keeps_its_computers() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    let before = controller.bash(&id, IDENTITY).await;
    let created = controller.record(&id).await;

    // An upgrade from a controller that ran as root: the store moves, the computer notices nothing.
    controller.give_up_privileges().await;
    expect_no_privileges(&controller);
    expect_restricted(controller.helper.as_ref().expect("a helper").pid());
    assert_eq!(controller.bash(&id, IDENTITY).await, before);
    assert_eq!(controller.record(&id).await["vnc_password"], created["vnc_password"]);
    let data = controller.data_dir();
    assert_eq!(fs::metadata(data.join("store/hotdesk.db")).expect("the store").uid(), USER);
    assert!(!data.join("hotdesk.db").exists());

    // The controller reaches its store and the agents' sockets, and nothing else of the data folder; others reach nothing.
    let socket = data.join("sockets").join(&id);
    assert!(can_open(USER, &socket) && can_open(USER, &controller.folder().join("host.sock")));
    let other = USER + 1;
    assert!(!can_open(other, &socket) && !can_open(other, &controller.folder().join("host.sock")));
    for closed in [data.clone(), data.join("machines"), data.join("runtime"), data.join("sockets")] {
        assert!(!can_open(USER, &closed), "{}", closed.display());
    }
    assert_eq!(fs::metadata(data.join("store")).expect("a folder").permissions().mode() & 0o777, 0o700);

    // The helper checks the host and looks for leftovers: the controller can do neither.
    let orphan_id = ComputerId::random().to_string();
    let orphan = data.join("machines").join(&orphan_id);
    fs::create_dir(&orphan).expect("a machine that no row has");
    let report = controller.get("/operator/host").await.body;
    fs::remove_dir(&orphan).expect("still there");
    let checks = report["checks"].as_array().expect("a list");
    let root = checks.iter().find(|check| check["name"] == "root").expect("it is checked");
    assert_eq!((&root["state"], &report["leftovers_error"]), (&json!("ok"), &json!(null)), "{report}");
    let listed = report["leftovers"].to_string();
    assert!(listed.contains(&orphan_id) && !listed.contains(&id), "{listed}");

    // The helper dies while the controller serves: agents do not need it, and its successor takes over.
    controller.kill_helper();
    assert_eq!(controller.act(&id, "click", json!({"x": 10, "y": 10})).await.status, 200);
    let path = format!("/computers/{id}/restart");
    let restarting = controller.post(&path, json!({}));
    let (restarted, helper) = tokio::join!(restarting, HostHelper::start(controller.folder()));
    controller.helper = Some(helper);
    assert_eq!(restarted.status, 200, "{}", restarted.body);
    assert_ne!(controller.bash(&id, IDENTITY).await, before);

    // The end of a computer is noticed by a controller that cannot watch its process.
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(controller.init_pid(&id)),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("the computer runs");
    controller.until_status(&id, "stopped").await;
    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    Leftovers::new(&controller).check_running(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_whose_helper_has_ended_stops_without_waiting_for_it() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let mut controller = RunningController::boot_beside_helper("").await;
    controller.kill_helper();
    controller.terminate();
    // Calls to a helper that is gone are repeated for 30 s.
    assert!(controller.ended(Duration::from_secs(20)).await.success(), "{}", controller.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn d15_an_agent_with_an_address_answers_the_controller_and_no_other_user() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_beside_helper(&configuration).await;
    expect_no_privileges(&controller);
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    assert_eq!(controller.bash(&id, "echo $((6 * 7))").await.trim(), "42");
    assert_eq!(controller.post(&format!("/computers/{id}/suspend"), json!({})).await.status, 200);
    // A read wakes it.
    assert_eq!(controller.bash(&id, "echo awake").await.trim(), "awake");
    let address = controller.record(&id).await["ip"].as_str().expect("an address").to_owned();
    let connects = |user: u32| {
        let script = "import socket, sys; socket.create_connection((sys.argv[1], 870), 5)";
        let mut attempt = Command::new("python3");
        attempt.args(["-c", script, &address]).uid(user).gid(user).current_dir("/");
        attempt.output().expect("python3").status.success()
    };
    // Users of controllers stay in the host's rules; another test has the user with the next number.
    let (controller_connects, other_connects) = (connects(USER), connects(USER + 2));
    assert!(controller_connects && !other_connects, "{controller_connects} {other_connects}");
    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    Leftovers::new(&controller).check_running(&[]).await;
}
