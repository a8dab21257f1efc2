//! WebSocket channels of the agent: authentication and dispatch.
//!
//! They are outside of the gate: an upgrade is accepted before it is refused with a close code, because
//! clients read codes and not statuses (docs/channels.md).

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;

use crate::exec::terminal;
use crate::media::audio;
use crate::media::video::{VideoSetup, Videos};
use crate::media::vnc::{ViewedScreens, Viewers};
use crate::state::Agent;
use crate::system::ssh::SshServers;
use crate::system::tunnel;
use hotdesk_domain::desktop::channel::{Channel, Failure, GOING_AWAY};
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_http::bearer::{self, Credentials};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::feed;
use hotdesk_http::headers::actor;
use hotdesk_http::socket::{CloseReason, Receiver, Sender, Sockets, Upgrade};
use tokio_util::sync::CancellationToken;

/// State of the channels.
#[derive(Clone)]
struct ChannelState {
    agent: Agent,
    viewers: Viewers,
    videos: Videos,
    servers: SshServers,
    sockets: Sockets,
}

/// Routes of the sockets; without `screens` the computer has none to see.
pub fn router(agent: Agent, screens: Option<ViewedScreens>, servers: SshServers) -> Router {
    let sockets = Sockets::new(agent.tasks.clone());
    let videos = Videos::new(VideoSetup {
        home: agent.home.clone(),
        displays: screens.as_ref().map(|screens| screens.displays.clone()),
        desktop: Arc::clone(&agent.desktop),
        tasks: agent.tasks.clone(),
        encoder: PathBuf::from("ffmpeg"),
    });
    let state = ChannelState { agent, viewers: Viewers::new(screens), videos, servers, sockets };
    Router::new()
        .route("/ws/{channel}", get(open))
        // Path that older clients use (docs/channels.md).
        .route("/terminal", get(terminal))
        .with_state(state)
}

async fn open(
    State(state): State<ChannelState>,
    Path(channel): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    let channel = Channel::parse(&channel).ok_or_else(|| Error::not_found("No such channel"))?;
    accept(state, channel, query.as_deref().unwrap_or_default(), &headers, upgrade)
}

async fn terminal(
    State(state): State<ChannelState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    accept(state, Channel::Terminal, query.as_deref().unwrap_or_default(), &headers, upgrade)
}

fn accept(
    state: ChannelState,
    channel: Channel,
    query: &str,
    headers: &HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    let query: Query =
        serde_urlencoded::from_str(query).map_err(|_| Error::invalid("the query is not name=value pairs"))?;
    let token = match bearer::credentials(headers) {
        Credentials::Bearer(token) => Some(token),
        Credentials::Missing | Credentials::Invalid => value(&query, "token"),
    };
    let term = token.and_then(|token| state.agent.token.admits(token));
    let by = actor::read(headers);
    let sockets = state.sockets.clone();
    Ok(sockets.open(upgrade, channel.name(), move |sender, receiver| async move {
        let Some(term) = term else {
            return CloseReason::new(
                channel.close_code(Failure::Unauthenticated),
                "missing or invalid token",
            );
        };
        let _permit = state.agent.channels.try_acquire(channel, usize::MAX);
        let stop = state.sockets.stopping().child_token();
        // The channel closes its socket itself, after the processes that it has started.
        let renewed = async {
            term.ended().await;
            stop.cancel();
            pending().await
        };
        tokio::select! {
            closing = serve(state, channel, query, by, sender, receiver, stop.clone()) => closing,
            closing = renewed => closing,
        }
    })?)
}

/// Name-value pairs of a query.
type Query = Vec<(String, String)>;

fn value<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
}

/// Runs the channel of an accepted socket; `by` is who acts by it. It closes with 1001 once `stop` is
/// cancelled.
async fn serve(
    state: ChannelState,
    channel: Channel,
    query: Query,
    by: Option<Actor>,
    sender: Sender,
    receiver: Receiver,
    stop: CancellationToken,
) -> CloseReason {
    match channel {
        Channel::Events => {
            let stop = async {
                stop.cancelled().await;
                CloseReason::new(GOING_AWAY, "server shutting down")
            };
            feed::serve_client(&state.agent.feed, sender, receiver, stop).await
        }
        Channel::Terminal => {
            let parameters = terminal::TerminalQuery {
                cols: value(&query, "cols"),
                rows: value(&query, "rows"),
                screen: value(&query, "screen"),
            };
            state.agent.terminals.serve(parameters, sender, receiver, stop).await
        }
        Channel::Audio => {
            let parameters = audio::AudioQuery {
                sample_rate: value(&query, "sample_rate"),
                channels: value(&query, "channels"),
            };
            state.agent.audio.listen(parameters, sender, receiver, stop).await
        }
        Channel::Video => state.videos.serve(value(&query, "screen"), sender, receiver, stop).await,
        Channel::Websockify => {
            let screen = value(&query, "screen");
            state.viewers.serve(screen, by, sender, receiver, stop).await
        }
        Channel::Ssh => state.servers.serve(sender, receiver, stop).await,
        Channel::Tcp => {
            let open = state.agent.channels.count(&channel);
            tunnel::serve(value(&query, "port"), open, sender, receiver, stop).await
        }
    }
}
