//! Complete authorizations by the Python client and by the conformance suite, from the first refusal to a
//! renewed token.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::scene::Scene;
use super::tls::{HOST, Server};
use crate::clients::python;
use crate::harness::capability::Capability;
use crate::harness::ports::free_port;
use crate::harness::process::OwnedChild;

/// Longest time for a step of the suite, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The standard output of a successful program.
fn successful_output(ran: &Output) -> String {
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    output.into_owned()
}

/// The command of the Python client, if it is installed.
fn python_client(scene: &Scene) -> Option<Command> {
    let python = python()?;
    let has = Command::new(&python).args(["-c", "import mcp.client.auth"]).output().ok()?;
    if !has.status.success() {
        return None;
    }
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/mcp_oauth.py"));
    client.args([&scene.controller.base, scene.me.cookie(), &scene.workspace]);
    Some(client)
}

async fn run(mut client: Command) -> String {
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("no panic").expect("it runs");
    successful_output(&ran)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_registers_gets_in_and_renews_its_tokens() {
    let scene = Scene::boot().await;
    let Some(client) = python_client(&scene) else {
        return Capability::Python.skip("no Python mcp client (make deps-test)");
    };
    assert_eq!(run(client).await, "the whole trip\n");
    let connections = scene.controller.store().await.connections(scene.account).await.expect("a list");
    assert_eq!(connections.len(), 1);
    assert_eq!(connections[0].client_name.as_deref(), Some("Round trip"));
}

fn respond(path: &str, port: u16, out: &mut dyn Write) -> std::io::Result<()> {
    let document = json!({"client_id": format!("https://{HOST}:{port}{path}"), "client_name": "By its URL",
        "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"});
    write!(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{document}")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_names_itself_by_a_url_and_gets_in() {
    let server = Server::start(respond);
    let scene = Scene::boot_with_trust(Some(server.trusted())).await;
    let Some(mut client) = python_client(&scene) else {
        return Capability::Python.skip("no Python mcp client (make deps-test)");
    };
    client.arg(server.url("/client.json"));
    assert_eq!(run(client).await, "the whole trip\n");
    let connections = scene.controller.store().await.connections(scene.account).await.expect("a list");
    assert_eq!(connections[0].client_id, server.url("/client.json"));
}

/// The Node of the conformance suite, and the folder of its packages (packaging/dev/deps).
pub fn node() -> Option<(Command, PathBuf)> {
    let cache = std::env::var_os("HOTDESK_CACHE").unwrap_or_else(|| "/var/cache/hotdesk".into());
    let modules = PathBuf::from(cache).join("mcp-conformance/node_modules");
    let node = modules.join("node/bin/node");
    node.exists().then(|| (Command::new(node), modules))
}

/// The conformance suite of the Model Context Protocol and its Node.
pub fn suite() -> Option<Command> {
    let (mut command, modules) = node()?;
    let suite = modules.join("@modelcontextprotocol/conformance/dist/index.js");
    if !suite.exists() {
        return None;
    }
    command.arg(suite);
    Some(command)
}

/// The suite's scenarios for authorization servers. The second one uses the result of the first, so one run
/// covers both.
const SCENARIOS: [&str; 2] = ["authorization-server-metadata-endpoint", "authorization-code-grant"];
/// The ids of their checks, at all revisions of the protocol.
const CHECKS: [&str; 3] =
    ["authorization-code-grant", "authorization-server-metadata", "authorization-server-metadata-cimd"];

/// The names of the suite's scenarios of a kind: `--server`, `--client` or `--authorization`.
pub fn scenarios(kind: &str) -> Option<Vec<String>> {
    let listed = successful_output(&suite()?.args(["list", kind]).output().expect("it runs"));
    let names = listed.lines().filter_map(|line| line.strip_prefix("  - "));
    Some(names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

#[test]
fn no_scenario_about_authorization_is_left_out_but_those_of_clients() {
    let (Some(ours), Some(clients)) = (scenarios("--authorization"), scenarios("--client")) else {
        return Capability::Conformance.skip("no conformance suite (make deps-test)");
    };
    assert_eq!(ours, SCENARIOS, "the suite has further scenarios");
    // Client scenarios start their own authorization servers, and hotdesk is not an MCP client. The tests of
    // `oauth/` and `mcp/edge`, and the Python client above, cover what they expect of servers.
    assert!(clients.iter().any(|name| name.starts_with("auth/")), "{clients:?}");
    let servers = scenarios("--server").expect("the suite");
    assert!(!servers.iter().any(|name| name.contains("auth")), "{servers:?}");
}

/// The ids and statuses of the suite's checks, sorted.
fn checks(results: &Path) -> Vec<(String, Value)> {
    let files = std::fs::read_dir(results).expect("results").flatten();
    let lists = files.map(|folder| std::fs::read(folder.path().join("checks.json")).expect("a list"));
    let all = lists.flat_map(|list| serde_json::from_slice::<Vec<Value>>(&list).expect("JSON"));
    let mut statuses: Vec<_> =
        all.map(|check| (check["id"].as_str().expect("an id").to_owned(), check["status"].clone())).collect();
    statuses.sort_by(|(one, _), (other, _)| one.cmp(other));
    statuses
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_finds_nothing_wrong_with_the_authorization_server() {
    let scene = Scene::boot().await;
    let Some(mut suite) = suite() else {
        return Capability::Conformance.skip("no conformance suite (make deps-test)");
    };
    let port = free_port();
    let redirect = format!("http://127.0.0.1:{port}/callback");
    let registered = scene.register(json!({"redirect_uris": [redirect]})).await;
    let client = registered.body["client_id"].as_str().expect("an id");
    suite.args([
        "authorization",
        "--url",
        &scene.controller.base,
        "--client-id",
        client,
        "--resource",
        &scene.resource(),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("output");
    let file = std::fs::File::create(&log).expect("a log");
    let results = folder.path().join("results");
    suite.arg("--output-dir").arg(&results);
    suite.args(["--port", &port.to_string()]).stderr(file.try_clone().expect("a second handle")).stdout(file);
    let mut suite = OwnedChild(suite.spawn().expect("it runs"));
    let output = || std::fs::read_to_string(&log).unwrap_or_default();
    // The test acts as the person: it opens the URL that the suite prints.
    let authorize_prefix = format!("{}/oauth/authorize?", scene.controller.base);
    let url = wait::until(TIMEOUT, || async {
        let output = output();
        let (complete, _) = output.rsplit_once('\n')?;
        complete.lines().find(|line| line.starts_with(&authorize_prefix)).map(str::to_owned)
    });
    let url = url.await.unwrap_or_else(|| panic!("no authorization URL in the output: {}", output()));
    let path = url.strip_prefix(&scene.controller.base).expect("a URL of the controller");
    let answer = scene.me.submit(path, &[("decision", "allow"), ("workspace", &scene.workspace)]).await;
    let redirected = answer.location().unwrap_or_else(|| panic!("{}", answer.text)).to_owned();
    assert!(redirected.starts_with(&redirect), "{redirected}");
    assert!(reqwest::get(&redirected).await.expect("the suite listens").status().is_success());
    let end = wait::until(TIMEOUT, || {
        let ended = suite.0.try_wait().expect("a child process");
        async move { ended }
    });
    let status = end.await.unwrap_or_else(|| panic!("the suite does not end: {}", output()));
    println!("{}", output());
    assert!(status.success(), "{}", output());
    // The suite's exit status does not show skipped checks and warnings.
    let expected = CHECKS.map(|id| (id.to_owned(), json!("SUCCESS")));
    assert_eq!(checks(&results), expected, "{}", output());
}
