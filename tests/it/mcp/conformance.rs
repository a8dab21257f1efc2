//! Conformance suite of the Model Context Protocol (`@modelcontextprotocol/conformance`, from
//! `packaging/dev/deps test`).
//!
//! The suite sends no tokens, so a proxy of the test adds one. Some checks of `server-stateless` need tools
//! that only exist for the suite; it reports them as untestable.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use hotdesk::base::tasks::Tasks;
use serde_json::Value;

use super::scene::Scene;
use super::tools::agent;
use crate::harness::capability::Capability;
use crate::oauth::{scenarios, suite};

/// The scenarios that apply, each with its protocol revision.
const SCENARIOS: [(&str, &str); 15] = [
    ("server-initialize", "2025-11-25"),
    ("server-session-lifecycle", "2025-11-25"),
    ("ping", "2025-11-25"),
    ("tools-list", "2025-11-25"),
    ("resources-list", "2025-11-25"),
    ("resources-list", "2026-07-28"),
    ("server-sse-multiple-streams", "2025-11-25"),
    ("dns-rebinding-protection", "2025-11-25"),
    ("tools-list", "2026-07-28"),
    ("dns-rebinding-protection", "2026-07-28"),
    ("server-stateless", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
    ("sep-2164-resource-not-found", "2026-07-28"),
    ("caching", "2026-07-28"),
    ("input-required-result-unsupported-methods", "2026-07-28"),
];

/// Why the scenarios of questions in results do not apply.
const INPUT_REQUIRED: &str = "they call tools and prompts that only exist for the suite (test_...)";

/// Name prefixes of the scenarios that do not apply, and the reason.
const LEFT_OUT: [(&str, &str); 24] = [
    ("completion-", "completions are not offered"),
    ("elicitation-", "they call tools that only exist for the suite (test_...)"),
    ("http-custom-header-", "no tool's argument is a header field"),
    ("input-required-result-basic-", INPUT_REQUIRED),
    ("input-required-result-capability-", INPUT_REQUIRED),
    ("input-required-result-ignore-", INPUT_REQUIRED),
    ("input-required-result-missing-", INPUT_REQUIRED),
    ("input-required-result-multi", INPUT_REQUIRED),
    ("input-required-result-non-tool-", INPUT_REQUIRED),
    ("input-required-result-request-state", INPUT_REQUIRED),
    ("input-required-result-result-type", INPUT_REQUIRED),
    ("input-required-result-tampered-", INPUT_REQUIRED),
    ("input-required-result-validate-", INPUT_REQUIRED),
    ("json-schema-2020-12", "it calls a tool that only exists for the suite (test_...)"),
    ("logging-", "no log is sent to clients"),
    ("prompts-", "prompts are not offered"),
    ("resources-read-", "they read resources that only exist for the suite (test://...)"),
    ("resources-subscribe", "it subscribes to a resource that only exists for the suite (test://...)"),
    ("resources-templates-read", "it reads a resource that only exists for the suite (test://...)"),
    ("resources-unsubscribe", "it subscribes to a resource that only exists for the suite (test://...)"),
    ("sep-2640-skills-", "skills are an extension that is not offered"),
    ("server-sse-polling", "it calls a tool that only exists for the suite (test_...)"),
    ("tasks-", "tasks are an extension that is not offered"),
    ("tools-call-", "they call tools that only exist for the suite (test_...)"),
];

#[test]
fn every_scenario_of_the_suite_is_run_or_left_out_for_a_reason() {
    let Some(all) = scenarios("--server") else {
        return Capability::Conformance.skip("no conformance suite (make deps-test)");
    };
    for name in &all {
        let run = SCENARIOS.iter().any(|(run, _)| run == name);
        let left_out = LEFT_OUT.iter().any(|(prefix, _)| name.starts_with(prefix));
        assert!(run != left_out, "{name}: run {run}, left out {left_out}");
    }
    for (prefix, reason) in LEFT_OUT {
        assert!(
            all.iter().any(|name| name.starts_with(prefix)),
            "{prefix} ({reason}) no longer exists in the suite"
        );
    }
}

/// Checks of these scenarios for methods that this server does not offer (error -32601).
const NOT_OFFERED: [&str; 1] = ["PromptsListCachingHints"];

#[derive(Clone)]
struct TokenProxy {
    client: reqwest::Client,
    base: String,
    token: String,
}

/// Forwards a request with the token and returns the response.
async fn forward(State(proxy): State<TokenProxy>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut forwarded = proxy.client.request(parts.method, format!("{}{path}", proxy.base));
    for (name, value) in &parts.headers {
        if ![header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH].contains(name) {
            forwarded = forwarded.header(name, value);
        }
    }
    let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let answer = forwarded.bearer_auth(&proxy.token).body(body).send().await.expect("an answer");
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = Response::new(Body::from_stream(answer.bytes_stream()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().remove(header::TRANSFER_ENCODING);
    response
}

/// The failed checks in the suite's output, without the untestable ones.
fn failed_checks(output: &str) -> Vec<String> {
    let list = output.split_once("\n[").and_then(|(_, rest)| rest.rsplit_once("\n]"));
    let list =
        list.map(|(checks, _)| format!("[{checks}]")).unwrap_or_else(|| panic!("no checks in {output}"));
    let checks: Vec<Value> =
        serde_json::from_str(&list).unwrap_or_else(|error| panic!("{error} in {output}"));
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
        return Capability::Conformance.skip("no conformance suite (make deps-test)");
    }
    // The suite reads a screen, so that the agents must take pictures.
    let scene = Scene::boot_with(agent()).await;
    let client = crate::harness::client();
    let state = TokenProxy { client, base: scene.controller.base.clone(), token: scene.token.clone() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let router = Router::new().fallback(forward).with_state(state);
    let _serving =
        Tasks::new().spawn("proxy of the suite", async move { axum::serve(listener, router).await });
    let results = tempfile::tempdir().expect("a folder");
    let mut failed = Vec::new();
    for (scenario, revision) in SCENARIOS {
        let mut run = suite().expect("the suite");
        run.args(["server", "--url", &format!("http://localhost:{port}/mcp")]);
        run.args(["--scenario", scenario, "--spec-version", revision, "--verbose"])
            .current_dir(results.path());
        // A file, because the suite exits before a pipe has taken more than its 64 KiB.
        let path = results.path().join("output");
        run.stdout(std::fs::File::create(&path).expect("a file"));
        tokio::task::spawn_blocking(move || run.status()).await.expect("it ran").expect("it ran");
        let output = std::fs::read_to_string(&path).expect("the suite's output");
        failed.extend(
            failed_checks(&output).into_iter().map(|what| format!("{scenario} at {revision}: {what}")),
        );
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
