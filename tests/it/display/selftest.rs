//! Self-test of an agent: success, specific failures, skipped checks, and complete clean-up.

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::wait;
use hotdesk::domain::limits::MAX_SELFTEST_SECONDS;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, GrabMode, GrabStatus};

use super::fixture::{Claim, TIMEOUT, is_running};
use super::screens::kill;
use crate::harness::agent::RunningAgent;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::picture;

/// Every check in order.
const CHECKS: [&str; 13] = [
    "screen",
    "windows",
    "screenshot",
    "click",
    "scroll",
    "type",
    "keys",
    "clipboard",
    "bash",
    "python",
    "files",
    "audio",
    "elements",
];

/// An agent whose screens use the claimed display numbers.
async fn start_agent(claim: &Claim, session: &str) -> Option<RunningAgent> {
    if !["/usr/bin/Xvnc", "/usr/bin/Xvfb"].iter().any(|server| std::path::Path::new(server).exists()) {
        Capability::X11.skip("neither Xvnc nor Xvfb is installed");
        return None;
    }
    let display = format!("own:{}", claim.base);
    let missing_folder = "/nonexistent/hotdesk-session";
    let options = ["--display", &display, "--session", session, "--session-dir", missing_folder];
    let agent = RunningAgent::with(&[&options[..], &["--resolution", "640x480x24"]].concat()).await;
    let ready = wait::until(TIMEOUT, || async {
        let shot = agent.request(Method::GET, "/screenshot").send().await.ok()?;
        shot.status().is_success().then_some(())
    });
    ready.await.expect("the boot screen is ready");
    Some(agent)
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

fn outcome<'a>(report: &'a Value, name: &str) -> &'a str {
    check(report, name)["outcome"].as_str().expect("an outcome")
}

/// Asserts that nothing of a self-test is left: neither its screen nor its display number nor its files.
async fn expect_no_leftovers(agent: &RunningAgent, claim: &Claim) {
    let hidden = format!(":{}", claim.base + 1);
    let gone = wait::until(TIMEOUT, || async { (!is_running(&hidden)).then_some(()) });
    gone.await.expect("the hidden screen must end");
    let listed = agent.get("/screens").await.body;
    assert_eq!(listed["screens"].as_array().map(Vec::len), Some(1), "{listed}");
    let left = wait::until(TIMEOUT, || async {
        let folder = std::fs::read_dir(agent.home()).expect("the home folder").flatten();
        (folder.filter(|it| it.file_name().to_string_lossy().contains("selftest")).count() == 0).then_some(())
    });
    left.await.expect("the self-test's folder must be removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_screen_passes_and_what_is_not_there_is_skipped_with_its_reason() {
    let claim = Claim::new();
    let Some(agent) = start_agent(&claim, "none").await else { return };
    let answer = agent.get("/selftest").await;
    let report = &answer.body;
    println!("{report:#}");
    assert_eq!(answer.status, 200, "{report}");
    let names: Vec<&str> =
        report["checks"].as_array().expect("checks").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, CHECKS);
    for name in CHECKS {
        let expected = if ["windows", "audio", "elements"].contains(&name) { "skipped" } else { "passed" };
        assert_eq!(outcome(report, name), expected, "{}", check(report, name));
        assert!(!check(report, name)["detail"].as_str().expect("a detail").is_empty());
    }
    assert_eq!(report["passed"], true);
    let figure =
        |name: &str, figure: &str| check(report, name)["figures"][figure].as_f64().expect("a figure");
    assert_eq!((figure("click", "sent"), figure("click", "arrived")), (101.0, 101.0));
    assert_eq!((figure("scroll", "arrived"), figure("type", "right")), (100.0, 200.0));
    for (name, cost) in [("screenshot", "png_ms"), ("screenshot", "unchanged_ms"), ("click", "median_ms")] {
        assert!(figure(name, cost) > 0.0, "{name} {cost}");
    }
    assert!(report["took_ms"].as_f64().is_some_and(|duration| duration <= MAX_SELFTEST_SECONDS * 1000.0));
    expect_no_leftovers(&agent, &claim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_self_tests_at_once_one_is_refused_and_the_screen_is_in_no_list() {
    let claim = Claim::new();
    let Some(agent) = start_agent(&claim, "none").await else { return };
    let both = join_all([agent.get("/selftest"), agent.get("/selftest")]);
    let watch = async {
        let hidden = format!(":{}", claim.base + 1);
        let server_started = wait::until(TIMEOUT, || async { is_running(&hidden).then_some(()) });
        server_started.await.expect("the hidden screen must start");
        for path in ["/screenshot?screen=selftest", "/windows?screen=selftest"] {
            assert_eq!(agent.get(path).await.status, 404, "{path}");
        }
        assert_eq!(agent.delete("/screens/selftest").await.status, 404);
        agent.get("/screens").await.body["screens"].as_array().map(Vec::len)
    };
    let (both, screens) = futures_util::join!(both, watch);
    let mut statuses: Vec<u16> = both.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{both:?}");
    assert_eq!(screens, Some(1));
    assert!(both.iter().any(|answer| answer.body["passed"] == true), "{both:?}");
    // Without a free display number there is no self-test.
    for _ in 1..4 {
        assert_eq!(agent.post("/screens", json!({})).await.status, 200);
    }
    let refused = agent.get("/selftest").await;
    assert_eq!(refused.status, 409, "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_takes_the_keyboard_fails_what_types_and_nothing_else() {
    let claim = Claim::new();
    let Some(agent) = start_agent(&claim, "none").await else { return };
    let grab_keyboard = async {
        let display = format!(":{}", claim.base + 1);
        let server_started = wait::until(TIMEOUT, || async { is_running(&display).then_some(()) });
        server_started.await.expect("the hidden screen must start");
        // Stop the agent until the keyboard is grabbed: on a busy machine it might type first.
        kill(agent.pid(), Signal::SIGSTOP);
        let link = wait::until(TIMEOUT, || async { x11rb::connect(Some(&display)).ok() });
        let (link, number) = link.await.expect("a connection to the hidden screen");
        let root = link.setup().roots[number].root;
        let mode = GrabMode::ASYNC;
        let grab = link.grab_keyboard(false, root, x11rb::CURRENT_TIME, mode, mode).expect("a request");
        assert_eq!(grab.reply().expect("a grab").status, GrabStatus::SUCCESS);
        kill(agent.pid(), Signal::SIGCONT);
        link
    };
    let (answer, _link) = futures_util::join!(agent.get("/selftest"), grab_keyboard);
    let report = &answer.body;
    assert_eq!((answer.status, &report["passed"]), (200, &json!(false)), "{report}");
    for name in CHECKS {
        let typed = ["type", "keys"].contains(&name);
        assert_eq!(outcome(report, name) == "failed", typed, "{}", check(report, name));
    }
    assert_eq!(check(report, "type")["detail"], "0 of 200 characters arrived");
    expect_no_leftovers(&agent, &claim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_window_manager_fails_the_windows() {
    let claim = Claim::new();
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("session");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").expect("a script");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).expect("permissions");
    let Some(agent) = start_agent(&claim, &folder.path().to_string_lossy()).await else { return };
    let answer = agent.get("/selftest").await;
    let report = &answer.body;
    assert_eq!((answer.status, &report["passed"]), (200, &json!(false)), "{report}");
    let failed: Vec<&str> = CHECKS.into_iter().filter(|name| outcome(report, name) == "failed").collect();
    assert_eq!(failed, ["windows"], "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_half_way_leaves_nothing_behind() {
    let claim = Claim::new();
    let Some(agent) = start_agent(&claim, "none").await else { return };
    let hidden = format!(":{}", claim.base + 1);
    let server_started = wait::until(TIMEOUT, || async { is_running(&hidden).then_some(()) });
    let asked = agent.request(Method::GET, "/selftest").send();
    // The request is dropped as soon as the screen exists.
    tokio::select! {
        server_started = server_started => server_started.expect("the hidden screen must start"),
        answer = asked => panic!("answered before the screen was seen: {answer:?}"),
    }
    expect_no_leftovers(&agent, &claim).await;
    let again = wait::until(TIMEOUT, || async {
        let answer = agent.get("/selftest").await;
        (answer.status != 409).then_some(answer)
    });
    let again = again.await.expect("a turn");
    assert_eq!((again.status, &again.body["passed"]), (200, &json!(true)), "{}", again.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_screens_the_rest_is_tried() {
    let agent = RunningAgent::headless().await;
    let report = agent.get("/selftest").await.body;
    assert_eq!(report["passed"], true, "{report}");
    let passed: Vec<&str> = CHECKS.into_iter().filter(|name| outcome(&report, name) == "passed").collect();
    assert_eq!(passed, ["bash", "python", "files"], "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_computer_passes_everything_through_the_controller() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let computer = controller.computer(&workspace, "tried").await["id"].as_str().expect("an id").to_owned();
    let path = format!("/computers/{computer}/selftest");
    let answer = controller.get(&path).await;
    let report = &answer.body;
    println!("{report:#}");
    assert_eq!((answer.status, &report["passed"]), (200, &json!(true)), "{report}");
    for name in CHECKS {
        assert_eq!(outcome(report, name), "passed", "{}", check(report, name));
    }
    // The visible screen is unchanged.
    let shot =
        controller.request(Method::GET, &format!("/computers/{computer}/screenshot?response_format=binary"));
    let shot = shot.timeout(Duration::from_secs(30)).send().await.expect("an answer");
    assert_eq!(picture::size(&shot.bytes().await.expect("a picture")), (1280, 720));
    let listed = controller.get(&format!("/computers/{computer}/screens")).await.body;
    assert_eq!(listed["screens"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(controller.bash(&computer, "ls -a ~ | grep selftest").await, "");
}
