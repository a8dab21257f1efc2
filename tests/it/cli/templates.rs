//! Commands for templates, and for what a computer has from its template.

use serde_json::{Value, json};

use super::stand_in::computer;
use super::{ID, OTHER, one_computer};

#[tokio::test]
async fn a_log_is_followed_until_its_end() {
    let (server, shell) = one_computer().await;
    let path = format!("GET /api/computers/{ID}/services/site/log");
    let events = "data: {\"line\":\"one\"}\n\n:\n\ndata: {\"line\":\"two  words\"}\n\n";
    server.respond(&path, 200, events);
    let follow = ["services", "log", "first light", "site", "--follow", "--bytes", "9"];
    let followed = shell.run(&follow).await;
    assert_eq!((followed.code, &*followed.out), (0, "one\ntwo  words\n"), "{followed:?}");
    assert!(followed.err.starts_with("The log has ended"), "{followed:?}");
    let json = shell.run(&[&follow[..], &["--json"]].concat()).await.expect_success();
    assert_eq!(json, "{\"line\":\"one\"}\n{\"line\":\"two  words\"}\n");
    assert!(server.lines().contains(&format!("{path}?follow=true&bytes=9")), "{:?}", server.lines());
    server.respond(&path, 503, "{\"error\": \"Too many follow\", \"code\": \"too_many_followers\"}");
    shell.run(&follow).await.expect_failure(1, &["Too many follow (too_many_followers)"]);
    server.respond(&path, 200, "data: nonsense\n\n");
    shell.run(&follow).await.expect_failure(1, &["cannot parse the server's log entry"]);
}

#[tokio::test]
async fn logs_of_a_name_that_no_process_has_are_those_of_the_service() {
    let (server, shell) = one_computer().await;
    let of = |path: &str| format!("GET /api/computers/{ID}/{path}");
    let site = json!({"name": "site", "status": "running", "pid": 7, "exit_code": null, "signal": null,
        "since_seconds": 1, "log": "/var/log/site"});
    server.respond(&of("processes"), 200, json!({"processes": []}));
    server.respond(&of("services"), 200, json!({"services": [site], "hooks": [], "health": []}));
    server.respond(&of("services/site/log"), 200, json!({"text": "one\ntwo\n", "truncated": false}));
    let logs = ["logs", "first light", "site"];
    assert_eq!(shell.run(&logs).await.expect_success(), "one\ntwo\n");
    assert_eq!(shell.run(&[&logs[..], &["-n", "1"]].concat()).await.expect_success(), "two\n");
    // The stand-in has the same answer for the stream, which is a stream without an event.
    let followed = shell.run(&[&logs[..], &["-n", "1", "--follow"]].concat()).await;
    assert_eq!((followed.code, &*followed.out), (0, "two\n"), "{followed:?}");
    assert!(followed.err.starts_with("The log has ended"), "{followed:?}");
    let follow = format!("{}?follow=true&bytes=0", of("services/site/log"));
    assert!(server.lines().contains(&follow), "{:?}", server.lines());
    let hints = ["there is no background process \"nothing\"", "hotdesk services list first light"];
    shell.run(&["logs", "first light", "nothing"]).await.expect_failure(1, &hints);
}

fn template(reference: &str, status: &str) -> Value {
    json!({"ref": reference, "digest": "sha256:00", "published": true, "status": status, "template": {"api_version": "hotdesk/v1"}})
}

#[tokio::test]
async fn templates_are_listed_shown_and_their_builds_have_a_status() {
    let (server, shell) = one_computer().await;
    server.respond(
        "GET /api/templates",
        200,
        json!({"templates": [template("default/lab@1.0.0", "failed")]}),
    );
    server.respond(
        "GET /api/templates/global",
        200,
        json!({"templates": [template("system/node@1.0.0", "ready")]}),
    );
    let own = shell.run(&["templates", "list"]).await.expect_success();
    assert!(own.contains("default/lab@1.0.0  failed") && !own.contains("system/"), "{own}");
    let all = shell.run(&["templates", "list", "--all"]).await.expect_success();
    assert!(all.contains("default/lab@1.0.0") && all.contains("system/node@1.0.0  ready"), "{all}");
    let all = shell.run(&["templates", "list", "--all", "--json"]).await.json();
    assert_eq!(all["templates"][1]["ref"], "system/node@1.0.0", "{all}");

    server.respond("GET /api/templates/default/lab/1.0.0", 200, template("default/lab@1.0.0", "failed"));
    let shown = shell.run(&["templates", "show", "lab@1.0.0"]).await.expect_success();
    assert!(
        shown.contains("with the service") && shown.contains("\"api_version\": \"hotdesk/v1\""),
        "{shown}"
    );

    let build = json!({"ref": "default/lab@1.0.0", "digest": "sha256:00", "status": "failed", "build_time_ms": 1500,
        "error": "build.run[0] ended with exit code 1:\nno\u{1b}[2J such file"});
    server.respond("GET /api/templates/default/lab/1.0.0/build", 200, build);
    let status = shell.run(&["templates", "status", "lab@1.0.0"]).await.expect_success();
    assert!(status.contains("1.5 s") && status.ends_with("exit code 1:\nno [2J such file\n"), "{status}");
    shell.run(&["templates", "status", "a/b/c@1"]).await.expect_failure(1, &["a/b/c@1 is no template"]);
    shell.run(&["templates", "show", "none@1.0.0"]).await.expect_failure(1, &["Not found"]);
}

#[tokio::test]
async fn a_computer_is_launched_from_a_template_by_any_of_its_names() {
    let (server, shell) = one_computer().await;
    server.respond("POST /api/computers", 201, computer(ID, "one", "demo"));
    let versions = [template("default/lab@1.0.0", "ready"), template("default/lab@1.1.0", "ready")];
    server.respond("GET /api/templates/default/lab", 200, json!({ "templates": versions }));
    let create = ["computers", "create", "one", "--workspace", OTHER, "--template"];
    for (typed, expected) in [
        ("lab@1.0.0", "default/lab@1.0.0"),
        ("default/lab@1.0.0", "default/lab@1.0.0"),
        ("system/desktop@1.0.0", "system/desktop@1.0.0"),
        ("lab", "default/lab@1.1.0"),
        ("default/lab", "default/lab@1.1.0"),
    ] {
        shell.run(&[&create[..], &[typed]].concat()).await.expect_success();
        let sent = server.requests().pop().expect("a request");
        let body: Value = serde_json::from_str(&sent.body).expect("JSON");
        assert_eq!(body["template_ref"], expected, "{typed}");
    }
    for (typed, why) in [("a/b/c", "is no template"), ("", "is no template"), ("none", "Not found")] {
        shell.run(&[&create[..], &[typed]].concat()).await.expect_failure(1, &[why]);
    }
    assert_eq!(server.lines().iter().filter(|line| line.starts_with("POST")).count(), 5);
}

#[tokio::test]
async fn triggers_are_listed_with_their_runs_and_fired() {
    let (server, shell) = one_computer().await;
    let path = format!("GET /api/computers/{ID}/triggers");
    server.respond(&path, 200, json!({"triggers": []}));
    let none = shell.run(&["triggers", "list", "first light"]).await.expect_success();
    assert!(none.starts_with("The computer has no triggers"), "{none}");
    let run = json!({"started_at": "2026-11-21T10:00:00Z", "ended_at": null, "status": "failed",
        "event": {"path": "/a b"}, "errors": ["exit code 4"]});
    let mut inbox = json!({"name": "inbox", "title": null, "source": "file", "status": "watching", "error": null,
        "next_at": null, "run_count": 7, "dropped": 2, "runs": [run]});
    let mut url = inbox.clone();
    (url["name"], url["status"], url["error"]) = (json!("url"), json!("failed"), json!("no\nroute"));
    (url["runs"], url["run_count"]) = (json!([]), json!(0));
    server.respond(&path, 200, json!({"triggers": [inbox, url]}));
    let listed = shell.run(&["triggers", "ls", "first light"]).await.expect_success();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(
        lines[1].starts_with("inbox  file    watching") && lines[1].ends_with("10:00:00Z failed"),
        "{listed}"
    );
    assert!(lines[2].contains("failed: no route"), "{listed}");
    let runs = shell.run(&["triggers", "runs", "first light", "inbox"]).await.expect_success();
    assert!(runs.contains("{\"path\":\"/a b\"}") && runs.contains("exit code 4"), "{runs}");
    assert_eq!(
        shell.run(&["triggers", "runs", "first light", "url"]).await.expect_success(),
        "url has not run since the boot.\n"
    );
    shell.run(&["triggers", "runs", "first light", "none"]).await.expect_failure(1, &["no trigger \"none\""]);

    inbox["runs"] = json!([]);
    server.respond(&format!("POST /api/computers/{ID}/triggers/inbox"), 200, inbox);
    let fire = ["triggers", "fire", "first light", "inbox", "--event"];
    let fired = shell.run(&[&fire[..], &["{\"path\": \"/x\"}"]].concat()).await.expect_success();
    assert_eq!(fired, "inbox runs.\n");
    assert_eq!(server.requests().pop().expect("a request").body, "{\"event\":{\"path\":\"/x\"}}");
    shell.run(&[&fire[..], &["[1]"]].concat()).await.expect_failure(2, &["JSON object"]);
}

#[tokio::test]
async fn ports_are_listed_and_linked() {
    let (server, shell) = one_computer().await;
    let path = format!("GET /api/computers/{ID}/ports");
    server.respond(&path, 200, json!({"ports": []}));
    let none = shell.run(&["ports", "list", "first light"]).await.expect_success();
    assert!(none.contains("hotdesk ports link"), "{none}");
    let ports = json!({"ports": [
        {"port": 3000, "name": "web", "protocol": "http", "public": true, "url": "http://x/3000/"},
        {"port": 53, "name": "dns", "protocol": "udp", "public": false}]});
    server.respond(&path, 200, ports);
    let listed = shell.run(&["ports", "ls", "first light"]).await.expect_success();
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows[1..],
        [vec!["3000", "http", "public", "web", "http://x/3000/"], vec!["53", "udp", "key", "dns"]]
    );
    let ticket = json!({"url": "http://x/port-links/t", "port": 3000, "expires_at": "2026-11-21T10:00:00Z"});
    server.respond(&format!("POST /api/computers/{ID}/port-tickets"), 201, ticket);
    let linked = shell.run(&["ports", "link", "first light", "3000", "--ttl", "1m"]).await.expect_success();
    assert_eq!(
        linked,
        "http://x/port-links/t\nIt opens port 3000 of first light once, until 2026-11-21T10:00:00Z.\n"
    );
    assert_eq!(server.requests().pop().expect("a request").body, "{\"port\":3000,\"ttl_seconds\":60}");
    shell.run(&["ports", "link", "first light", "65536"]).await.expect_failure(2, &["65536"]);
}
