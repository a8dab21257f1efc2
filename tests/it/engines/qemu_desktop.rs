//! Virtual machine as a desktop: launch of a template from its boot snapshot, suspend, fork, rollback and launches.

use reqwest::Method;

use super::desktop::Desktop;
use super::qemu::{kernel, qemu_skip_reason};
use crate::boot_snapshots;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::sampling::sampled;
use crate::templates::builds::{build, launch};

/// Boots a controller whose computers are virtual machines, with further settings. Prints the reason and
/// returns `None` where they cannot run.
pub async fn boot_controller(more: &str) -> Option<RunningController> {
    if let Some(skip) = qemu_skip_reason() {
        skip.report();
        return None;
    }
    Some(RunningController::boot_with(&configuration(more)).await)
}

/// The configuration of a controller whose computers are virtual machines, with further settings.
pub fn configuration(more: &str) -> String {
    format!("[engines]\noffered = \"vm\"\n[qemu]\nkernel = {:?}\n{more}", kernel())
}

/// Commands that print what identifies a computer to its programs. Without the address, because all guests
/// have the same one and the host maps it by slot.
const IDENTITY: [&str; 6] = [
    "hostname",
    "cat /etc/hostname",
    "cat /etc/machine-id",
    "cat /run/hotdesk/token",
    "ip -o link | grep -o 'ether [0-9a-f:]*'",
    "head -c 16 /dev/urandom | base64",
];

/// A template with a hook, and a service on a public port.
const TEMPLATE: &str = "hooks: {on_first_boot: echo first >/root/hook}\n\
    apps:\n  - name: web\n    ports: [{internal: 3000, protocol: http, public: true}]\n    services:\n      \
    - {name: site, user: root, cwd: /srv, run: exec python3 -m http.server 3000}\n";

/// Asserts that the programs of the template run in a launch, and that anybody reaches its public port.
async fn check_template(controller: &RunningController, id: &str) {
    // In one request, because each costs an emulated computer half a second.
    let wait = "until (exec 3<>/dev/tcp/127.0.0.1/3000) 2>/dev/null; do sleep 1; done; cat /root/hook";
    assert_eq!(controller.bash(id, wait).await, "first\n");
    let path = format!("/api/computers/{id}/ports/3000/");
    let answer = controller.bare(Method::GET, &path).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let page = answer.text().await.expect("a page");
    assert!(page.contains("Directory listing"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_a_desktop_that_sleeps_forks_and_goes_back() {
    if let Some(skip) = qemu_skip_reason() {
        return skip.report();
    }
    // Containers build the template, because the host never reads the disk of a virtual machine.
    let settings = configuration(boot_snapshots::ON).replace("\"vm\"", "\"vm, shared\"");
    let controller = RunningController::boot_with(&settings).await;
    let built = build(&controller, "lab@1.0.0", TEMPLATE).await;
    assert_eq!(built["status"], "ready", "{built}");
    boot_snapshots::until_there_is_one(&controller).await;
    // The desktop that goes through everything begins from the memory of its template, as most computers do.
    let mut desktop = Desktop::start(controller, &IDENTITY, Some("default/lab@1.0.0")).await;
    let workspace = desktop.controller.workspace("second").await;
    let launched = launch(&desktop.controller, &workspace, "another", "lab@1.0.0").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let another = id_of(&launched.body);
    boot_snapshots::expect_begun(&desktop.controller, 2).await;
    desktop.expect_another(&another).await;
    check_template(&desktop.controller, &desktop.id).await;
    assert_eq!(desktop.controller.delete(&format!("/computers/{another}")).await.status, 200);
    assert!(desktop.controller.bash(&desktop.id, "uname -r").await.trim().ends_with("cloud-amd64"));
    desktop.check_suspends(sampled(1, 2)).await;
    let fork = desktop.check_fork().await;
    assert_eq!(desktop.controller.delete(&format!("/computers/{fork}")).await.status, 200);
    let snapshot = desktop.check_rollback(1).await;
    // A restarted controller adopts the machine.
    let uptime_before = uptime(&desktop).await;
    desktop.controller.kill();
    desktop.controller.start_again().await;
    assert!(uptime(&desktop).await >= uptime_before, "the machine must not boot again");
    desktop.check_launches(&snapshot, sampled(1, 2)).await;
}

/// Seconds since the machine has booted.
async fn uptime(desktop: &Desktop) -> u64 {
    let text = desktop.controller.bash(&desktop.id, "cut -d. -f1 /proc/uptime").await;
    text.trim().parse().expect("seconds")
}
