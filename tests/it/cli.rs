//! Does the human's command line ask the right thing, say what came of it, and keep keys to itself?

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use person::Person;
use stand_in::{StandIn, computer};

mod admin;
mod demo;
mod every_command;
mod hardware;
mod keys;
mod login;
mod operator;
pub mod person;
mod stand_in;

const ID: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";
const KEY: &str = "sk_live_ThisIsTheKeyThatMustNotLeak0123456789";

/// A server with one computer, and somebody who knows it.
async fn one_computer() -> (StandIn, Person) {
    let server = StandIn::listening().await;
    server.has_computers(&[computer(ID, "First Light", "demo")]);
    let person = Person::knowing(&server.url, KEY);
    (server, person)
}

#[tokio::test]
async fn wrong_usage_ends_with_2_and_asks_nobody() {
    let (server, person) = one_computer().await;
    for arguments in [
        &["nonsense"][..],
        &["click", "first light", "-1", "2"],
        &["click", "first light", "1"],
        &["computers", "create", "x"],
        &["computers", "list", "--api-key", KEY],
        &["computers", "list", "--key", KEY],
        &["bash", "first light"],
        &["screenshot", "first light", "--format", "gif"],
        &["screenshot", "first light", "--json", "-o", "x.png"],
        &["cp", "a", "b"],
        &["cp", "a:b", "c:d"],
        &["cp", ":a", "b"],
        &["cp", "x.txt", "first light:a/b"],
        &["cp", "first light:", "x"],
        &["profile", "set", ""],
        &["completions", "smalltalk"],
    ] {
        let ended = person.runs(arguments).await;
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{arguments:?}: {ended:?}");
        assert!(!ended.err.is_empty(), "{arguments:?}");
    }
    assert_eq!(server.lines(), Vec::<String>::new());
}

#[tokio::test]
async fn a_computer_is_suspended_and_woken() {
    let (server, person) = one_computer().await;
    let path = |verb: &str| format!("POST /api/computers/{ID}/{verb}");
    server.answers(&path("suspend"), 202, json!({"success": true, "status": "suspending"}));
    let waking = json!({"success": true, "status": "starting", "waking": true, "pending": true,
        "expected_seconds": 60});
    server.answers(&path("resume"), 202, waking);
    for (verb, under_way) in [("suspend", "suspending"), ("resume", "starting")] {
        let told = person.runs(&["computers", verb, "first light", "--no-wait"]).await.well();
        assert_eq!(told, format!("first light is {under_way}.\n"));
    }
    // Else it is waited for until it is so.
    let told = person.runs(&["computers", "resume", "first light"]).await.well();
    assert_eq!(told, "First Light is running.\n");
    person.runs(&["computers", "suspend", ID]).await.badly(1, &["is running, not suspended"]);
    assert_eq!(server.lines().iter().filter(|line| line.starts_with("POST")).count(), 4);
}

#[tokio::test]
async fn a_computer_is_meant_by_uuid_instance_or_name() {
    let (server, person) = one_computer().await;
    server.answers(&format!("GET /api/computers/{ID}/vnc-password"), 200, json!({"password": "pw"}));
    for wanted in [ID, "0a1b2c3d", "first light", "FIRST LIGHT"] {
        assert_eq!(person.runs(&["computers", "password", wanted]).await.well(), "pw\n", "{wanted}");
    }
    assert_eq!(server.lines()[0], format!("GET /api/computers/{ID}/vnc-password"), "a UUID needs no list");
    person
        .runs(&["computers", "get", "second light"])
        .await
        .badly(1, &["there is no computer \"second light\""]);
    let mut twin = computer(OTHER, "first light", "other");
    twin["instance_id"] = json!("ffffffff");
    server.has_computers(&[computer(ID, "First Light", "demo"), twin]);
    let ended = person.runs(&["computers", "delete", "first light"]).await;
    ended.badly(1, &["First Light in demo", ID, "first light in other", OTHER]);
    assert!(!server.lines().iter().any(|line| line.starts_with("DELETE")));
}

#[tokio::test]
async fn json_is_the_server_s_answer_and_tables_are_for_people() {
    let (server, person) = one_computer().await;
    let odd = "{\"zebra\":1,  \"computers\":[],\"desktops\":[],\"total\":0,\"next_offset\":null}";
    let listed = person.runs(&["computers", "list"]).await.well();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(
        lines[0].starts_with("NAME") && lines[1].starts_with("First Light") && lines[1].ends_with(ID),
        "{listed}"
    );
    assert!(!listed.contains('\u{1b}'), "no colour without a terminal");
    let coloured = Person::knowing(&server.url, KEY).with("FORCE_COLOR", "1");
    assert!(coloured.runs(&["computers", "list"]).await.well().contains('\u{1b}'));
    let plain = Person::knowing(&server.url, KEY).with("FORCE_COLOR", "1").with("NO_COLOR", "1");
    assert!(!plain.runs(&["computers", "list"]).await.well().contains('\u{1b}'));
    server.answers("GET /api/computers", 200, odd);
    assert_eq!(person.runs(&["computers", "list", "--json"]).await.well(), format!("{odd}\n"));
    assert!(person.runs(&["--json", "computers", "get", ID]).await.json()["id"] == ID);
}

#[tokio::test]
async fn a_refusal_is_told_with_its_code_and_request() {
    let (server, person) = one_computer().await;
    let refusal = json!({"error": "Computer is not running", "code": "computer_asleep", "request_id": "r-7"});
    server.answers(&format!("POST /api/computers/{ID}/click"), 409, refusal);
    let ended = person.runs(&["click", "first light", "1", "2"]).await;
    assert_eq!(ended.err, "hotdesk: Computer is not running (computer_asleep, request r-7)\n");
    ended.badly(1, &[]);
    server.answers(&format!("POST /api/computers/{ID}/click"), 502, "<html>bad gateway</html>");
    person.runs(&["click", "first light", "1", "2"]).await.badly(1, &["/api answered 502 Bad Gateway"]);
    server.answers(&format!("GET /api/computers/{ID}"), 200, "{\"hello\":\"world\"}");
    person.runs(&["computers", "get", ID]).await.badly(1, &["answer is not understood"]);
    let nobody = Person::knowing("http://127.0.0.1:1", KEY);
    nobody
        .runs(&["workspaces", "list"])
        .await
        .badly(1, &["http://127.0.0.1:1/api", "refused", "hotdesk serve"]);
}

#[tokio::test]
async fn a_key_goes_to_its_server_and_nowhere_else() {
    let (server, person) = one_computer().await;
    let elsewhere = StandIn::listening().await;
    server.redirects("GET /api/workspaces", &format!("{}/api/workspaces", elsewhere.url));
    let ended = person.runs(&["workspaces", "list"]).await;
    ended.badly(1, &["redirects to", &elsewhere.url]);
    assert!(elsewhere.asked().is_empty());
    assert_eq!(server.asked()[0].authorization, Some(format!("Bearer {KEY}")));

    let stored = Person::new();
    let set = stored.runs_with_input(&["profile", "set", "here", "--url", &server.url], KEY).await;
    assert!(!set.well().contains(KEY));
    stored.runs(&["computers", "list"]).await.well();
    stored
        .runs(&["computers", "list", "--url", &elsewhere.url])
        .await
        .badly(1, &["no API key", &elsewhere.url]);
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn profiles_keep_keys_from_others_and_from_the_screen() {
    let person = Person::new();
    person.runs(&["computers", "list"]).await.badly(1, &["no API key", "hotdesk profile set"]);
    let set = ["profile", "set", "home", "--url", "http://127.0.0.1:1"];
    let said = person.runs_with_input(&set, &format!("{KEY}\n")).await.well();
    assert!(said.contains("sk_live_…6789"), "{said}");
    let file = person.file(".hotdesk/credentials.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let held: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let home = json!({"apiKey": KEY, "url": "http://127.0.0.1:1"});
    assert_eq!(held, json!({"current": "home", "profiles": {"home": home}}));
    let other = ["profile", "set", "work", "--keep-current", "--url", "http://127.0.0.1:2"];
    person.runs_with_input(&other, "sk_live_another_key_4321").await.well();
    let shown = person.runs(&["profile", "show"]).await.well();
    let json = person.runs(&["profile", "show", "--json"]).await.well();
    for text in [&said, &shown, &json] {
        assert!(!text.contains("MustNotLeak"), "{text}");
    }
    assert!(shown.lines().any(|line| line.starts_with('*') && line.contains("home")), "{shown}");
    person.runs(&["profile", "use", "work"]).await.well();
    person.runs(&["computers", "list"]).await.badly(1, &["http://127.0.0.1:2/api"]);
    person.runs(&["computers", "list", "--profile", "home"]).await.badly(1, &["http://127.0.0.1:1/api"]);
    person.runs(&["profile", "use", "nobody"]).await.badly(1, &["there is no profile"]);
    for input in ["", "\n", "two words", "ключ"] {
        person.runs_with_input(&set, input).await.badly(1, &["no API key"]);
    }
    person.runs_with_input(&["profile", "set", "x", "--url", "nowhere"], KEY).await.badly(2, &["nowhere"]);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    person.runs(&["profile", "show"]).await.badly(1, &["chmod 600"]);
}

#[tokio::test]
async fn bash_ends_as_the_command_did() {
    let (server, person) = one_computer().await;
    let path = format!("POST /api/computers/{ID}/bash");
    let result = |code: i32, output: &str, timeout: bool| json!({"success": true, "action": "bash", "command": "c", "output": output, "exit_code": code, "timeout": timeout});
    for (code, expected) in [(0, 0), (3, 3), (255, 255), (-1, 1), (256, 1)] {
        server.answers(&path, 200, result(code, "out without an end", false));
        let ended = person.runs(&["bash", "first light", "ls", "-la", "--json"]).await;
        assert_eq!((ended.code, ended.out.as_str()), (expected, "out without an end"), "{ended:?}");
    }
    let sent: Value = serde_json::from_str(&server.asked().last().unwrap().body).unwrap();
    assert_eq!(sent["command"], "ls -la --json", "what follows the command is the command's");
    server.answers(&path, 200, result(124, "", true));
    let ended =
        person.runs_with_input(&["bash", "first light", "--timeout", "2.5", "-"], "sleep 9\n# é").await;
    assert_eq!(ended.code, 124);
    assert!(ended.err.contains("killed at its time-out"), "{ended:?}");
    let sent: Value = serde_json::from_str(&server.asked().last().unwrap().body).unwrap();
    assert_eq!(sent, json!({"command": "sleep 9\n# é", "timeout": 2.5}));
}

#[tokio::test]
async fn a_reader_that_leaves_is_no_error() {
    let (server, person) = one_computer().await;
    let output = "line\n".repeat(200_000);
    let result = json!({"success": true, "action": "bash", "command": "c", "output": output, "exit_code": 0});
    server.answers(&format!("POST /api/computers/{ID}/bash"), 200, result);
    let ended =
        person.runs_in_bash("hotdesk bash 'first light' yes | head -n 1; echo ${PIPESTATUS[0]}").await;
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("line\n0\n", ""));
    let ended = person.runs_in_bash("hotdesk openapi >/dev/full").await;
    ended.badly(1, &["standard output"]);
}

#[tokio::test]
async fn text_is_typed_exactly() {
    let (server, person) = one_computer().await;
    let done = json!({"success": true, "action": "type", "details": {}});
    server.answers(&format!("POST /api/computers/{ID}/type"), 200, done);
    let text = "ü ß 日本語 العربية 🎉 e\u{301}\t\n\"quoted\" $HOME --json";
    for (arguments, input) in [
        (["type", "first light", text], ""),
        (["type", "first light", "-"], text),
        (["type", "first light", "--x"], ""),
    ] {
        person.runs_with_input(&arguments, input).await.well();
        let sent: Value = serde_json::from_str(&server.asked().last().unwrap().body).unwrap();
        let expected = if input.is_empty() { arguments[2] } else { input };
        assert_eq!(sent, json!({ "text": expected }));
    }
    person.runs(&["type", "first light", "x", "--screen", "screen-100&y"]).await.well();
    assert!(server.lines().last().unwrap().ends_with("/type?screen=screen-100%26y"));
}

#[tokio::test]
async fn a_copy_comes_whole_from_the_server_that_was_named_or_not_at_all() {
    let (server, person) = one_computer().await;
    let export = |size: u64, name: &str, url: &str| {
        let file = json!({"id": OTHER, "filename": name, "size_bytes": size, "content_type": "text/plain",
            "source": "export", "created_at": "2026-11-21T10:00:00Z"});
        json!({"success": true, "file": file, "url": url})
    };
    let link = format!("https://elsewhere.invalid/api/storage/files/{OTHER}/a.txt?expires=1&signature=2");
    let stored = format!("GET /api/storage/files/{OTHER}/a.txt");
    server.answers("DELETE /api/files/delete", 200, json!({"success": true}));
    server.answers("POST /api/files/export", 200, export(5, "a.txt", &link)).answers(&stored, 200, "hello");
    let said = person.runs(&["cp", "first light:~/a.txt", "."]).await.well();
    assert!(said.contains("a.txt (5 bytes)"), "{said}");
    assert_eq!(std::fs::read_to_string(person.file("a.txt")).unwrap(), "hello");
    let asked = server.asked();
    let fetched = asked.iter().find(|asked| asked.line.contains("/storage/")).unwrap();
    assert_eq!(fetched.authorization, None, "the link carries its own permission");
    assert!(fetched.line.ends_with("?expires=1&signature=2"));
    assert_eq!(asked.last().unwrap().line, format!("DELETE /api/files/delete?id={OTHER}"));
    assert_eq!(person.runs(&["cp", "first light:a.txt", "-"]).await.well(), "hello");

    std::fs::write(person.file("kept"), "before").unwrap();
    for (size, name, url) in [
        (6, "a.txt", link.as_str()),
        (4, "a.txt", &link),
        (5, "../a.txt", &link),
        (5, "a.txt", "https://elsewhere.invalid/other"),
    ] {
        server.answers("POST /api/files/export", 200, export(size, name, url));
        let to = if name == "a.txt" { "kept" } else { "." };
        let ended = person.runs(&["cp", "first light:a.txt", to]).await;
        ended.badly(1, &["server"]);
    }
    assert_eq!(std::fs::read_to_string(person.file("kept")).unwrap(), "before");
    let left: Vec<_> =
        std::fs::read_dir(person.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test]
async fn what_needs_no_server_is_well_formed() {
    let person = Person::new();
    let document = person.runs(&["openapi"]).await.json();
    assert!(document["paths"]["/computers/{id}/click"].is_object());
    let configured = Person::new()
        .with("HOTDESK_LIMITS__MAX_COMPUTERS", "7")
        .with("HOTDESK_CACHE", "the makefile's")
        .with("HOTDESK_PROFILE", "the client's");
    let config: toml::Table = configured.runs(&["config"]).await.well().parse().unwrap();
    assert_eq!(config["limits"]["max_computers"].as_integer(), Some(7));
    std::fs::write(person.file("hotdesk.toml"), configured.runs(&["config"]).await.well()).unwrap();
    let again: toml::Table =
        person.runs(&["config", "--config", "hotdesk.toml"]).await.well().parse().unwrap();
    assert_eq!(again, config, "what is printed can be read");
    assert_eq!(person.runs(&["config", "--json"]).await.json()["limits"]["max_computers"], 50);
    for shell in ["bash", "zsh", "fish"] {
        assert!(person.runs(&["completions", shell]).await.well().contains("hotdesk"), "{shell}");
    }
    let script = person.runs(&["completions", "bash"]).await.well();
    std::fs::write(person.file("completions"), script).unwrap();
    assert_eq!(person.runs_in_bash("bash -n completions").await.well(), "");
}

#[tokio::test]
async fn a_self_test_is_a_table_and_ends_with_1_when_a_check_failed() {
    let (server, person) = one_computer().await;
    let path = format!("GET /api/computers/{ID}/selftest");
    let check = |name: &str, outcome: &str| json!({"name": name, "outcome": outcome, "detail": "as it is", "figures": {"median_ms": 0.25}});
    let found = |passed: bool, second: &str| json!({"passed": passed, "took_ms": 2300.0, "checks": [check("click", "passed"), check("type", second)]});
    let run = ["computers", "selftest", "first light"];
    server.answers(&path, 200, found(true, "skipped"));
    let told = person.runs(&run).await.well();
    assert!(told.contains("median_ms 0.250"), "{told}");
    assert!(told.ends_with("first light works: 1 checks passed, 1 skipped, in 2.3 s.\n"), "{told}");
    server.answers(&path, 200, found(false, "failed"));
    let ended = person.runs(&run).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let failed = ended.out.lines().find(|line| line.contains("type")).expect("its line");
    assert!(failed.starts_with("FAILED"), "{failed}");
    assert!(ended.out.ends_with("1 of 2 checks of first light failed, in 2.3 s.\n"), "{ended:?}");
    let ended = person.runs(&[&run[..], &["--json"]].concat()).await;
    let told: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((ended.code, &told["checks"][1]["outcome"]), (1, &json!("failed")));
    server.answers(&path, 409, json!({"error": "Another self-test is running", "request_id": "r"}));
    person.runs(&run).await.badly(1, &["Another self-test is running"]);
}

#[tokio::test]
async fn doctor_says_what_is_missing_and_what_mends_it() {
    let person = Person::new();
    let here = ["doctor", "--data-dir", "data", "--image", "/nowhere"];
    let ended = person.runs(&here).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let told = ended.out.lines().find(|line| line.contains("guest image")).expect("the image is looked at");
    assert!(told.starts_with("MISSING") && told.contains("/nowhere"), "{told}");
    assert!(ended.out.contains("to mend it: ") && ended.out.contains("are not met"), "{}", ended.out);
    let other =
        ended.out.lines().find(|line| line.contains("other OCI runtime")).expect("both are looked at");
    assert!(other.starts_with("ok") && other.contains("not in use"), "it is not needed: {other}");
    let ended = person.runs(&[&here[..], &["--json"]].concat()).await;
    let told: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((ended.code, &told["ok"]), (1, &json!(false)));
    let image = told["findings"].as_array().unwrap().iter().find(|it| it["what"] == "guest image").unwrap();
    assert!(image["ok"] == false && image["mend"].as_str().unwrap().contains("guest image"), "{image}");
}
