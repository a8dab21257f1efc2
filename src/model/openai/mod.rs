//! Back end for servers with OpenAI's Chat Completions API: OpenAI, vLLM, Ollama, llama.cpp and others.

use async_trait::async_trait;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

mod computer;
mod reply;
mod request;

use crate::Model;
use crate::conversation::{Delta, ModelReply, ModelRequest};
use crate::error::ModelError;
use crate::http::{EndpointClient, OutgoingRequest};
use reply::OpenAiAssembler;
use request::TokenField;

/// Path of the endpoint below the back end's address.
const PATH: [&str; 2] = ["chat", "completions"];

/// An OpenAI-compatible server with a key.
pub(crate) struct OpenAiModel {
    client: EndpointClient,
    key: Option<HeaderValue>,
    tokens: TokenField,
}

impl OpenAiModel {
    /// A server with the value of its key's header.
    pub fn new(client: EndpointClient, key: Option<HeaderValue>) -> Self {
        let tokens = TokenField::of_host(client.host());
        Self { client, key, tokens }
    }

    /// Returns the endpoint of a server.
    pub fn endpoint(base: &Url) -> Url {
        crate::http::below(base, &PATH)
    }
}

#[async_trait]
impl Model for OpenAiModel {
    async fn reply(
        &self,
        request: &ModelRequest,
        deltas: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<ModelReply, ModelError> {
        let headers = HeaderMap::from_iter(self.key.iter().map(|key| (AUTHORIZATION, key.clone())));
        let outgoing = OutgoingRequest::new(headers, &request::body(request, self.tokens))?;
        self.client.reply(&outgoing, || OpenAiAssembler::new(request), deltas).await
    }
}
