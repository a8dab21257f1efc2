//! `hotdesk` commands for people: requests, output, exit codes, and confidentiality of keys.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use person::Shell;
use stand_in::{StubServer, computer};

mod admin;
mod chat;
mod completion;
mod copy;
mod demo;
mod desktop;
mod every_command;
mod hardware;
mod host;
mod keys;
mod login;
mod names;
mod open;
mod operator;
pub mod person;
mod remote;
mod secrets;
mod ssh;
mod stand_in;
mod tables;
mod templates;
mod up;
mod watch;

const ID: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";
const KEY: &str = "sk_live_ThisIsTheKeyThatMustNotLeak0123456789";

/// A server with one computer, and a shell that knows its address and a key.
async fn one_computer() -> (StubServer, Shell) {
    let server = StubServer::start().await;
    server.add_computers(&[computer(ID, "First Light", "demo")]);
    let shell = Shell::with_key(&server.url, KEY);
    (server, shell)
}

#[tokio::test]
async fn wrong_usage_ends_with_2_and_asks_nobody() {
    let (server, shell) = one_computer().await;
    for arguments in [
        &["nonsense"][..],
        &["click", "first light", "-1", "2"],
        &["click", "first light", "1"],
        &["computers", "create", "x"],
        &["computers", "list", "--api-key", KEY],
        &["computers", "list", "--key", KEY],
        &["bash", "first light"],
        &["screenshot", "first light", "--format", "gif"],
        &["screenshot", "first light", "-o", "shot.gif"],
        &["screenshot", "first light", "--json", "-o", "x.png"],
        &["cp", "a", "b"],
        &["cp", "a:b", "c:d"],
        &["cp", ":a", "b"],
        &["cp", "first light:", "x"],
        &["profile", "set", ""],
        &["completions", "smalltalk"],
    ] {
        let ended = shell.run(arguments).await;
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{arguments:?}: {ended:?}");
        assert!(!ended.err.is_empty(), "{arguments:?}");
    }
    assert_eq!(server.lines(), Vec::<String>::new());
}

#[tokio::test]
async fn a_computer_is_suspended_and_woken() {
    let (server, shell) = one_computer().await;
    let path = |verb: &str| format!("POST /api/computers/{ID}/{verb}");
    server.respond(&path("suspend"), 202, json!({"success": true, "status": "suspending"}));
    let waking = json!({"success": true, "status": "starting", "waking": true, "pending": true,
        "expected_seconds": 60});
    server.respond(&path("resume"), 202, waking);
    for (verb, progress) in [("suspend", "suspending"), ("resume", "starting")] {
        let output = shell.run(&["computers", verb, "first light", "--no-wait"]).await.expect_success();
        assert_eq!(output, format!("first light is {progress}.\n"));
    }
    // Without `--no-wait` the command waits for the new status.
    let output = shell.run(&["computers", "resume", "first light"]).await.expect_success();
    assert_eq!(output, "First Light is running.\n");
    shell.run(&["computers", "suspend", ID]).await.expect_failure(1, &["is running, not suspended"]);
    assert_eq!(server.lines().iter().filter(|line| line.starts_with("POST")).count(), 4);
}

#[tokio::test]
async fn a_computer_is_meant_by_uuid_instance_or_name() {
    let (server, shell) = one_computer().await;
    server.respond(&format!("GET /api/computers/{ID}/vnc-password"), 200, json!({"password": "pw"}));
    for wanted in [ID, "0a1b2c3d", "first light", "FIRST LIGHT"] {
        assert_eq!(shell.run(&["computers", "password", wanted]).await.expect_success(), "pw\n", "{wanted}");
    }
    assert_eq!(
        server.lines()[0],
        format!("GET /api/computers/{ID}/vnc-password"),
        "a UUID must need no list"
    );
    shell
        .run(&["computers", "get", "second light"])
        .await
        .expect_failure(1, &["there is no computer \"second light\""]);
    let mut same_name = computer(OTHER, "first light", "other");
    same_name["instance_id"] = json!("ffffffff");
    server.add_computers(&[computer(ID, "First Light", "demo"), same_name]);
    let ended = shell.run(&["computers", "delete", "first light"]).await;
    ended.expect_failure(1, &["First Light in demo", ID, "first light in other", OTHER]);
    assert!(!server.lines().iter().any(|line| line.starts_with("DELETE")));
}

#[tokio::test]
async fn json_is_the_server_s_answer_and_tables_are_for_people() {
    let (server, shell) = one_computer().await;
    let odd = "{\"zebra\":1,  \"computers\":[],\"desktops\":[],\"total\":0,\"next_offset\":null}";
    let listed = shell.run(&["computers", "list"]).await.expect_success();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(
        lines[0].starts_with("NAME") && lines[1].starts_with("First Light") && lines[1].ends_with(ID),
        "{listed}"
    );
    assert!(!listed.contains('\u{1b}'), "output without a terminal must have no colour");
    let coloured = Shell::with_key(&server.url, KEY).env("FORCE_COLOR", "1");
    assert!(coloured.run(&["computers", "list"]).await.expect_success().contains('\u{1b}'));
    let plain = Shell::with_key(&server.url, KEY).env("FORCE_COLOR", "1").env("NO_COLOR", "1");
    assert!(!plain.run(&["computers", "list"]).await.expect_success().contains('\u{1b}'));
    server.respond("GET /api/computers", 200, odd);
    assert_eq!(shell.run(&["computers", "list", "--json"]).await.expect_success(), format!("{odd}\n"));
    assert!(shell.run(&["--json", "computers", "get", ID]).await.json()["id"] == ID);
}

#[tokio::test]
async fn a_refusal_is_told_with_its_code_and_request() {
    let (server, shell) = one_computer().await;
    let refusal = json!({"error": "Computer is not running", "code": "computer_asleep", "request_id": "r-7"});
    server.respond(&format!("POST /api/computers/{ID}/click"), 409, refusal);
    let ended = shell.run(&["click", "first light", "1", "2"]).await;
    assert_eq!(ended.err, "hotdesk: Computer is not running (computer_asleep, request r-7)\n");
    ended.expect_failure(1, &[]);
    server.respond(&format!("POST /api/computers/{ID}/click"), 502, "<html>bad gateway</html>");
    shell
        .run(&["click", "first light", "1", "2"])
        .await
        .expect_failure(1, &["/api answered 502 Bad Gateway"]);
    server.respond(&format!("GET /api/computers/{ID}"), 200, "{\"hello\":\"world\"}");
    shell.run(&["computers", "get", ID]).await.expect_failure(1, &["cannot parse the server's response"]);
    let anonymous = Shell::with_key("http://127.0.0.1:1", KEY);
    anonymous
        .run(&["workspaces", "list"])
        .await
        .expect_failure(1, &["http://127.0.0.1:1/api", "refused", "hotdesk serve"]);
}

#[tokio::test]
async fn a_key_goes_to_its_server_and_nowhere_else() {
    let (server, shell) = one_computer().await;
    let other_server = StubServer::start().await;
    server.redirect("GET /api/workspaces", &format!("{}/api/workspaces", other_server.url));
    let ended = shell.run(&["workspaces", "list"]).await;
    ended.expect_failure(1, &["redirects to", &other_server.url]);
    assert!(other_server.requests().is_empty());
    assert_eq!(server.requests()[0].authorization, Some(format!("Bearer {KEY}")));

    let stored = Shell::new();
    let set = stored.run_with_input(&["profile", "set", "here", "--url", &server.url], KEY).await;
    assert!(!set.expect_success().contains(KEY));
    stored.run(&["computers", "list"]).await.expect_success();
    stored
        .run(&["computers", "list", "--url", &other_server.url])
        .await
        .expect_failure(1, &["no API key", &other_server.url]);
    assert!(other_server.requests().is_empty());
}

#[tokio::test]
async fn profiles_keep_keys_from_others_and_from_the_screen() {
    let shell = Shell::new();
    shell.run(&["computers", "list"]).await.expect_failure(1, &["no API key", "hotdesk profile set"]);
    let set = ["profile", "set", "home", "--url", "http://127.0.0.1:1"];
    let output = shell.run_with_input(&set, &format!("{KEY}\n")).await.expect_success();
    assert!(output.contains("sk_live_…6789"), "{output}");
    let file = shell.file(".hotdesk/credentials.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let held: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let home = json!({"apiKey": KEY, "url": "http://127.0.0.1:1"});
    assert_eq!(held, json!({"current": "home", "profiles": {"home": home}}));
    let other = ["profile", "set", "work", "--keep-current", "--url", "http://127.0.0.1:2"];
    shell.run_with_input(&other, "sk_live_another_key_4321").await.expect_success();
    let shown = shell.run(&["profile", "show"]).await.expect_success();
    let json = shell.run(&["profile", "show", "--json"]).await.expect_success();
    for text in [&output, &shown, &json] {
        assert!(!text.contains("MustNotLeak"), "{text}");
    }
    assert!(shown.lines().any(|line| line.starts_with('*') && line.contains("home")), "{shown}");
    shell.run(&["profile", "use", "work"]).await.expect_success();
    shell.run(&["computers", "list"]).await.expect_failure(1, &["http://127.0.0.1:2/api"]);
    shell
        .run(&["computers", "list", "--profile", "home"])
        .await
        .expect_failure(1, &["http://127.0.0.1:1/api"]);
    shell.run(&["profile", "use", "nobody"]).await.expect_failure(1, &["there is no profile"]);
    for input in ["", "\n", "two words", "ключ"] {
        shell.run_with_input(&set, input).await.expect_failure(1, &["no API key"]);
    }
    shell
        .run_with_input(&["profile", "set", "x", "--url", "nowhere"], KEY)
        .await
        .expect_failure(2, &["nowhere"]);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    shell.run(&["profile", "show"]).await.expect_failure(1, &["chmod 600"]);
}

#[tokio::test]
async fn bash_as_json_is_the_server_s_answer() {
    let (server, shell) = one_computer().await;
    let path = format!("POST /api/computers/{ID}/bash");
    let result = |code: i32| json!({"success": true, "action": "bash", "command": "c", "output": "out", "exit_code": code, "timeout": false});
    for (code, expected) in [(0, 0), (3, 3), (255, 255), (-1, 1), (256, 1)] {
        server.respond(&path, 200, result(code));
        let ended = shell.run(&["bash", "--json", "first light", "ls", "-la", "--json"]).await;
        assert_eq!((ended.code, ended.out), (expected, format!("{}\n", result(code))));
    }
    let sent: Value = serde_json::from_str(&server.requests().last().unwrap().body).unwrap();
    assert_eq!(sent["command"], "ls -la --json", "options after the command must belong to the command");
    let arguments = ["bash", "--json", "first light", "--timeout", "2.5", "-"];
    shell.run_with_input(&arguments, "sleep 9\n# é").await;
    let sent: Value = serde_json::from_str(&server.requests().last().unwrap().body).unwrap();
    assert_eq!(sent, json!({"command": "sleep 9\n# é", "timeout": 2.5}));
    server.respond(&path, 409, json!({"error": "Computer is not running", "request_id": "r"}));
    shell.run(&["bash", "--json", "first light", "true"]).await.expect_failure(255, &["not running"]);
}

#[tokio::test]
async fn a_reader_that_leaves_is_no_error() {
    let (server, shell) = one_computer().await;
    let output = "line\n".repeat(200_000);
    let result = json!({"success": true, "action": "bash", "command": "c", "output": output, "exit_code": 0});
    server.respond(&format!("POST /api/computers/{ID}/bash"), 200, result);
    let line = "hotdesk bash --json 'first light' yes | head -c 1; echo ${PIPESTATUS[0]}";
    let ended = shell.run_in_bash(line).await;
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("{0\n", ""));
    let ended = shell.run_in_bash("hotdesk openapi >/dev/full").await;
    ended.expect_failure(1, &["standard output"]);
}

#[tokio::test]
async fn text_is_typed_exactly() {
    let (server, shell) = one_computer().await;
    let done = json!({"success": true, "action": "type", "details": {}});
    server.respond(&format!("POST /api/computers/{ID}/type"), 200, done);
    let text = "ü ß 日本語 العربية 🎉 e\u{301}\t\n\"quoted\" $HOME --json";
    for (arguments, input) in [
        (["type", "first light", text], ""),
        (["type", "first light", "-"], text),
        (["type", "first light", "--x"], ""),
    ] {
        shell.run_with_input(&arguments, input).await.expect_success();
        let sent: Value = serde_json::from_str(&server.requests().last().unwrap().body).unwrap();
        let expected = if input.is_empty() { arguments[2] } else { input };
        assert_eq!(sent, json!({ "text": expected }));
    }
    shell.run(&["type", "first light", "x", "--screen", "screen-100&y"]).await.expect_success();
    assert!(server.lines().last().unwrap().ends_with("/type?screen=screen-100%26y"));
}

#[tokio::test]
async fn what_needs_no_server_is_well_formed() {
    let shell = Shell::new();
    let document = shell.run(&["openapi"]).await.json();
    assert!(document["paths"]["/computers/{id}/click"].is_object());
    let configured = Shell::new()
        .env("HOTDESK_LIMITS__MAX_COMPUTERS", "7")
        .env("HOTDESK_CACHE", "the makefile's")
        .env("HOTDESK_PROFILE", "the client's");
    let config: toml::Table = configured.run(&["config"]).await.expect_success().parse().unwrap();
    assert_eq!(config["limits"]["max_computers"].as_integer(), Some(7));
    std::fs::write(shell.file("hotdesk.toml"), configured.run(&["config"]).await.expect_success()).unwrap();
    let again: toml::Table =
        shell.run(&["config", "--config", "hotdesk.toml"]).await.expect_success().parse().unwrap();
    assert_eq!(again, config, "the printed configuration must be readable");
    assert_eq!(shell.run(&["config", "--json"]).await.json()["limits"]["max_computers"], 50);
    for dialect in ["bash", "zsh", "fish"] {
        assert!(shell.run(&["completions", dialect]).await.expect_success().contains("hotdesk"), "{dialect}");
    }
}

#[tokio::test]
async fn a_self_test_is_a_table_and_ends_with_1_when_a_check_failed() {
    let (server, shell) = one_computer().await;
    let path = format!("GET /api/computers/{ID}/selftest");
    let check = |name: &str, outcome: &str| json!({"name": name, "outcome": outcome, "detail": "as it is", "figures": {"median_ms": 0.25}});
    let found = |passed: bool, second: &str| json!({"passed": passed, "took_ms": 2300.0, "checks": [check("click", "passed"), check("type", second)]});
    let run = ["computers", "selftest", "first light"];
    server.respond(&path, 200, found(true, "skipped"));
    let output = shell.run(&run).await.expect_success();
    assert!(output.contains("median_ms 0.250"), "{output}");
    assert!(output.ends_with("first light works: 1 checks passed, 1 skipped, in 2.3 s.\n"), "{output}");
    server.respond(&path, 200, found(false, "failed"));
    let ended = shell.run(&run).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let failed = ended.out.lines().find(|line| line.contains("type")).expect("a line of the output");
    assert!(failed.starts_with("FAILED"), "{failed}");
    assert!(ended.out.ends_with("1 of 2 checks of first light failed, in 2.3 s.\n"), "{ended:?}");
    let ended = shell.run(&[&run[..], &["--json"]].concat()).await;
    let output: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((ended.code, &output["checks"][1]["outcome"]), (1, &json!("failed")));
    server.respond(&path, 409, json!({"error": "Another self-test is running", "request_id": "r"}));
    shell.run(&run).await.expect_failure(1, &["Another self-test is running"]);
}

#[tokio::test]
async fn doctor_says_what_is_missing_and_what_mends_it() {
    let shell = Shell::new();
    let here = ["doctor", "--isolations", "shared", "--data-dir", "data", "--image", "/nowhere"];
    let ended = shell.run(&here).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let output = ended.out.lines().find(|line| line.contains("guest image")).expect("a line for the image");
    assert!(output.starts_with("MISSING") && output.contains("/nowhere"), "{output}");
    assert!(ended.out.contains("to fix it: ") && ended.out.contains("are not met"), "{}", ended.out);
    let ended = shell.run(&[&here[..], &["--json"]].concat()).await;
    let output: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((ended.code, &output["ok"]), (1, &json!(false)));
    let image = output["findings"].as_array().unwrap().iter().find(|it| it["what"] == "guest image").unwrap();
    assert!(
        image["ok"] == false && image["mend"].as_str().unwrap().contains("hotdesk image build"),
        "{image}"
    );
}
