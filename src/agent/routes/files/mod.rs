//! Routes `/files/...`: the computer's files.

mod archive;
pub(in crate::routes) mod content;
mod folders;
mod uploads;

use axum::Router;

use crate::state::Agent;

pub fn router() -> Router<Agent> {
    Router::new()
        .merge(content::router())
        .merge(folders::router())
        .merge(archive::router())
        .merge(uploads::router())
}
