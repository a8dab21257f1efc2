//! Back ends of language models over real HTTP, against the scripted server and a model on this machine.

use std::time::Duration;

use hotdesk::base::secret::Secret;
use hotdesk::model::catalog::{
    BackendDefinition, BackendKind, CatalogDefinition, ClientKeys, ModelCatalog, ModelDefinition, ModelHandle,
};
use hotdesk::model::conversation::{
    Content, Delta, Image, Message, ModelReply, ModelRequest, Role, Tool, ToolCall, ToolResult,
};
use hotdesk::model::prices::Prices;
use hotdesk::model::{ModelError, RequestLimits};
use serde_json::json;

use crate::harness::models::{ScriptedModels, Turn};

mod failures;
mod local;
mod turns;

/// Name of a model of the Anthropic back end.
const CLAUDE: &str = "claude-sonnet-4-6";
/// Name of the model of the OpenAI back end.
const SCRIPTED: &str = "scripted";
/// One model of each API.
const BOTH: [&str; 2] = [CLAUDE, SCRIPTED];
/// The operator's key.
const KEY: &str = "sk-ant-operator";

/// The bounds of a service with shorter pauses between attempts.
fn quick() -> RequestLimits {
    RequestLimits {
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
        ..RequestLimits::default()
    }
}

/// A catalog with one back end of each API on a server.
fn catalog(url: &str, limits: RequestLimits) -> ModelCatalog {
    let definition = |name: &str, kind, url: String, key: Option<&str>, models: Vec<ModelDefinition>| {
        let key = key.map(Secret::new);
        BackendDefinition {
            name: name.to_owned(),
            kind,
            url,
            key,
            needs_key: false,
            client_keys: true,
            models,
        }
    };
    let scripted = ModelDefinition {
        name: SCRIPTED.to_owned(),
        upstream: "vendor/scripted".to_owned(),
        prices: Prices::default(),
    };
    let backends = vec![
        definition("claude", BackendKind::Anthropic, url.to_owned(), Some(KEY), Vec::new()),
        definition("gpt", BackendKind::OpenAi, format!("{url}/v1"), None, vec![scripted]),
    ];
    ModelCatalog::new(CatalogDefinition { backends, default: String::new(), limits }).expect("a catalog")
}

/// Opens a model without a key of a client.
fn open(catalog: &ModelCatalog, name: &str) -> ModelHandle {
    catalog.open(name, &ClientKeys::default()).expect("a model")
}

fn text(text: &str) -> Content {
    Content::Text { text: text.to_owned() }
}

fn user(content: Vec<Content>) -> Message {
    Message { role: Role::User, content }
}

fn assistant(content: Vec<Content>) -> Message {
    Message { role: Role::Assistant, content }
}

fn result(call: &ToolCall, text: &str, image: Option<Image>, is_error: bool) -> Content {
    Content::ToolResult(ToolResult { call: call.id.clone(), text: text.to_owned(), image, is_error })
}

/// The calls of a reply.
fn calls(reply: &ModelReply) -> Vec<ToolCall> {
    let calls = reply.content.iter().filter_map(|part| match part {
        Content::ToolCall(call) => Some(call.clone()),
        Content::Text { .. }
        | Content::Image(_)
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::ToolResult(_) => None,
    });
    calls.collect()
}

/// A request with the computer and a function.
fn request(handle: &ModelHandle, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: handle.model.upstream.clone(),
        system: "Be brief.".to_owned(),
        messages,
        tools: vec![
            Tool::Computer { width: 1280, height: 720 },
            Tool::Function {
                name: "bash".to_owned(),
                description: "Runs a command.".to_owned(),
                schema: json!({"type": "object", "properties": {"command": {"type": "string"}}}),
            },
        ],
        max_tokens: 4096,
        thinking_budget: Some(2048),
    }
}

/// Sends a request and returns the outcome with the parts that were passed on.
async fn reply(handle: &ModelHandle, messages: Vec<Message>) -> (Result<ModelReply, ModelError>, Vec<Delta>) {
    let request = request(handle, messages);
    let mut deltas = Vec::new();
    let outcome = handle.backend.reply(&request, &mut |delta| deltas.push(delta)).await;
    deltas.retain(|delta| !matches!(delta, Delta::Usage(_)));
    (outcome, deltas)
}

/// Sends "Go." to a model of a new server with this script. Returns the outcome, the parts, and the number of
/// requests.
async fn outcome(
    name: &str,
    turns: Vec<Turn>,
    limits: RequestLimits,
) -> (Result<ModelReply, ModelError>, Vec<Delta>, usize) {
    let server = ScriptedModels::start(turns).await;
    let handle = open(&catalog(&server.url(), limits), name);
    let (outcome, deltas) = reply(&handle, vec![user(vec![text("Go.")])]).await;
    (outcome, deltas, server.requests().len())
}
