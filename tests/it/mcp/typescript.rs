//! The official TypeScript client (npm `@modelcontextprotocol/client`), over HTTP with OAuth and over
//! `hotdesk mcp`: it types into a real computer, and asks the person before it deletes something.

use std::path::PathBuf;
use std::process::Command;

use hotdesk::store::Store;
use serde_json::json;

use crate::harness::caller::id_of;
use crate::harness::capability::Capability;
use crate::harness::controller::RunningController;
use crate::oauth::{Browser, operator};

/// The client on the Node of the conformance suite, and the folder of the package (packaging/dev/deps).
/// Where one is missing, prints the reason and returns `None`.
fn client() -> Option<Command> {
    let cache =
        std::env::var_os("HOTDESK_CACHE").map_or_else(|| PathBuf::from("/var/cache/hotdesk"), PathBuf::from);
    let folder = cache.join("mcp-client");
    let node = cache.join("mcp-conformance/node_modules/node/bin/node");
    if !folder.join("node_modules/@modelcontextprotocol/client").exists() || !node.exists() {
        Capability::Conformance.skip("no TypeScript client of MCP (make deps-test)");
        return None;
    }
    let mut command = Command::new(node);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/mcp_client.mjs")).arg(folder);
    Some(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_client_types_into_a_computer() {
    let Some(mut client) = client() else { return };
    let Some((controller, workspace, computer)) = RunningController::with_a_computer().await else { return };
    let away = controller.workspace("away").await;
    let elsewhere = id_of(&controller.computer(&away, "two").await);
    let store = Store::open(&controller.store_file()).await.expect("the store opens twice");
    let account = operator(&store).await;
    let person = Browser::sign_in(controller.base(), "me@desk.example").await;
    let key = json!({"name": "relay", "workspace_id": workspace});
    let key = controller.create("/keys", key).await["key"].as_str().expect("a key").to_owned();
    client.args([controller.base(), &workspace, &computer, &elsewhere]).env("COOKIE", person.cookie());
    client.env("HOTDESK_API_KEY", &key).env("HOTDESK", env!("CARGO_BIN_EXE_hotdesk"));
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("it ran").expect("it ran");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    let both = |transport| format!("{transport} legacy: 2025-11-25\n{transport} auto: 2026-07-28\n");
    assert_eq!(output, format!("{}{}all tools used\n", both("http"), both("stdio")));
    let connections = store.connections(account).await.expect("a list");
    let names: Vec<Option<&str>> =
        connections.iter().map(|connection| connection.client_name.as_deref()).collect();
    assert_eq!(names, [Some("TypeScript"); 2], "one connection for each revision");
    assert!(!controller.log().contains(&key), "the log contains a credential");
}
