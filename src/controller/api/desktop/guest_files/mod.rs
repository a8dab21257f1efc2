//! The files of a computer over HTTP: the agent's own `/files/...`, with the same bodies and answers.

use utoipa_axum::router::OpenApiRouter;

use crate::Shared;

mod archive;
mod content;
mod folders;
mod uploads;

/// The routes of a computer's files.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(content::router())
        .merge(folders::router())
        .merge(archive::router())
        .merge(uploads::router())
}
