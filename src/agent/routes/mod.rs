//! What does the agent answer? Every route of the in-guest API, behind one gate.

use axum::Router;
use axum::middleware;

use super::display::Displays;
use super::state::Agent;
use crate::http::edge;

pub mod desktop;
pub mod elements;
mod exec;
mod files;
mod gate;
mod health;

/// The whole API; without screens there are no routes for them. Nothing is answered without the token, unknown paths
/// included.
pub fn router(agent: Agent, displays: Option<Displays>) -> Router {
    let routes = Router::new().merge(health::router()).merge(exec::router()).merge(files::router());
    let mut routes = routes.with_state(agent.clone());
    if let Some(displays) = displays {
        routes = routes.merge(desktop::router(displays.clone())).merge(elements::router(displays));
    }
    edge::fallbacks(routes)
        .layer(middleware::from_fn_with_state(agent, gate::pass))
        .layer(middleware::from_fn(edge::pass))
}
