//! Files in a computer over HTTP: the agent's `/files/...`, with the same bodies and responses.

use crate::api::api_router::ApiRouter;

mod archive;
mod content;
pub(crate) mod folders;
mod uploads;

/// Returns the routes of a computer's files.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .merge(content::router())
        .merge(folders::router())
        .merge(archive::router())
        .merge(uploads::router())
}
