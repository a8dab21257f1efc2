//! Python's `mcp` package as a client, over HTTP and over `hotdesk mcp`: it lists the tools, takes a
//! screenshot of a real computer and types into it.

use std::process::Command;

use serde_json::json;

use super::scene::token;
use crate::clients::python;
use crate::harness::controller::RunningController;

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_types_into_a_computer() {
    let Some((controller, workspace, computer)) = RunningController::with_a_computer().await else { return };
    let Some(python) = python() else { return };
    let away = controller.workspace("away").await;
    let elsewhere = crate::harness::caller::id_of(&controller.computer(&away, "two").await);
    let store =
        hotdesk::store::Store::open(&controller.data_dir().join("hotdesk.db")).await.expect("the store");
    let operator = store.operator_account().await.expect("the operator");
    let token = token(&store, operator, &workspace).await;
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/mcp_client.py"));
    let key = json!({"name": "relay", "workspace_id": workspace});
    let key = controller.create("/keys", key).await["key"].as_str().expect("a key").to_owned();
    client.args([controller.base(), &computer, &elsewhere]).env("MCP_TOKEN", &token);
    client.env("HOTDESK_API_KEY", &key).env("HOTDESK", env!("CARGO_BIN_EXE_hotdesk"));
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("it ran").expect("it ran");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    let both = |transport| format!("{transport} legacy: 2025-11-25\n{transport} auto: 2026-07-28\n");
    assert_eq!(output, format!("{}{}all tools used\n", both("http"), both("stdio")));
    for secret in [&token, &key] {
        assert!(!controller.log().contains(secret), "the log contains a credential");
    }
}
