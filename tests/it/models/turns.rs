//! Turns of models: parts as they arrive, calls, and conversations that go on.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bytes::Bytes;
use hotdesk::base::secret::Secret;
use hotdesk::base::wait;
use hotdesk::controller::config::{Config, Flags};
use hotdesk::model::catalog::{ClientKeys, OpenError};
use hotdesk::model::conversation::{Content, Delta, Image, StopReason, Usage};
use serde_json::{Value, json};

use super::{BOTH, CLAUDE, KEY, SCRIPTED, assistant, calls, catalog, open, quick, reply, result, text, user};
use crate::harness::models::{ScriptedModels, Turn};

/// Far more than a busy machine needs.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_conversation_with_thinking_calls_and_pictures_goes_on() {
    for name in BOTH {
        let click = json!({"action": "left_click", "coordinate": [10, 20]});
        let first = Turn::text("I click ").then_text("there.").then_call("computer", &click);
        let server = ScriptedModels::start(vec![first.tokens(50, 7).cached(30)]).await;
        let handle = open(&catalog(&server.url(), quick()), name);
        let mut messages = vec![user(vec![text("Click the button.")])];
        let (first, deltas) = reply(&handle, messages.clone()).await;
        let first = first.expect("a reply");
        let words: Vec<Delta> =
            ["I ", "click ", "there."].iter().map(|word| Delta::Text((*word).to_owned())).collect();
        assert_eq!(deltas, words, "{name}");
        let calls = calls(&first);
        assert_eq!((calls.len(), &calls[0].name[..], &calls[0].input), (1, "computer", &click), "{name}");
        let usage =
            Usage { input_tokens: 50, output_tokens: 7, cache_read_tokens: 30, cache_write_tokens: 0 };
        assert_eq!((first.stop, first.usage), (StopReason::ToolCalls, usage), "{name}");
        let picture = Image { media_type: "image/png".to_owned(), data: Bytes::from_static(b"a picture") };
        messages.extend([
            assistant(first.content),
            user(vec![result(&calls[0], "clicked", Some(picture), false)]),
        ]);
        server.push(Turn::text("It is done."));
        let (second, _) = reply(&handle, messages).await;
        let second = second.expect("the server accepts the conversation");
        assert_eq!((second.content, second.stop), (vec![text("It is done.")], StopReason::EndTurn), "{name}");
        let sent = server.requests();
        let path = if name == CLAUDE { "/v1/messages" } else { "/v1/chat/completions" };
        assert_eq!((sent.len(), sent[0].path.as_str()), (2, path));
        let body = sent[1].body.to_string();
        assert!(body.contains("YSBwaWN0dXJl") && body.contains("clicked"), "{name}: {body}");
        let keys = ["x-api-key", "authorization"].map(|header| sent[0].headers.get(header));
        let key = keys[0].and_then(|value| value.to_str().ok());
        assert_eq!((key, keys[1].is_some()), ((name == CLAUDE).then_some(KEY), false), "{name}");
    }
}

#[tokio::test]
async fn thinking_returns_with_its_signature_to_the_server_that_signed_it() {
    for name in BOTH {
        let server = ScriptedModels::start(vec![
            Turn::text("")
                .then_thinking("I should look.")
                .then_call("computer", &json!({"action": "screenshot"})),
            Turn::text("I see."),
        ])
        .await;
        let handle = open(&catalog(&server.url(), quick()), name);
        let mut messages = vec![user(vec![text("Look.")])];
        let (first, deltas) = reply(&handle, messages.clone()).await;
        let first = first.expect("a reply");
        assert!(deltas.contains(&Delta::Thinking("look.".to_owned())), "{name}: {deltas:?}");
        let signature = (name == CLAUDE).then(|| "signed: I should look.".to_owned());
        assert_eq!(first.content[0], Content::Thinking { text: "I should look.".to_owned(), signature });
        let call = calls(&first).remove(0);
        messages.extend([assistant(first.content), user(vec![result(&call, "", None, false)])]);
        assert!(reply(&handle, messages).await.0.is_ok(), "{name}");
        let sent = server.requests();
        let thinking = &sent[1].body["messages"][1]["content"][0];
        assert_eq!(thinking["signature"] == "signed: I should look.", name == CLAUDE, "{name}");
        let enabled = json!({"type": "enabled", "budget_tokens": 2048});
        assert_eq!(sent[1].body.get("thinking"), (name == CLAUDE).then_some(&enabled), "{name}");
    }
}

#[tokio::test]
async fn a_server_is_asked_for_an_effort_of_thinking_unless_it_refuses_the_field() {
    let server = ScriptedModels::start(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let handle = open(&catalog(&server.url(), quick()), SCRIPTED);
    let mut request = super::request(&handle, vec![user(vec![text("Count.")])]);
    request.model = "vendor/plain".to_owned();
    for words in ["One.", "Two."] {
        let mut parts = Vec::new();
        let reply = handle.backend.reply(&request, &mut |delta| parts.push(delta)).await;
        assert_eq!(reply.expect("a reply").content, [text(words)]);
    }
    let efforts: Vec<Value> =
        server.requests().iter().map(|request| request.body["reasoning_effort"].clone()).collect();
    assert_eq!(efforts, [json!("medium"), Value::Null, Value::Null], "the refusal is remembered");
}

#[tokio::test]
async fn parts_arrive_before_the_end_and_dropping_the_request_ends_it() {
    for name in BOTH {
        let server = ScriptedModels::start(vec![Turn::text("One two three.").stalled_after(4)]).await;
        let handle = open(&catalog(&server.url(), quick()), name);
        let (sender, mut parts) = tokio::sync::mpsc::unbounded_channel();
        let request = super::request(&handle, vec![user(vec![text("Go.")])]);
        {
            let mut pass = |delta: Delta| {
                if !matches!(delta, Delta::Usage(_)) {
                    sender.send(delta).expect("a receiver");
                }
            };
            let mut replying = handle.backend.reply(&request, &mut pass);
            let first = tokio::select! {
                reply = &mut replying => panic!("{name}: {reply:?}"),
                first = tokio::time::timeout(TIMEOUT, parts.recv()) => first.expect("a part in time"),
            };
            assert_eq!(first, Some(Delta::Text("One ".to_owned())), "{name}");
            assert_eq!(server.open_streams(), 1, "{name}: the model has not ended");
        }
        let ended = wait::until(TIMEOUT, || async { (server.open_streams() == 0).then_some(()) }).await;
        assert!(ended.is_some(), "{name}: the server still sends");
    }
}

#[tokio::test]
async fn malformed_arguments_reach_the_caller_and_the_conversation_goes_on() {
    for name in BOTH {
        let server = ScriptedModels::start(vec![
            Turn::text("Hm.")
                .then_malformed_call("bash", "{\"command\": \"ls")
                .then_malformed_call("bash", ""),
            Turn::text("Sorry."),
        ])
        .await;
        let handle = open(&catalog(&server.url(), quick()), name);
        let mut messages = vec![user(vec![text("List.")])];
        let first = reply(&handle, messages.clone()).await.0.expect("a reply");
        let calls = calls(&first);
        let inputs: Vec<&Value> = calls.iter().map(|call| &call.input).collect();
        assert_eq!(inputs, [&json!("{\"command\": \"ls"), &json!({})], "{name}");
        messages.extend([
            assistant(first.content),
            user(calls.iter().map(|call| result(call, "the arguments are no object", None, true)).collect()),
        ]);
        assert!(reply(&handle, messages).await.0.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn an_interrupted_conversation_is_accepted() {
    for name in BOTH {
        let server = ScriptedModels::start(vec![
            Turn::call("bash", &json!({"command": "a"})).then_call("bash", &json!({"command": "b"})),
            Turn::text("I try again."),
        ])
        .await;
        let handle = open(&catalog(&server.url(), quick()), name);
        let mut messages = vec![user(vec![text("Work.")])];
        let first = reply(&handle, messages.clone()).await.0.expect("a reply");
        let call = calls(&first).remove(1);
        // The first call has no result: the run was interrupted.
        messages.extend([
            assistant(first.content),
            user(vec![result(&call, "done", None, false)]),
            user(vec![text("What happened?")]),
        ]);
        assert!(reply(&handle, messages).await.0.is_ok(), "{name}");
        assert!(server.requests()[1].body.to_string().contains("it was interrupted"), "{name}");
    }
}

#[tokio::test]
async fn a_server_that_leaves_out_ids_usage_and_the_end_is_understood() {
    let turn = || Turn::text("Hm.").then_call("bash", &json!({"command": "ls"})).stop("stop").sparse();
    let server = ScriptedModels::start(vec![turn(), turn()]).await;
    let handle = open(&catalog(&server.url(), quick()), SCRIPTED);
    let mut messages = vec![user(vec![text("List.")])];
    let first = reply(&handle, messages.clone()).await.0.expect("a reply");
    assert_eq!((first.stop, first.usage), (StopReason::ToolCalls, Usage::default()));
    let call = calls(&first).remove(0);
    messages.extend([assistant(first.content), user(vec![result(&call, "a", None, false)])]);
    let second = reply(&handle, messages).await.0.expect("a reply");
    assert_ne!(calls(&second)[0].id, call.id);
}

#[tokio::test]
async fn the_computer_has_the_version_of_its_model() {
    for (model, tool, beta) in [
        ("claude-sonnet-4.6", "computer_20251124", "computer-use-2025-11-24"),
        ("claude-haiku-4.5", "computer_20250124", "computer-use-2025-01-24"),
    ] {
        let server = ScriptedModels::start(vec![Turn::text("Yes.")]).await;
        let handle = open(&catalog(&server.url(), quick()), model);
        assert!(reply(&handle, vec![user(vec![text("Ready?")])]).await.0.is_ok());
        let sent = server.requests().remove(0);
        assert_eq!(sent.body["tools"][0]["type"], tool, "{model}");
        assert_eq!(sent.headers["anthropic-beta"], beta, "{model}");
        let has_zoom = sent.body["tools"][0].get("enable_zoom").is_some();
        assert_eq!(has_zoom, tool == "computer_20251124", "{model}");
    }
}

#[tokio::test]
async fn the_key_of_a_request_replaces_the_operators() {
    let server = ScriptedModels::start(vec![Turn::text("Yes.")]).await;
    let catalog = catalog(&server.url(), quick());
    let keys = ClientKeys { anthropic: Some(Secret::new("sk-ant-client")), openai: None };
    let handle = catalog.open(CLAUDE, &keys).expect("a model");
    assert!(handle.has_client_key);
    assert!(reply(&handle, vec![user(vec![text("Ready?")])]).await.0.is_ok());
    assert_eq!(server.requests()[0].headers["x-api-key"], "sk-ant-client");
    let unknown = catalog.open("gpt-0", &keys).expect_err("no model");
    assert!(matches!(unknown, OpenError::UnknownModel { .. }));
}

#[tokio::test]
async fn a_configuration_file_leads_to_its_servers() {
    let server = ScriptedModels::start(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (file, key) = (folder.path().join("hotdesk.toml"), folder.path().join("key"));
    std::fs::write(&key, format!("{KEY}\n")).expect("a key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("a mode");
    std::fs::write(&file, server.configuration(&key)).expect("a configuration");
    let config = Config::load(Some(&file), &Flags::default()).expect("settings");
    let catalog = config.models.catalog().expect("a catalog");
    assert_eq!(catalog.default_model().name, "claude-sonnet-4.6");
    for (name, words) in [("claude-sonnet-4.6", "One."), (SCRIPTED, "Two.")] {
        let handle = open(&catalog, name);
        let reply = reply(&handle, vec![user(vec![text("Count.")])]).await.0.expect("a reply");
        assert_eq!(reply.content, [text(words)]);
        // 100 tokens at $3 and 10 at $15 for a million.
        assert_eq!(handle.model.prices.cost(&reply.usage), 100 * 300 + 10 * 1500, "{name}");
    }
    assert_eq!(server.requests()[0].headers["x-api-key"], KEY);
}
