//! Back end for servers with OpenAI's Chat Completions API: OpenAI, vLLM, Ollama, llama.cpp and others.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

mod computer;
mod reply;
mod request;

use crate::Model;
use crate::conversation::{Delta, ModelReply, ModelRequest};
use crate::error::{ModelError, ModelErrorKind};
use crate::http::{EndpointClient, OutgoingRequest};
use reply::OpenAiAssembler;
use request::TokenField;

/// Path of the endpoint below the back end's address.
const PATH: [&str; 2] = ["chat", "completions"];
/// Words of refusals because of the effort of thinking: the field, and what Ollama says.
const EFFORT_WORDS: [&str; 3] = [request::EFFORT_FIELD, "does not support thinking", "think value"];

/// An OpenAI-compatible server with a key.
pub(crate) struct OpenAiModel {
    client: EndpointClient,
    key: Option<HeaderValue>,
    tokens: TokenField,
    /// Whether the server has refused to be asked for an effort of thinking.
    refuses_effort: AtomicBool,
}

impl OpenAiModel {
    /// A server with the value of its key's header.
    pub fn new(client: EndpointClient, key: Option<HeaderValue>) -> Self {
        let tokens = TokenField::of_host(client.host());
        Self { client, key, tokens, refuses_effort: AtomicBool::new(false) }
    }

    /// Returns the endpoint of a server.
    pub fn endpoint(base: &Url) -> Url {
        crate::http::below(base, &PATH)
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        has_effort: bool,
        deltas: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<ModelReply, ModelError> {
        let headers = HeaderMap::from_iter(self.key.iter().map(|key| (AUTHORIZATION, key.clone())));
        let outgoing = OutgoingRequest::new(headers, &request::body(request, self.tokens, has_effort))?;
        self.client.reply(&outgoing, || OpenAiAssembler::new(request), deltas).await
    }
}

/// Whether a server refused a request because of the effort of thinking, which models that do not think and
/// older servers do not know. The detail has the server's own words.
fn is_about_effort(error: &ModelError) -> bool {
    let says = |detail: &str| EFFORT_WORDS.iter().any(|words| detail.contains(words));
    error.kind == ModelErrorKind::Refused && error.detail.as_deref().is_some_and(says)
}

#[async_trait]
impl Model for OpenAiModel {
    async fn reply(
        &self,
        request: &ModelRequest,
        deltas: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<ModelReply, ModelError> {
        let has_effort = request.thinking_budget.is_some() && !self.refuses_effort.load(Ordering::Relaxed);
        let replied = self.ask(request, has_effort, deltas).await;
        match replied {
            // It refused before it began, so nothing was passed on.
            Err(error) if has_effort && is_about_effort(&error) => {
                self.refuses_effort.store(true, Ordering::Relaxed);
                self.ask(request, false, deltas).await
            }
            replied => replied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_that_names_the_effort_is_about_it() {
        use ModelErrorKind::{Refused, Unavailable};
        for (kind, detail, expected) in [
            (Refused, Some("status 400: Unrecognized request argument supplied: reasoning_effort"), true),
            (Refused, Some("status 400: \"llama3.1:8b\" does not support thinking"), true),
            (Refused, Some("status 400: think value \"medium\" is not supported for this model"), true),
            (Refused, Some("status 400: temperature"), false),
            (Refused, None, false),
            (Unavailable, Some("reasoning_effort"), false),
        ] {
            let detail = detail.map(str::to_owned);
            let error = ModelError { kind, message: "no".to_owned(), detail };
            assert_eq!(is_about_effort(&error), expected, "{error:?}");
        }
    }
}
