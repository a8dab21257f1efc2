//! Commands on hosts that cannot run computers, progress of `hotdesk doctor`, and Ctrl-C during a create.

use std::os::unix::fs::chown;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use tokio_util::sync::CancellationToken;

use super::person::Shell;
use crate::harness::capability::Capability;
use crate::harness::simulation::Simulation;

/// User and group `nobody`.
const NOBODY: u32 = 65534;

#[tokio::test]
async fn serve_says_at_once_why_it_cannot_run_computers_and_serves() {
    if !nix::unistd::geteuid().is_root() {
        return Capability::Root.skip("only root can give up its rights");
    }
    for (runner, finding, remedy) in [
        (
            "setpriv --reuid 65534 --regid 65534 --clear-groups",
            "root: could not be root",
            "run hotdesk serve as root",
        ),
        (
            "setpriv --bounding-set=-sys_admin",
            "namespaces: could not make namespaces",
            "in a privileged container",
        ),
    ] {
        let shell = Shell::new();
        std::fs::create_dir_all(shell.file("image/rootfs/usr/bin")).expect("a folder");
        chown(shell.home(), Some(NOBODY), Some(NOBODY)).expect("root may");
        let line = format!(
            "{runner} hotdesk serve --isolations shared --listen 127.0.0.1:0 --data-dir data --image image >out 2>log & service=$!
             until grep -q ^listening out; do kill -0 $service || exit 9; sleep 0.05; done
             cp log at-start
             export HOTDESK_API_KEY=$(sed -n 's/^account key.*: //p' out) HOTDESK_URL=$(sed -n 's/^listening on //p' out)
             hotdesk workspaces list; kill $service; wait $service || {{ cat log >&2; exit 8; }}"
        );
        let listed = shell.run_in_bash(&line).await.expect_success();
        assert!(listed.starts_with("There are no workspaces"), "{listed}");
        let at_start = std::fs::read_to_string(shell.file("at-start")).expect("a log");
        let said = at_start.lines().find(|line| line.contains("cannot run computers: ")).expect("a warning");
        assert!(said.contains(finding) && said.contains(remedy), "{said}");
    }
}

#[tokio::test]
async fn doctor_shows_on_a_terminal_what_it_checks() {
    let shell = Shell::new();
    let ended = shell.run_in_terminal("hotdesk doctor --data-dir data --image /nowhere", "").await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("checking "), "{ended:?}");
    let piped = shell.run(&["doctor", "--data-dir", "data", "--image", "/nowhere"]).await;
    assert_eq!(piped.err, "", "a pipe gets no spinner");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_during_a_create_says_that_the_server_goes_on() {
    let controller = Simulation::boot().await;
    controller.workspace("home").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    // The create lasts until the interrupted client has ended.
    let release = CancellationToken::new();
    let failure = Failure::Until(release.clone());
    controller.engine.plan(Fault { verb: Verb::Create, call: 1, failure });
    let line = "hotdesk computers create desk --workspace home & client=$!
                until hotdesk computers list -q | grep -q .; do sleep 0.05; done
                kill -INT $client; wait $client";
    shell.run_in_bash(line).await.expect_failure(
        130,
        &["the server continues to create \"desk\"", "hotdesk computers list", "hotdesk computers delete"],
    );
    release.cancel();
    let id = shell.run(&["computers", "list", "-q"]).await.expect_success();
    let running = wait::until(Duration::from_secs(60), || async {
        (controller.status(id.trim()).await == "running").then_some(())
    });
    assert!(running.await.is_some(), "the create ends without its client");
}
