//! What does the agent answer? Every route of the in-guest API, behind one gate.

use std::sync::Arc;

use axum::Router;
use axum::middleware;

use super::display::Displays;
use super::programs::Programs;
use super::state::Agent;
use crate::http::edge;

pub mod clipboard;
pub mod desktop;
mod exec;
mod files;
mod gate;
mod health;
pub mod programs;
pub mod windows;

/// The whole API; without screens there are no routes for them. Nothing is answered without the token, unknown paths
/// included.
pub fn router(agent: Agent, displays: Option<Displays>) -> Router {
    let routes = Router::new().merge(health::router()).merge(exec::router()).merge(files::router());
    let mut routes = routes.with_state(agent.clone());
    if let Some(displays) = displays {
        routes = routes.merge(desktop::router(displays.clone()));
        routes = routes.merge(windows::router(displays.clone()));
        routes = routes.merge(clipboard::router(displays.clone()));
        let (desktop, home) = (Arc::clone(&agent.desktop), agent.home.clone());
        routes = routes.merge(programs::router(Programs::new(displays, desktop, home, agent.tasks.clone())));
    }
    edge::fallbacks(routes)
        .layer(middleware::from_fn_with_state(agent, gate::pass))
        .layer(middleware::from_fn(edge::pass))
}
