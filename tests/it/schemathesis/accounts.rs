//! Isolation of accounts under generated requests: T26 (docs/security.md), A16
//! (docs/authentication-rules.md), OWASP API1.
//!
//! schemathesis has a check that repeats reads with another account (`peers.toml`). The check of `foreign.py`
//! covers changes. Both checks must find a service that does not check the account.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output};

use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hotdesk::base::tasks::Tasks;
use hotdesk::controller::config::Limits;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{schemathesis, set_target};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::sampling::sampled;
use crate::harness::simulation::Simulation;
use crate::openapi::{document, operations};

/// Name of all objects of the first account.
const NAME: &str = "zebra-canary";
/// Requests per operation and phase.
const EXAMPLES: &str = "5";
/// Phases of a sample and of a full run. The coverage phase adds about 50 requests per operation, most of which are refused
/// before the account is checked.
const PHASES: (&str, &str) = ("examples,fuzzing", "examples,coverage,fuzzing");
/// Requests per operation for reads with two accounts: enough that some have ids from lists.
const READS: &str = "12";
/// Least number of routes that are repeated, of about twenty that need no agent. Which ones are repeated is
/// random.
const MIN_REPEATED: usize = 3;
/// schemathesis cannot generate a body of this media type; tests with tus clients cover the operation.
const UNTESTED: &str = "PATCH /computers/{id}/files/uploads/{upload_id}";
/// Operation about an object that all accounts have.
const SHARED: &str = "GET /v1/models/{model}";
/// Operations about an object that their path does not name; `foreign.py` has the same list.
const NAMED_ELSEWHERE: [&str; 6] = [
    "POST /computers",
    "POST /keys",
    "POST /files/upload",
    "POST /files/export",
    "GET /files/download",
    "DELETE /files/delete",
];

/// The target of a run: two accounts, and the objects of the first.
struct TestTarget {
    base: String,
    owner: String,
    other: String,
    /// Ids by the names of `foreign.toml`.
    ids: BTreeMap<&'static str, String>,
    folder: TempDir,
}

impl TestTarget {
    /// Runs schemathesis with a configuration. Returns `None` where it is not installed.
    async fn run(&self, configuration: &str, more: &[&str]) -> Option<Output> {
        let mut run: Command = schemathesis(configuration)?;
        set_target(&mut run, &self.base);
        run.args(more);
        let bearer = |key: &str| json!([{"name": "Authorization", "value": format!("Bearer {key}")}]);
        let accounts = json!({"auth": [
            {"name": "owner", "fixedHeaders": bearer(&self.owner)},
            {"name": "other", "fixedHeaders": bearer(&self.other)},
        ]});
        let file = self.folder.path().join("accounts.json");
        std::fs::write(&file, accounts.to_string()).expect("written");
        run.current_dir(self.folder.path()).env("ACCOUNTS", file).env("SEEN", self.seen_file());
        run.env("HOTDESK_API_KEY", &self.other).env("NAME", NAME).envs(&self.ids);
        run.env("HOOKS", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/schemathesis/foreign.py"));
        Some(
            tokio::task::spawn_blocking(move || run.output()).await.expect("no panic").expect("schemathesis"),
        )
    }

    fn seen_file(&self) -> PathBuf {
        self.folder.path().join("seen")
    }

    /// The operations about an object that were refused with 403 or 404.
    fn refused(&self) -> BTreeSet<String> {
        let seen = std::fs::read_to_string(self.seen_file()).expect("the file of responses");
        let refusals =
            seen.lines().filter_map(|line| line.strip_suffix(" 403").or(line.strip_suffix(" 404")));
        refusals.map(str::to_owned).collect()
    }
}

/// A controller with two accounts, of which the first has an object of each kind.
async fn two_accounts() -> (Simulation, TestTarget) {
    // No rate limits: another test covers 429.
    let limits = Limits {
        requests_per_second: 100_000,
        request_burst: 100_000,
        wrong_keys_per_minute: 100_000,
        ..Limits::default()
    };
    let controller = Simulation::boot_limited(limits).await;
    let workspace = controller.workspace(NAME).await;
    let computer = controller.computer(&workspace, NAME).await;
    let snapshot = controller.post(&format!("/computers/{computer}/snapshots"), json!({"name": NAME})).await;
    assert!([201, 202].contains(&snapshot.status), "{}", snapshot.body);
    let key = id_of(&controller.create("/keys", json!({"name": NAME})).await);
    let client = id_of(&controller.create("/v1/accounts", json!({"external_id": NAME, "name": NAME})).await);
    let url = "rtmp://live.example.org/app";
    controller.create("/stream/connections", json!({"name": NAME, "url": url, "key": "k"})).await;
    let secret = json!({"value": NAME, "workspace_id": workspace});
    let set = controller.request(reqwest::Method::PUT, "/secrets/CANARY").json(&secret);
    assert_eq!(fetch_json(set).await.status, 200);
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.clone())
        .part("file", reqwest::multipart::Part::text(NAME).file_name(NAME));
    let stored = fetch_json(controller.request(reqwest::Method::POST, "/files/upload").multipart(form)).await;
    let (_, other) = controller.account("other@example.org").await;
    let ids = [
        ("WORKSPACE", workspace),
        ("COMPUTER", computer),
        ("SNAPSHOT", id_of(&snapshot.body)),
        ("KEY", key),
        ("CLIENT", client),
        ("FILE", id_of(&stored.body["file"])),
    ];
    let target = TestTarget {
        base: controller.base.clone(),
        owner: controller.key().to_owned(),
        other,
        ids: ids.into(),
        folder: tempfile::tempdir().expect("a folder"),
    };
    (controller, target)
}

#[track_caller]
fn assert_success(ran: &Output) {
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t26_a16_what_is_another_account_s_is_refused_whatever_is_asked() {
    let (controller, target) = two_accounts().await;
    let arguments = ["--max-examples", EXAMPLES, "--phases", sampled(PHASES.0, PHASES.1)];
    let Some(ran) = target.run("foreign.toml", &arguments).await else { return };
    assert_success(&ran);
    // Each operation has reached the check of the object's account: a 400 alone would prove nothing.
    let refused = target.refused();
    let named = operations(&document()).into_iter().map(|(method, path, _)| format!("{method} {path}"));
    let about = named.filter(|name| name.contains('{') || NAMED_ELSEWHERE.contains(&name.as_str()));
    let missing: Vec<String> =
        about.filter(|name| name != UNTESTED && name != SHARED && !refused.contains(name)).collect();
    assert!(missing.is_empty(), "never refused as another's: {missing:?}");
    // All objects still exist.
    let ids = &target.ids;
    for path in [
        format!("/workspaces/{}", ids["WORKSPACE"]),
        format!("/computers/{}", ids["COMPUTER"]),
        format!("/computers/{}/snapshots/{}", ids["COMPUTER"], ids["SNAPSHOT"]),
        format!("/v1/accounts/{}", ids["CLIENT"]),
    ] {
        let answer = controller.get(&path).await;
        assert!(answer.status == 200 && answer.body.to_string().contains(NAME), "{path}: {}", answer.body);
    }
    assert_eq!(controller.status(&ids["COMPUTER"]).await, "running");
    let secret = format!("/secrets/CANARY?workspace_id={}", ids["WORKSPACE"]);
    assert_eq!(controller.get(&secret).await.status, 200);
    for (path, list) in [("/keys", "keys"), ("/stream/connections", "connections")] {
        assert!(controller.get(path).await.body[list].to_string().contains(NAME), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t26_a16_no_read_of_one_account_s_works_for_another() {
    let (controller, target) = two_accounts().await;
    let Some(ran) = target.run("peers.toml", &["--max-examples", READS, "--phases", "fuzzing"]).await else {
        return;
    };
    assert_success(&ran);
    // The reads were repeated: the log has the refusals of the other account.
    let log =
        fetch_json(controller.request_with(&target.other, reqwest::Method::GET, "/audit?limit=500")).await;
    let entries = log.body["entries"].as_array().expect("entries");
    let refused = entries.iter().filter(|entry| entry["method"] == "GET" && entry["result"] == "refused");
    let routes: BTreeSet<&str> = refused.filter_map(|entry| entry["route"].as_str()).collect();
    assert!(routes.len() >= MIN_REPEATED, "{routes:?}");
}

/// A faulty service: only its list of workspaces checks the account.
async fn unchecked_service(request: Request) -> Response {
    let id = "11111111-1111-4111-8111-111111111111";
    let record = json!({"id": id, "name": NAME, "role": "owner", "member_count": 1, "desktops": []});
    let key = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (owner, known) =
        (key == Some("Bearer sk_owner"), key.is_some_and(|key| key.starts_with("Bearer sk_")));
    let (status, body) = match (request.method(), request.uri().path()) {
        _ if !known => (StatusCode::UNAUTHORIZED, json!({"error": "Missing API key", "request_id": "r"})),
        (&Method::GET, "/api/workspaces") => {
            let own: Vec<&Value> = if owner { vec![&record] } else { Vec::new() };
            (StatusCode::OK, json!({"workspaces": own, "projects": own}))
        }
        (&Method::GET, path) if path.strip_prefix("/api/workspaces/") == Some(id) => (StatusCode::OK, record),
        _ => (StatusCode::NOT_FOUND, json!({"error": "Not found", "request_id": "r"})),
    };
    (status, [(header::WWW_AUTHENTICATE, "Bearer")], Json(body)).into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn t26_a_service_that_forgets_whose_a_thing_is_is_found() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    let router =
        Router::new().route("/openapi.json", get(async || Json(document()))).fallback(unchecked_service);
    let _serving = Tasks::new().spawn("forgetful", async move { axum::serve(listener, router).await });
    let id = "11111111-1111-4111-8111-111111111111".to_owned();
    let names = ["WORKSPACE", "COMPUTER", "SNAPSHOT", "KEY", "CLIENT", "FILE"];
    let target = TestTarget {
        base,
        owner: "sk_owner".to_owned(),
        other: "sk_other".to_owned(),
        ids: names.map(|name| (name, id.clone())).into(),
        folder: tempfile::tempdir().expect("a folder"),
    };
    let arguments =
        ["--max-examples", READS, "--phases", "fuzzing", "--include-path-regex", "^/workspaces(/\\{id\\})?$"];
    for (configuration, found) in [
        ("foreign.toml", "GET /workspaces/{id} of another account's object was answered 200"),
        ("peers.toml", "ST402"),
    ] {
        let Some(ran) = target.run(configuration, &arguments).await else { return };
        let output = String::from_utf8_lossy(&ran.stdout);
        assert!(!ran.status.success() && output.contains(found), "{configuration} missed it: {output}");
    }
    assert!(target.seen_file().exists());
}
