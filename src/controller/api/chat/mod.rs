//! Handlers of chat completions, models, threads and the prompt socket (docs/api/chat.md).

pub(super) mod chat_errors;
mod completions;
mod prompt;
pub(crate) mod threads;

use crate::api::api_router::ApiRouter;

/// Returns the routes of chat.
pub fn router<R: ApiRouter>() -> R {
    R::new().merge(completions::router()).merge(prompt::router()).merge(threads::router())
}
