//! What does the agent answer? Every route of the in-guest API, behind one gate.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::middleware;

use super::acting::Acting;
use super::activity::{Sight, Work};
use super::display::Displays;
use super::programs::Programs;
use super::recording::room::Limits;
use super::recording::{Recordings, Setup};
use super::selftest::SelfTests;
use super::state::Agent;
use super::stream::{self, Streams};
use hotdesk_http::edge;

pub mod actions;
mod activity;
pub mod clipboard;
pub mod desktop;
pub mod elements;
mod events;
mod exec;
mod files;
mod gate;
mod health;
mod idempotent;
mod identity;
mod processes;
pub mod programs;
mod recordings;
mod screenshot;
mod selftest;
mod sockets;
mod streaming;
pub mod windows;

pub use idempotent::Noting;

/// The whole API; without screens there are no routes for them. Nothing is answered without the token, unknown paths
/// included.
pub fn router(agent: Agent, displays: Option<Displays>) -> Router {
    let noting = Noting { journal: agent.journal.clone(), tasks: agent.tasks.clone() };
    let commands = exec::router().layer(middleware::from_fn_with_state(noting.clone(), idempotent::pass));
    let routes =
        Router::new().merge(health::router()).merge(events::router()).merge(commands).merge(files::router());
    let routes = routes.merge(processes::router());
    let tests = SelfTests::new(agent.clone(), displays.clone());
    let sockets = sockets::router(agent.clone(), displays.clone());
    let mut routes = routes.with_state(agent.clone()).merge(selftest::router(tests));
    let mut sight = None;
    if let Some(displays) = displays {
        let (desktop, home) = (Arc::clone(&agent.desktop), agent.home.clone());
        let setup = Setup {
            home: home.clone(),
            displays: displays.clone(),
            desktop: Arc::clone(&desktop),
            tasks: agent.tasks.clone(),
            limits: Limits::default(),
            encoder: PathBuf::from("ffmpeg"),
        };
        let streams = Streams::new(stream::Setup {
            home: home.clone(),
            displays: displays.clone(),
            desktop: Arc::clone(&desktop),
            tasks: agent.tasks.clone(),
            encoder: PathBuf::from("ffmpeg"),
        });
        routes = routes.merge(streaming::router(streams.clone()));
        let programs = Programs::new(displays.clone(), desktop, home, agent.tasks.clone());
        let recordings = Recordings::open(setup);
        sight = Some(Sight { displays: displays.clone(), streams, recordings: recordings.clone() });
        routes = routes.merge(screens(displays, programs, recordings, noting));
    }
    let routes = routes
        .merge(activity::router(Work { agent: agent.clone(), sight }))
        .layer(middleware::from_fn_with_state(agent.clone(), gate::bound))
        .merge(identity::router().with_state(agent.clone()));
    edge::fallbacks(routes)
        .layer(middleware::from_fn_with_state(agent, gate::pass))
        .merge(sockets)
        .layer(middleware::from_fn(edge::pass))
}

/// What can be done with screens.
pub fn screens(displays: Displays, programs: Programs, recordings: Recordings, noting: Noting) -> Router {
    let acting = Acting::new(displays.clone(), recordings.clone(), noting.tasks.clone());
    actions::router(acting)
        .merge(programs::router(programs))
        .merge(elements::router(displays.clone()))
        .layer(middleware::from_fn_with_state(noting, idempotent::pass))
        .merge(windows::router(displays.clone()))
        .merge(clipboard::router(displays.clone()))
        .merge(recordings::router(recordings))
        .merge(desktop::router(displays))
}
