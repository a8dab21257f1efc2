//! Authentication of the agent's API, health, and start-up checks.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use hotdesk::wire::desktop::action::Action;

use crate::floors::{root, rust_files};
use crate::harness::agent::{OwnedChild, RunningAgent, client_builder, command, end, fetch_json};

/// Methods that are tried on each path, whether it has them or not: the gate comes before the routes.
const METHODS: [Method; 3] = [Method::GET, Method::POST, Method::DELETE];

/// The paths of the agent's routes behind the gate: those of its sources and of the table of actions, and an unknown one.
fn paths() -> BTreeSet<String> {
    let sources = rust_files(&root().join("src/agent/routes"));
    // Channels are upgraded before they are refused (docs/channels.md).
    let gated = sources.into_iter().filter(|file| !file.ends_with("sockets.rs"));
    let texts: Vec<String> = gated.map(|file| fs::read_to_string(file).expect("a readable source")).collect();
    let after = texts.iter().flat_map(|text| text.split(".route(").skip(1));
    let routes = after.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split_once('"'));
    let example = |path: &str| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let routes = routes.map(|(path, _)| example(path));
    let actions = Action::NAMES.iter().map(|name| format!("/{name}"));
    routes.chain(actions).chain(["/nothing/here".to_owned(), "/".to_owned()]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_without_the_token_or_for_a_web_page() {
    let Some(agent) = RunningAgent::with_screen().await else { return };
    let paths = paths();
    assert!(paths.len() > 70 && paths.contains("/windows/x/focus"), "found only {paths:?}");
    let each = paths.iter().flat_map(|path| METHODS.map(|method| (method, path.as_str())));
    for (method, path) in each {
        let bare = || agent.bare(method.clone(), path).body("{}");
        let half = &agent.token()[..20];
        for (what, request) in [
            ("no token", bare()),
            ("wrong token", bare().bearer_auth("0123456789abcdef0123456789abcdef")),
            ("half a token", bare().bearer_auth(half)),
            ("two fields", bare().bearer_auth(agent.token()).header("authorization", "Bearer x")),
            ("basic", bare().basic_auth("root", Some(agent.token()))),
        ] {
            let refused = fetch_json(request).await;
            assert_eq!(refused.status, 401, "{what}: {method} {path}");
            assert!(refused.body["error"].is_string() && refused.body["request_id"].is_string());
        }
        for origin in ["http://127.0.0.1", "null", "https://example.com", ""] {
            let page = agent.request(method.clone(), path).body("{}").header("origin", origin);
            assert_eq!(fetch_json(page).await.status, 403, "origin {origin:?}: {method} {path}");
        }
    }
    assert!(!agent.home().join("Desktop").exists(), "a refused upload must not create the folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_screen_becomes_ready_and_its_commands_reach_it() {
    let Some(agent) = RunningAgent::with_screen().await else { return };
    let ready = hotdesk::base::wait::until(Duration::from_secs(20), || async {
        let health = agent.get("/health").await;
        assert_eq!(health.status, 200);
        assert!(["ok", "starting"].contains(&health.body["status"].as_str().expect("a status")));
        (health.body["status"] == "ok").then_some(health.body)
    });
    assert_eq!(ready.await.expect("the screen must become ready")["screens"], json!(1));
    let at_once = agent.get("/health?usable_within_ms=4294967295").await;
    assert_eq!((at_once.status, &at_once.body["status"]), (200, &json!("ok")));
    let screens = agent.get("/screens").await.body;
    let display = screens["screens"][0]["display"].as_str().expect("a display").to_owned();
    assert_eq!(agent.bash("echo $DISPLAY").await.body["output"], json!(format!("{display}\n")));
    let reached = agent.exec("import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/tmp/.X11-unix/X' + os.environ['DISPLAY'][1:])\nprint('reached')");
    assert_eq!(reached.await.body["output"], json!("reached\n"));
    let shot = agent.get("/screenshot").await;
    assert_eq!((shot.status, &shot.body["width"], &shot.body["height"]), (200, &json!(800), &json!(600)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_check_waits_for_the_screen_as_long_as_it_says() {
    let Some(agent) = RunningAgent::with_screen().await else { return };
    let within = Duration::from_secs(3);
    // The screen may be usable before the first request.
    let usable = hotdesk::base::wait::until(Duration::from_secs(20), || async {
        let health = agent.get(&format!("/health?usable_within_ms={}", within.as_millis())).await;
        let is_usable = health.body["status"] == "ok";
        assert!(is_usable || health.took >= within, "{:?} after {:?}", health.body, health.took);
        is_usable.then_some(())
    });
    usable.await.expect("the screen must become ready");
    let wrong = agent.get("/health?usable_within_ms=soon").await;
    assert_eq!(wrong.status, 400, "{}", wrong.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_waits_and_unknown_paths_answer_in_json() {
    let agent = RunningAgent::headless().await;
    let health = agent.get("/health").await;
    assert_eq!((health.status, &health.body["status"]), (200, &json!("ok")));
    let figure = |field: &str| health.body[field].as_u64().expect("a number");
    assert!(figure("memory_total_bytes") > figure("memory_used_bytes"));
    assert!(figure("memory_used_bytes") > 0 && figure("cpu_count") > 0);
    assert!(figure("disk_total_bytes") >= figure("disk_used_bytes") && figure("disk_used_bytes") > 0);
    assert!(figure("cpu_used_ms") > 0);

    for body in [json!({"seconds": 0.3}), json!({"duration": 0.3})] {
        let waited = agent.post("/wait", body).await;
        assert_eq!((waited.status, &waited.body["action"]), (200, &json!("wait")));
        assert!(waited.took >= Duration::from_millis(300) && waited.took < Duration::from_secs(20));
    }
    for body in [json!({}), json!({"seconds": 61}), json!({"seconds": -1}), json!({"seconds": "1"})] {
        let refused = agent.post("/wait", body.clone()).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.body["error"].is_string());
    }
    assert_eq!(agent.get("/nothing/here").await.status, 404);
    assert_eq!(agent.get("/bash").await.status, 405);
}

#[test]
fn an_agent_that_could_be_misused_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let open = folder.path().join("open");
    fs::write(&open, "0123456789abcdef0123").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let open = open.to_string_lossy();
    for (options, reason) in [
        (vec!["--listen", "0.0.0.0:0"], "--allow-remote"),
        (vec!["--listen", "127.0.0.1:0", "--token-file", &open], "lets others in"),
        (vec!["--listen", "127.0.0.1:0", "--token-file", "/nonexistent"], "/nonexistent"),
        (vec!["--listen", "fd:1"], "standard stream"),
        (vec!["--listen", "127.0.0.1:0", "--display", "localhost:1"], "localhost:1"),
        (vec!["--listen", "127.0.0.1:0", "--resolution", "1x1"], "resolution"),
    ] {
        let output = command(folder.path()).args(&options).output().expect("the agent starts");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(reason), "{options:?}: {message}");
        assert!(!message.contains("0123456789abcdef"), "the message must not contain the token: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_on_a_unix_socket_answers_its_owner_and_stops_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("home")).unwrap();
    let token = folder.path().join("given");
    fs::write(&token, "a-given-token-of-some-length\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o400)).unwrap();
    let socket = folder.path().join("agent.sock");
    let child = command(folder.path())
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .arg("--token-file")
        .arg(&token)
        .args(["--display", "none"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = OwnedChild(child);
    hotdesk::base::wait::until(Duration::from_secs(20), || {
        let exists = socket.exists();
        async move { exists.then_some(()) }
    })
    .await
    .expect("the socket must appear");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let client = client_builder().unix_socket(socket.clone()).build().unwrap();
    let health = client.get("http://agent/health").bearer_auth("a-given-token-of-some-length");
    assert_eq!(fetch_json(health).await.status, 200);
    end(&mut child.0);
    assert!(child.0.wait().unwrap().success(), "SIGTERM must end the agent with success");
    assert!(!folder.path().join("run/token").exists(), "a given token must not be copied");
}

#[tokio::test]
async fn an_agent_that_was_killed_is_followed_by_one_on_the_same_folders() {
    let mut agent = RunningAgent::headless().await;
    agent.bash("echo kept > kept").await;
    agent.restart().await;
    assert_eq!(agent.get("/health").await.status, 200);
    assert_eq!(agent.bash("cat kept").await.body["output"], "kept\n");
}
