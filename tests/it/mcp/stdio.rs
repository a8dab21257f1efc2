//! `hotdesk mcp`: the relay on the standard streams, and its endpoint `/mcp/stdio`. A57
//! (docs/authentication-rules.md).

use std::process::Stdio;
use std::time::Duration;

use hotdesk::base::tasks::Tasks;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::scene::{Scene, initialize, request, stateless};
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, person};

/// Longest wait for an answer on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running `hotdesk mcp`.
struct Relay {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Relay {
    fn start(url: &str, key: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
        command.arg("mcp").env_clear().env("HOTDESK_URL", url).env("HOTDESK_API_KEY", key);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("it starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { process, input, output }
    }

    async fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    /// The next line, which must be a message.
    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(TIMEOUT, self.output.next_line()).await.expect("an answer in time");
        let line = line.expect("text").expect("a line");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    async fn ask(&mut self, message: &Value) -> Value {
        self.send(&message.to_string()).await;
        self.next().await
    }

    /// Closes the input, and returns the exit code and standard error.
    async fn end(self) -> (Option<i32>, String) {
        drop(self.input);
        let ended = tokio::time::timeout(TIMEOUT, self.process.wait_with_output()).await;
        let ended = ended.expect("it ends with its input").expect("a status");
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a57_keys_and_tokens_have_their_own_endpoints() {
    let scene = Scene::boot().await;
    let ask = |credential: Option<&str>| {
        let message = scene.controller.bare(Method::POST, "/mcp/stdio").json(&initialize());
        let message = message.header("accept", "application/json, text/event-stream");
        match credential {
            Some(credential) => message.bearer_auth(credential),
            None => message,
        }
    };
    let key = scene.controller.key();
    assert_eq!(ask(Some(key)).send().await.expect("an answer").status(), 200);
    person(&scene.controller.store().await, "ada@x.example").await;
    let console = Browser::signed_in(&scene.controller.base, "ada@x.example").await.console_token().await;
    for (what, refused) in [
        ("nothing", None),
        ("a token", Some(&*scene.token)),
        ("no key", Some("sk_live_x")),
        ("a token of the console", Some(&*console)),
    ] {
        let answer = ask(refused).send().await.expect("an answer");
        assert_eq!(answer.status(), 401, "{what}");
        assert!(answer.headers().contains_key("www-authenticate"), "{what}");
    }
    let page = fetch_json(ask(Some(key)).header("origin", &scene.controller.base)).await;
    assert_eq!((page.status, &page.body["code"]), (403, &json!("origin_not_allowed")), "{}", page.body);
    // A session of a key is not one of a token of the same account.
    let opened = ask(Some(key)).send().await.expect("an answer");
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    let list = request("tools/list", json!({}));
    assert_eq!(fetch_json(scene.session_message(&scene.token, Some(&session), &list)).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_relay_serves_both_revisions_and_ends_with_its_input() {
    let scene = Scene::boot().await;
    let key = scene.controller.key().to_owned();
    let mut relay = Relay::start(&scene.controller.base, &key);
    let found = relay.ask(&stateless("server/discover", &json!({}))).await;
    assert!(found["result"]["supportedVersions"].is_array(), "{found}");
    let listed =
        relay.ask(&stateless("tools/call", &json!({"name": "list_workspaces", "arguments": {}}))).await;
    let workspaces = listed["result"]["structuredContent"]["workspaces"].as_array().expect("a list");
    assert_eq!(workspaces.len(), 2, "the key of an account reaches all: {listed}");

    let opened = relay.ask(&initialize()).await;
    assert_eq!(opened["result"]["serverInfo"]["name"], "hotdesk", "{opened}");
    relay.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
    let call = |id: &str, tool: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let made = relay.ask(&call("c", "create_workspace", json!({"name": "third"}))).await;
    assert_eq!((&made["id"], &made["result"]["isError"]), (&json!("c"), &json!(false)), "{made}");
    let missing = relay.ask(&call("n", "create_computer", json!({"name": "x"}))).await;
    let error = missing["result"]["structuredContent"]["error"].as_str().expect("a text");
    assert!(error.contains("workspace_id"), "{missing}");

    relay.send("no message").await;
    assert_eq!(relay.next().await["error"]["code"], -32700);
    relay.send(&format!("\"{}\"", "x".repeat(3 << 20))).await;
    assert_eq!(relay.next().await["error"]["code"], -32600);
    let pong = relay.ask(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"})).await;
    assert_eq!(pong["id"], 9, "it goes on: {pong}");
    let (code, errors) = relay.end().await;
    assert_eq!(code, Some(0), "{errors}");
    assert!(!errors.contains(&key), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ended_is_opened_again() {
    let scene = Scene::boot().await;
    let key = scene.controller.key().to_owned();
    let mut relay = Relay::start(&scene.controller.base, &key);
    relay.ask(&initialize()).await;
    relay.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
    let list = request("tools/list", json!({}));
    assert!(relay.ask(&list).await["result"]["tools"].is_array());
    // More sessions of the account end the oldest one.
    for _ in 0..32 {
        scene.open(&scene.token).await;
    }
    assert!(relay.ask(&list).await["result"]["tools"].is_array());
    scene.controller.end().await;
    let refused = relay.ask(&list).await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    let (code, errors) = relay.end().await;
    assert!(code == Some(0) && errors.contains("opening another"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_is_an_error_of_each_request() {
    let scene = Scene::boot().await;
    let mut relay = Relay::start(&scene.controller.base, "sk_live_wrong");
    let refused = relay.ask(&initialize()).await;
    let message = refused["error"]["message"].as_str().expect("a text");
    assert!(message.starts_with("Invalid API key"), "{refused}");
    assert_eq!(relay.end().await.0, Some(0));
}

/// A server whose answers are those of a broken proxy, by the method of the request.
async fn broken_server() -> String {
    let answer = async |axum::Json(message): axum::Json<Value>| {
        let result = json!({"jsonrpc": "2.0", "id": message["id"], "result": {}}).to_string();
        let (kind, body) = match message["method"].as_str() {
            Some("empty") => ("application/json", String::new()),
            Some("foreign") => ("text/html", "<html></html>".to_owned()),
            Some("other") => ("application/json", result.replace("\"id\":", "\"id\":9")),
            // A second answer, and an event that breaks the stream.
            _ => {
                ("text/event-stream", format!("data: {result}\n\ndata: {result}\n\n{}", "x".repeat(9 << 20)))
            }
        };
        ([("content-type", kind)], body)
    };
    let router = axum::Router::new().fallback(answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let _serving = Tasks::new().spawn("broken server", async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_answered_once() {
    let mut relay = Relay::start(&broken_server().await, "sk_live_x");
    for (id, method) in [(1, "empty"), (2, "foreign"), (3, "other")] {
        let refused = relay.ask(&json!({"jsonrpc": "2.0", "id": id, "method": method})).await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(id), &json!(-32000)), "{method}");
    }
    let answered = relay.ask(&json!({"jsonrpc": "2.0", "id": 4, "method": "twice"})).await;
    assert_eq!((&answered["id"], &answered["result"]), (&json!(4), &json!({})));
    let next = relay.ask(&json!({"jsonrpc": "2.0", "id": 5, "method": "empty"})).await;
    assert_eq!(next["id"], 5, "no second answer to the fourth: {next}");
    assert_eq!(relay.end().await.0, Some(0));
}
