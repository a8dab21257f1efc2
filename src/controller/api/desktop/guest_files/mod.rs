//! Files in a computer over HTTP: the agent's `/files/...`, with the same bodies and responses.

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

mod archive;
mod content;
pub(crate) mod folders;
mod uploads;

/// Returns the routes of a computer's files.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(content::router())
        .merge(folders::router())
        .merge(archive::router())
        .merge(uploads::router())
}
