//! Back end for Anthropic's Messages API, with its computer tool, thinking and prompt caching.

use async_trait::async_trait;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

mod features;
mod reply;
mod request;

use crate::Model;
use crate::conversation::{Delta, ModelReply, ModelRequest};
use crate::error::ModelError;
use crate::http::{EndpointClient, OutgoingRequest};
use reply::AnthropicAssembler;

/// Path of the endpoint below the back end's address.
const PATH: [&str; 2] = ["v1", "messages"];
/// Version of the API.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");
const VERSION_HEADER: HeaderName = HeaderName::from_static("anthropic-version");
const BETA_HEADER: HeaderName = HeaderName::from_static("anthropic-beta");
const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// An Anthropic server with a key.
pub(crate) struct AnthropicModel {
    client: EndpointClient,
    key: Option<HeaderValue>,
}

impl AnthropicModel {
    /// A server with the value of its key's header.
    pub fn new(client: EndpointClient, key: Option<HeaderValue>) -> Self {
        Self { client, key }
    }

    /// Returns the endpoint of a server.
    pub fn endpoint(base: &Url) -> Url {
        crate::http::below(base, &PATH)
    }
}

#[async_trait]
impl Model for AnthropicModel {
    async fn reply(
        &self,
        request: &ModelRequest,
        deltas: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<ModelReply, ModelError> {
        let mut headers = HeaderMap::from_iter([(VERSION_HEADER, VERSION)]);
        if let Some(beta) = request::beta(request) {
            headers.insert(BETA_HEADER, HeaderValue::from_static(beta));
        }
        if let Some(key) = &self.key {
            headers.insert(KEY_HEADER, key.clone());
        }
        let outgoing = OutgoingRequest::new(headers, &request::body(request))?;
        self.client.reply(&outgoing, AnthropicAssembler::default, deltas).await
    }
}
