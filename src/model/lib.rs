//! Language models: one trait over Anthropic Messages and OpenAI-compatible endpoints (floor 4).

use async_trait::async_trait;

mod anthropic;
mod arguments;
pub mod catalog;
pub mod conversation;
mod error;
mod history;
mod http;
mod openai;
pub mod prices;

pub use error::{ModelError, ModelErrorKind};
pub use http::limits::RequestLimits;

use conversation::{Delta, ModelReply, ModelRequest};

/// A back end that answers requests with one model turn.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks for one turn. Each part of text, and each known number of tokens, is passed to `deltas` as it
    /// arrives. The reply has the whole turn. Dropping the future ends the request at the back end.
    ///
    /// # Errors
    /// [`ModelError`], after the retries that its kind allows. Parts of text may have been passed on before.
    async fn reply(
        &self,
        request: &ModelRequest,
        deltas: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<ModelReply, ModelError>;
}
