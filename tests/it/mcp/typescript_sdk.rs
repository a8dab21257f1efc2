//! TypeScript's `@modelcontextprotocol/sdk` as a client, over HTTP and over `hotdesk mcp`: it checks every
//! result against its schema, failures included, and is told of progress, changes and questions.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use serde_json::{Value, json};

use super::resources::PaintedScreen;
use super::scene::{SESSION_REVISION, Scene};
use crate::harness::capability::Capability;
use crate::oauth::node;

/// The client. It prints what it saw, as one line of JSON for each transport.
const SCRIPT: &str = r#"
const { MODULES, BASE, TOKEN, COMPUTER, THREADS, HOTDESK, HOTDESK_URL, HOTDESK_API_KEY } = process.env;
const sdk = (path) => import(`file://${MODULES}/@modelcontextprotocol/sdk/dist/esm/${path}.js`);
const { Client } = await sdk("client/index");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp");
const { StdioClientTransport } = await sdk("client/stdio");
const types = await sdk("types");
const headers = { Authorization: `Bearer ${TOKEN}` };
const env = { HOTDESK_URL, HOTDESK_API_KEY };
const transports = [
    new StreamableHTTPClientTransport(new URL(`${BASE}/mcp`), { requestInit: { headers } }),
    new StdioClientTransport({ command: HOTDESK, args: ["mcp"], env }),
];
for (const [index, transport] of transports.entries()) {
    const capabilities = { elicitation: { form: {} } };
    const client = new Client({ name: "test", version: "1" }, { capabilities });
    const questions = [];
    let action = "decline";
    client.setRequestHandler(types.ElicitRequestSchema, (request) => {
        questions.push(request.params.message);
        return action === "accept" ? { action, content: {} } : { action };
    });
    const updates = [];
    client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, (notification) => {
        updates.push(notification.params.uri);
    });
    const versions = [];
    const setVersion = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (version) => { versions.push(version); setVersion?.(version); };
    await client.connect(transport);
    const { tools } = await client.listTools();
    const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
    const seen = await call("get_computer", { computer_id: COMPUTER });
    const refused = await call("get_computer", { computer_id: "00000000-0000-4000-8000-000000000000" });
    const { resources } = await client.listResources();
    const uri = resources.map((one) => one.uri).find((one) => one.includes(COMPUTER));
    await client.subscribeResource({ uri });
    const reports = [];
    // Each command paints. The stream for notifications opens at its own time.
    for (let turn = 0; turn < 20 && updates.length === 0; turn++) {
        const onprogress = (report) => reports.push(report.message);
        await call("bash", { computer_id: COMPUTER, command: "paint" }, { onprogress });
    }
    const thread_id = JSON.parse(THREADS)[index];
    const declined = await call("delete_thread", { thread_id });
    action = "accept";
    const accepted = await call("delete_thread", { thread_id });
    console.log(JSON.stringify({ tools: tools.length, versions, seen: seen.structuredContent.id,
        refused: [refused.isError, refused.structuredContent.error],
        update: updates[0] === uri, report: reports[0],
        questions: questions.filter((text) => text.includes(thread_id)).length,
        deleted: [!declined.isError, !accepted.isError] }));
    await client.close();
}
"#;

/// Agent whose commands paint, and take longer than the first report of progress.
fn painting_agent() -> Router {
    let screen = PaintedScreen::default();
    let routes = screen.router();
    let bash = post(async move || {
        screen.paint();
        tokio::time::sleep(Duration::from_secs(2)).await;
        axum::Json(json!({"success": true, "action": "bash", "command": "", "output": "", "exit_code": 0}))
    });
    routes.route("/bash", bash)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_client_accepts_every_message() {
    let Some((mut client, modules)) = node() else {
        return Capability::Conformance.skip("no Node with the TypeScript client (make deps-test)");
    };
    let scene = Scene::boot_with(painting_agent()).await;
    let mut threads = Vec::new();
    for _ in 0..2 {
        let made = scene.controller.post("/chat/threads", json!({"desktopId": scene.computer})).await;
        threads.push(made.body["remoteId"].clone());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("client.mjs");
    std::fs::write(&script, SCRIPT).expect("the script");
    client.arg(&script).env("MODULES", &modules).env("THREADS", json!(threads).to_string());
    client.env("BASE", &scene.controller.base).env("TOKEN", &scene.token).env("COMPUTER", &scene.computer);
    client.env("HOTDESK", env!("CARGO_BIN_EXE_hotdesk")).env("HOTDESK_URL", &scene.controller.base);
    client.env("HOTDESK_API_KEY", scene.controller.key());
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("it ran").expect("it ran");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    let lines: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(lines.len(), 2, "{output}");
    for seen in &lines {
        let expected = json!({"versions": [SESSION_REVISION], "seen": scene.computer, "update": true,
            "refused": [true, "Desktop not found"], "questions": 2, "deleted": [false, true]});
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(seen[name], *value, "{name}: {seen}");
        }
        assert!(seen["tools"].as_u64().is_some_and(|count| count > 50), "{seen}");
        assert!(seen["report"].as_str().is_some_and(|text| text.starts_with("bash: ")), "{seen}");
    }
}
