//! Does the protocol's own suite find it conformant? (`@modelcontextprotocol/conformance`; `packaging/dev/deps test` installs it)
//!
//! It knows nothing of tokens, so a proxy of the test's shows one. Of `server-stateless` four checks need tools of the suite's
//! own; it says of them that it could not try.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use hotdesk::base::tasks::Tasks;
use serde_json::Value;

use super::scene::Scene;
use crate::oauth::{scenarios, suite};

/// What applies, each with the revision that it is run at.
const SCENARIOS: [(&str, &str); 11] = [
    ("server-initialize", "2025-11-25"),
    ("server-session-lifecycle", "2025-11-25"),
    ("ping", "2025-11-25"),
    ("tools-list", "2025-11-25"),
    ("server-sse-multiple-streams", "2025-11-25"),
    ("dns-rebinding-protection", "2025-11-25"),
    ("tools-list", "2026-07-28"),
    ("dns-rebinding-protection", "2026-07-28"),
    ("server-stateless", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
    ("caching", "2026-07-28"),
];

/// What does not apply, by how the names begin, and why.
const LEFT_OUT: [(&str, &str); 13] = [
    ("completion-", "completions are not offered"),
    ("elicitation-", "nothing is asked of people through the client"),
    ("http-custom-header-", "no tool's argument is a header field"),
    ("input-required-", "nothing is asked of people or models through the client"),
    ("json-schema-2020-12", "it calls a tool that a server would have for the suite alone (test_...)"),
    ("logging-", "no log is sent to clients"),
    ("prompts-", "prompts are not offered"),
    ("resources-", "resources are not offered"),
    ("sep-2164-resource-", "resources are not offered"),
    ("sep-2640-skills-", "skills are an extension that is not offered"),
    ("server-sse-polling", "it calls a tool that a server would have for the suite alone (test_...)"),
    ("tasks-", "tasks are an extension that is not offered"),
    ("tools-call-", "they call tools that a server would have for the suite alone (test_...)"),
];

#[test]
fn every_scenario_of_the_suite_is_run_or_left_out_for_a_reason() {
    let Some(all) = scenarios("--server") else {
        return println!("skipped: no conformance suite (make deps-test)");
    };
    for name in &all {
        let run = SCENARIOS.iter().any(|(run, _)| run == name);
        let left_out = LEFT_OUT.iter().any(|(prefix, _)| name.starts_with(prefix));
        assert!(run != left_out, "{name}: run {run}, left out {left_out}");
    }
    for (prefix, reason) in LEFT_OUT {
        assert!(all.iter().any(|name| name.starts_with(prefix)), "{prefix} ({reason}) is not there any more");
    }
}

/// Checks of those scenarios that ask for what this server does not offer, and says so (-32601).
const NOT_OFFERED: [&str; 3] =
    ["PromptsListCachingHints", "ResourcesListCachingHints", "ResourcesTemplatesListCachingHints"];

#[derive(Clone)]
struct Shower {
    client: reqwest::Client,
    base: String,
    token: String,
}

/// Passes everything on as it is, with the token.
async fn show(State(shower): State<Shower>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut asked = shower.client.request(parts.method, format!("{}{path}", shower.base));
    for (name, value) in &parts.headers {
        if ![header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH].contains(name) {
            asked = asked.header(name, value);
        }
    }
    let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let answer = asked.bearer_auth(&shower.token).body(body).send().await.expect("an answer");
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = Response::new(Body::from_stream(answer.bytes_stream()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().remove(header::TRANSFER_ENCODING);
    response
}

/// What the suite found wrong, but for what it could not try.
fn wrong(said: &str) -> Vec<String> {
    let list = said.split_once("\n[").and_then(|(_, rest)| rest.rsplit_once("\n]"));
    let list = list.map(|(checks, _)| format!("[{checks}]")).unwrap_or_else(|| panic!("no checks in {said}"));
    let checks: Vec<Value> = serde_json::from_str(&list).unwrap_or_else(|error| panic!("{error} in {said}"));
    let offered = |check: &&Value| {
        let unknown = check["errorMessage"].as_str().is_some_and(|why| why.contains("-32601"));
        !(unknown && NOT_OFFERED.iter().any(|name| check["name"] == *name))
    };
    let failed = |check: &&Value| {
        check["status"] == "FAILURE" && check["details"]["untestable"] != true && offered(check)
    };
    checks
        .iter()
        .filter(failed)
        .map(|check| format!("{}: {}", check["name"], check["errorMessage"]))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a77_a78_the_protocol_s_own_suite_finds_nothing() {
    if suite().is_none() {
        return println!("skipped: no conformance suite (make deps-test)");
    }
    let scene = Scene::set().await;
    let client = crate::harness::client();
    let shower = Shower { client, base: scene.house.base.clone(), token: scene.token.clone() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let proxy = Router::new().fallback(show).with_state(shower);
    let _serving =
        Tasks::new().spawn("proxy of the suite", async move { axum::serve(listener, proxy).await });
    let results = tempfile::tempdir().expect("a folder");
    let mut failed = Vec::new();
    for (scenario, revision) in SCENARIOS {
        let mut run = suite().expect("it was there");
        run.args(["server", "--url", &format!("http://localhost:{port}/mcp")]);
        run.args(["--scenario", scenario, "--spec-version", revision, "--verbose"])
            .current_dir(results.path());
        let ran = tokio::task::spawn_blocking(move || run.output()).await.expect("it ran").expect("it ran");
        let said = String::from_utf8_lossy(&ran.stdout);
        failed.extend(wrong(&said).into_iter().map(|what| format!("{scenario} at {revision}: {what}")));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
