//! Do clients and a suite that are not ours find their way in, from the first refusal to the renewed token?

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::scene::Scene;
use super::tls::{HOST, Server};
use crate::clients::python;
use crate::harness::process::Owned;

/// How long the suite may take for a step, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn sound(ran: &Output) -> String {
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    said.into_owned()
}

/// The Python client, where it is installed.
fn python_client(scene: &Scene) -> Option<Command> {
    let python = python()?;
    let has = Command::new(&python).args(["-c", "import mcp.client.auth"]).output().ok()?;
    if !has.status.success() {
        return None;
    }
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/mcp_oauth.py"));
    client.args([&scene.house.base, scene.me.cookie(), &scene.workspace]);
    Some(client)
}

async fn run(mut client: Command) -> String {
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("no panic").expect("it runs");
    sound(&ran)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_registers_gets_in_and_renews_its_tokens() {
    let scene = Scene::set().await;
    let Some(client) = python_client(&scene) else {
        return println!("skipped: no Python mcp client (make deps-test)");
    };
    assert_eq!(run(client).await, "the whole trip\n");
    let connections = scene.house.store().await.connections(scene.account).await.expect("a list");
    assert_eq!(connections.len(), 1);
    assert_eq!(connections[0].client_name.as_deref(), Some("Round trip"));
}

fn play(path: &str, port: u16, out: &mut dyn Write) -> std::io::Result<()> {
    let document = json!({"client_id": format!("https://{HOST}:{port}{path}"), "client_name": "By its URL",
        "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"});
    write!(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{document}")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_names_itself_by_a_url_and_gets_in() {
    let server = Server::start(play);
    let scene = Scene::trusting(Some(server.trusted())).await;
    let Some(mut client) = python_client(&scene) else {
        return println!("skipped: no Python mcp client (make deps-test)");
    };
    client.arg(server.url("/client.json"));
    assert_eq!(run(client).await, "the whole trip\n");
    let connections = scene.house.store().await.connections(scene.account).await.expect("a list");
    assert_eq!(connections[0].client_id, server.url("/client.json"));
}

/// The suite of the Model Context Protocol and the Node that it runs on (packaging/dev/deps).
pub fn suite() -> Option<Command> {
    let cache = std::env::var_os("HOTDESK_CACHE").unwrap_or_else(|| "/var/cache/hotdesk".into());
    let modules = PathBuf::from(cache).join("mcp-conformance/node_modules");
    let suite = modules.join("@modelcontextprotocol/conformance/dist/index.js");
    let node = modules.join("node/bin/node");
    if !suite.exists() || !node.exists() {
        return None;
    }
    let mut command = Command::new(node);
    command.arg(suite);
    Some(command)
}

/// Its scenarios for authorization servers. The second one uses what the first one found, so one run is of both.
const SCENARIOS: [&str; 2] = ["authorization-server-metadata-endpoint", "authorization-code-grant"];
/// What they check, at all revisions of the protocol together.
const CHECKS: [&str; 3] =
    ["authorization-code-grant", "authorization-server-metadata", "authorization-server-metadata-cimd"];

/// The names of the suite's scenarios of a kind: `--server`, `--client` or `--authorization`.
pub fn scenarios(kind: &str) -> Option<Vec<String>> {
    let listed = sound(&suite()?.args(["list", kind]).output().expect("it runs"));
    let names = listed.lines().filter_map(|line| line.strip_prefix("  - "));
    Some(names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

#[test]
fn no_scenario_about_authorization_is_left_out_but_those_of_clients() {
    let (Some(ours), Some(clients)) = (scenarios("--authorization"), scenarios("--client")) else {
        return println!("skipped: no conformance suite (make deps-test)");
    };
    assert_eq!(ours, SCENARIOS, "the suite has others than those that are run");
    // Those start authorization servers of their own and judge the client that comes: hotdesk is no client of MCP. What they
    // ask of servers is asked by `oauth/`'s and `mcp/edge`'s tests, and by the Python client above.
    assert!(clients.iter().any(|name| name.starts_with("auth/")), "{clients:?}");
    let servers = scenarios("--server").expect("it was there");
    assert!(!servers.iter().any(|name| name.contains("auth")), "{servers:?}");
}

/// What the suite wrote down of its checks: names and what became of them.
fn checks(results: &Path) -> Vec<(String, Value)> {
    let files = std::fs::read_dir(results).expect("results").flatten();
    let lists = files.map(|folder| std::fs::read(folder.path().join("checks.json")).expect("a list"));
    let all = lists.flat_map(|list| serde_json::from_slice::<Vec<Value>>(&list).expect("JSON"));
    let mut told: Vec<_> =
        all.map(|check| (check["id"].as_str().expect("an id").to_owned(), check["status"].clone())).collect();
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_finds_nothing_wrong_with_the_authorization_server() {
    let scene = Scene::set().await;
    let Some(mut suite) = suite() else { return println!("skipped: no conformance suite (make deps-test)") };
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let redirect = format!("http://127.0.0.1:{port}/callback");
    let registered = scene.register(json!({"redirect_uris": [redirect]})).await;
    let client = registered.body["client_id"].as_str().expect("an id");
    suite.args([
        "authorization",
        "--url",
        &scene.house.base,
        "--client-id",
        client,
        "--resource",
        &scene.resource(),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("said");
    let file = std::fs::File::create(&log).expect("a log");
    let results = folder.path().join("results");
    suite.arg("--output-dir").arg(&results);
    suite.args(["--port", &port.to_string()]).stderr(file.try_clone().expect("a second handle")).stdout(file);
    let mut suite = Owned(suite.spawn().expect("it runs"));
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    // Its person opens the address that it shows.
    let asks = format!("{}/oauth/authorize?", scene.house.base);
    let shown = wait::until(TIMEOUT, || async {
        let said = said();
        let (whole, _) = said.rsplit_once('\n')?;
        whole.lines().find(|line| line.starts_with(&asks)).map(str::to_owned)
    });
    let shown = shown.await.unwrap_or_else(|| panic!("it asks nobody: {}", said()));
    let path = shown.strip_prefix(&scene.house.base).expect("ours");
    let answer = scene.me.submit(path, &[("decision", "allow"), ("workspace", &scene.workspace)]).await;
    let landed = answer.location().unwrap_or_else(|| panic!("{}", answer.text)).to_owned();
    assert!(landed.starts_with(&redirect), "{landed}");
    assert!(reqwest::get(&landed).await.expect("the suite listens").status().is_success());
    let end = wait::until(TIMEOUT, || {
        let ended = suite.0.try_wait().expect("it is ours");
        async move { ended }
    });
    let status = end.await.unwrap_or_else(|| panic!("it does not end: {}", said()));
    println!("{}", said());
    assert!(status.success(), "{}", said());
    // It ends well also when it skipped something or was not content.
    let expected = CHECKS.map(|id| (id.to_owned(), json!("SUCCESS")));
    assert_eq!(checks(&results), expected, "{}", said());
}
