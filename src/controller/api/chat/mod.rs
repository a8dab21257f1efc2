//! Handlers of chat completions, models, threads and the prompt socket (docs/api/chat.md).

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

pub(super) mod chat_errors;
mod completions;
mod prompt;
pub(crate) mod threads;

/// Returns the routes of chat.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().merge(completions::router()).merge(prompt::router()).merge(threads::router())
}
