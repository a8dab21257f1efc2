//! What does the agent answer? Every route of the in-guest API, behind one gate.

use axum::Router;
use axum::middleware;

use super::state::Agent;
use crate::http::edge;

mod exec;
mod files;
mod gate;
mod health;

/// The whole API. Nothing is answered without the token, unknown paths included.
pub fn router(agent: Agent) -> Router {
    let routes = Router::new().merge(health::router()).merge(exec::router()).merge(files::router());
    edge::fallbacks(routes)
        .layer(middleware::from_fn_with_state(agent.clone(), gate::pass))
        .layer(middleware::from_fn(edge::pass))
        .with_state(agent)
}
