//! Does what one account has stay its own, whatever another one asks for? (threats.md T26, access.md A16; OWASP API1)
//!
//! schemathesis has a check of it that repeats reads as somebody else (`peers.toml`); what changes things is asked by a
//! check of ours (`foreign.py`). Both are tried on a service that forgets to look.

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

use super::{against, schemathesis};
use crate::harness::agent::answered;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;
use crate::openapi::{document, operations};

/// What all is named that the first account has.
const NAME: &str = "zebra-canary";
/// Requests per operation and phase; the phase that goes through what is documented makes some 50 of its own for each.
const EXAMPLES: &str = "3";
/// As many for what is read as two accounts: enough for ids of lists to be among what is made up.
const READS: &str = "30";
/// Kinds of reads that are repeated at least, of some twenty that the controller answers without an agent: which ones, chance decides.
const LEAST_REPEATED: usize = 3;
/// It can make no body of this one's media type; tus clients prove it.
const NOT_ASKED: &str = "PATCH /computers/{id}/files/uploads/{upload_id}";
/// Operations about an object that is not named in their path: `foreign.py` knows them too.
const NAMED_ELSEWHERE: [&str; 6] = [
    "POST /computers",
    "POST /keys",
    "POST /files/upload",
    "POST /files/export",
    "GET /files/download",
    "DELETE /files/delete",
];

/// What the runs are told: whose things there are, and who asks.
struct Told {
    base: String,
    owner: String,
    other: String,
    /// Ids by the names that `foreign.toml` has for them.
    ids: BTreeMap<&'static str, String>,
    folder: TempDir,
}

impl Told {
    /// Runs schemathesis with a configuration; `None` where it is not installed.
    async fn run(&self, configuration: &str, more: &[&str]) -> Option<Output> {
        let mut run: Command = schemathesis(configuration)?;
        against(&mut run, &self.base);
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
        Some(tokio::task::spawn_blocking(move || run.output()).await.expect("no panic").expect("it runs"))
    }

    fn seen_file(&self) -> PathBuf {
        self.folder.path().join("seen")
    }

    /// The operations about an object that were refused as another's, or as not there.
    fn refused(&self) -> BTreeSet<String> {
        let seen = std::fs::read_to_string(self.seen_file()).expect("what was seen");
        let refusals =
            seen.lines().filter_map(|line| line.strip_suffix(" 403").or(line.strip_suffix(" 404")));
        refusals.map(str::to_owned).collect()
    }
}

/// A house where an account has one of everything, and another account.
async fn two_accounts() -> (Simulation, Told) {
    // Unhurried: 429 is another test's.
    let limits = Limits {
        requests_per_second: 100_000,
        request_burst: 100_000,
        wrong_keys_per_minute: 100_000,
        ..Limits::default()
    };
    let house = Simulation::boot_limited(limits).await;
    let workspace = house.workspace(NAME).await;
    let computer = house.computer(&workspace, NAME).await;
    let kept = house.post(&format!("/computers/{computer}/snapshots"), json!({"name": NAME})).await;
    assert!([201, 202].contains(&kept.status), "{}", kept.body);
    let key = id_of(&house.made("/keys", json!({"name": NAME})).await);
    let client = id_of(&house.made("/v1/accounts", json!({"external_id": NAME, "name": NAME})).await);
    let url = "rtmp://live.example.org/app";
    house.made("/stream/connections", json!({"name": NAME, "url": url, "key": "k"})).await;
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.clone())
        .part("file", reqwest::multipart::Part::text(NAME).file_name(NAME));
    let stored = answered(house.request(reqwest::Method::POST, "/files/upload").multipart(form)).await;
    let (_, other) = house.account("other@example.org").await;
    let ids = [
        ("WORKSPACE", workspace),
        ("COMPUTER", computer),
        ("SNAPSHOT", id_of(&kept.body)),
        ("KEY", key),
        ("CLIENT", client),
        ("FILE", id_of(&stored.body["file"])),
    ];
    let told = Told {
        base: house.base.clone(),
        owner: house.key().to_owned(),
        other,
        ids: ids.into(),
        folder: tempfile::tempdir().expect("a folder"),
    };
    (house, told)
}

#[track_caller]
fn sound(ran: &Output) {
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t26_a16_what_is_another_account_s_is_refused_whatever_is_asked() {
    let (house, told) = two_accounts().await;
    let Some(ran) = told
        .run("foreign.toml", &["--max-examples", EXAMPLES, "--phases", "examples,coverage,fuzzing"])
        .await
    else {
        return;
    };
    sound(&ran);
    // Each operation came to where it is looked up whose the object is: 400 alone would prove nothing.
    let refused = told.refused();
    let named = operations(&document()).into_iter().map(|(method, path, _)| format!("{method} {path}"));
    let about = named.filter(|name| name.contains('{') || NAMED_ELSEWHERE.contains(&name.as_str()));
    let missing: Vec<String> = about.filter(|name| name != NOT_ASKED && !refused.contains(name)).collect();
    assert!(missing.is_empty(), "never refused as another's: {missing:?}");
    // And all is still there.
    let ids = &told.ids;
    for path in [
        format!("/workspaces/{}", ids["WORKSPACE"]),
        format!("/computers/{}", ids["COMPUTER"]),
        format!("/computers/{}/snapshots/{}", ids["COMPUTER"], ids["SNAPSHOT"]),
        format!("/v1/accounts/{}", ids["CLIENT"]),
    ] {
        let there = house.get(&path).await;
        assert!(there.status == 200 && there.body.to_string().contains(NAME), "{path}: {}", there.body);
    }
    assert_eq!(house.status(&ids["COMPUTER"]).await, "running");
    for (path, list) in [("/keys", "keys"), ("/stream/connections", "connections")] {
        assert!(house.get(path).await.body[list].to_string().contains(NAME), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t26_a16_no_read_of_one_account_s_works_for_another() {
    let (house, told) = two_accounts().await;
    let Some(ran) = told.run("peers.toml", &["--max-examples", READS, "--phases", "fuzzing"]).await else {
        return;
    };
    sound(&ran);
    // It did repeat them: the log has the other account's refusals.
    let log = answered(house.request_with(&told.other, reqwest::Method::GET, "/audit?limit=500")).await;
    let entries = log.body["entries"].as_array().expect("entries");
    let refused = entries.iter().filter(|entry| entry["method"] == "GET" && entry["result"] == "refused");
    let routes: BTreeSet<&str> = refused.filter_map(|entry| entry["route"].as_str()).collect();
    assert!(routes.len() >= LEAST_REPEATED, "{routes:?}");
}

/// A service with workspaces that looks whose they are only in its lists: the first account has one.
async fn forgetful(request: Request) -> Response {
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
    let router = Router::new().route("/openapi.json", get(async || Json(document()))).fallback(forgetful);
    let _serving = Tasks::new().spawn("forgetful", async move { axum::serve(listener, router).await });
    let id = "11111111-1111-4111-8111-111111111111".to_owned();
    let names = ["WORKSPACE", "COMPUTER", "SNAPSHOT", "KEY", "CLIENT", "FILE"];
    let told = Told {
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
        let Some(ran) = told.run(configuration, &arguments).await else { return };
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(!ran.status.success() && said.contains(found), "{configuration} missed it: {said}");
    }
    assert!(told.seen_file().exists());
}
