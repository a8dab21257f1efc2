//! Routes of the agent's API.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::middleware;

use crate::actions::ActionRunner;
use crate::display::Displays;
use crate::media::recording::retention::RetentionLimits;
use crate::media::recording::{RecordingSetup, Recordings};
use crate::media::stream::{self, Streams};
use crate::media::vnc::ViewedScreens;
use crate::programs::Programs;
use crate::selftest::SelfTests;
use crate::state::Agent;
use crate::state::activity::{ActivitySources, ScreenSources};
use crate::system::ssh::SshServers;
use hotdesk_http::edge;
use screens::template::ScreensOfTemplate;
use system::{activity, health, identity, processes, provision, ssh};

mod events;
mod exec;
mod files;
mod gate;
mod idempotent;
pub mod screens;
mod selftest;
mod sockets;
mod system;

pub use idempotent::IdempotencyLayer;

/// Returns the whole API; the routes of screens exist only with `displays`. Every path requires the token,
/// unknown paths included.
pub fn router(agent: Agent, displays: Option<Displays>) -> Router {
    let idempotency = IdempotencyLayer { journal: agent.journal.clone(), tasks: agent.tasks.clone() };
    let commands =
        exec::router().layer(middleware::from_fn_with_state(idempotency.clone(), idempotent::pass));
    let routes =
        Router::new().merge(health::router()).merge(events::router()).merge(commands).merge(files::router());
    let routes = routes.merge(processes::router()).merge(provision::router());
    let tests = SelfTests::new(agent.clone(), displays.clone());
    let servers = SshServers::new(agent.clone());
    let mut routes =
        routes.with_state(agent.clone()).merge(selftest::router(tests)).merge(ssh::router(servers.clone()));
    let (mut screen_sources, mut viewed) = (None, None);
    if let Some(displays) = displays {
        let (desktop, home) = (Arc::clone(&agent.desktop), agent.home.clone());
        let setup = RecordingSetup {
            home: home.clone(),
            displays: displays.clone(),
            desktop: Arc::clone(&desktop),
            timelines: agent.timelines.clone(),
            tasks: agent.tasks.clone(),
            limits: RetentionLimits::default(),
            encoder: PathBuf::from("ffmpeg"),
        };
        let streams = Streams::new(stream::StreamSetup {
            home: home.clone(),
            displays: displays.clone(),
            desktop: Arc::clone(&desktop),
            tasks: agent.tasks.clone(),
            encoder: PathBuf::from("ffmpeg"),
            automatic: agent.services.stream_start(),
        });
        routes = routes.merge(screens::streaming::router(streams.clone()));
        let programs = Programs::new(displays.clone(), desktop, home, agent.tasks.clone());
        let recordings = Recordings::open(setup);
        agent.services.connect_screens(Arc::new(ScreensOfTemplate {
            runner: ActionRunner::new(
                displays.clone(),
                recordings.clone(),
                agent.timelines.clone(),
                agent.tasks.clone(),
            ),
            commands: agent.commands.clone(),
            streams: streams.clone(),
        }));
        screen_sources =
            Some(ScreenSources { displays: displays.clone(), streams, recordings: recordings.clone() });
        viewed = Some(ViewedScreens {
            displays: displays.clone(),
            recordings: recordings.clone(),
            timelines: agent.timelines.clone(),
            tasks: agent.tasks.clone(),
        });
        routes = routes.merge(screens::router(
            displays,
            programs,
            recordings,
            agent.timelines.clone(),
            idempotency,
        ));
    }
    let sockets = sockets::router(agent.clone(), viewed, servers);
    let routes = routes
        .merge(activity::router(ActivitySources { agent: agent.clone(), screens: screen_sources }))
        .layer(middleware::from_fn_with_state(agent.clone(), gate::bound))
        .merge(identity::router().with_state(agent.clone()));
    edge::fallbacks(routes)
        .layer(middleware::from_fn_with_state(agent, gate::pass))
        .merge(sockets)
        .layer(middleware::from_fn(edge::pass))
}
