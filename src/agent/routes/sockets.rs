//! The live channels: who may open one, and who serves it.
//!
//! Sockets stand beside the gate: an upgrade is accepted before it is refused with a close code, because clients read codes
//! and not statuses (wire.md 10).

use std::future::pending;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;

use crate::audio;
use crate::display::Displays;
use crate::exec::terminal;
use crate::state::Agent;
use crate::vnc;
use hotdesk_domain::channel::{Channel, Failure, GOING_AWAY};
use hotdesk_domain::error::Error;
use hotdesk_http::bearer::{self, Shown};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::feed;
use hotdesk_http::socket::{Closing, Receiver, Sender, Sockets, Upgrade};
use tokio_util::sync::CancellationToken;

/// What the channels stand on.
#[derive(Clone)]
struct Live {
    agent: Agent,
    displays: Option<Displays>,
    sockets: Sockets,
}

/// The sockets of an agent.
pub fn router(agent: Agent, displays: Option<Displays>) -> Router {
    let sockets = Sockets::new(agent.tasks.clone());
    let live = Live { agent, displays, sockets };
    Router::new()
        .route("/ws/{channel}", get(open))
        // Where older clients look for it (wire.md 10.1).
        .route("/terminal", get(terminal))
        .with_state(live)
}

async fn open(
    State(live): State<Live>,
    Path(channel): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    let channel = Channel::parse(&channel).ok_or_else(|| Error::not_found("No such channel"))?;
    accept(live, channel, query.as_deref().unwrap_or_default(), &headers, upgrade)
}

async fn terminal(
    State(live): State<Live>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    accept(live, Channel::Terminal, query.as_deref().unwrap_or_default(), &headers, upgrade)
}

fn accept(
    live: Live,
    channel: Channel,
    query: &str,
    headers: &HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    let query: Query =
        serde_urlencoded::from_str(query).map_err(|_| Error::invalid("the query is not name=value pairs"))?;
    let shown = match bearer::shown(headers) {
        Shown::Bearer(token) => Some(token),
        Shown::Nothing | Shown::Unusable => value(&query, "token"),
    };
    let term = shown.and_then(|token| live.agent.token.admits(token));
    let sockets = live.sockets.clone();
    Ok(sockets.open(upgrade, channel.name(), move |sender, receiver| async move {
        let Some(term) = term else {
            return Closing::new(channel.close_code(Failure::Unauthenticated), "missing or invalid token");
        };
        let _seat = live.agent.channels.admit(channel, usize::MAX);
        let stop = live.sockets.stopping().child_token();
        // The channel ends its socket itself, with what it has started.
        let renewed = async {
            term.ended().await;
            stop.cancel();
            pending().await
        };
        tokio::select! {
            closing = serve(live, channel, query, sender, receiver, stop.clone()) => closing,
            closing = renewed => closing,
        }
    })?)
}

/// The pairs of a query.
type Query = Vec<(String, String)>;

fn value<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
}

/// Hands an accepted socket to its channel, which ends it with 1001 once `stop` is cancelled.
async fn serve(
    live: Live,
    channel: Channel,
    query: Query,
    sender: Sender,
    receiver: Receiver,
    stop: CancellationToken,
) -> Closing {
    match channel {
        Channel::Events => {
            let stop = async {
                stop.cancelled().await;
                Closing::new(GOING_AWAY, "server shutting down")
            };
            feed::converse(&live.agent.feed, sender, receiver, stop).await
        }
        Channel::Terminal => {
            let asked = terminal::Asked {
                cols: value(&query, "cols"),
                rows: value(&query, "rows"),
                screen: value(&query, "screen"),
            };
            live.agent.terminals.serve(asked, sender, receiver, stop).await
        }
        Channel::Audio => {
            let asked = audio::Asked {
                sample_rate: value(&query, "sample_rate"),
                channels: value(&query, "channels"),
            };
            live.agent.audio.listen(asked, sender, receiver, stop).await
        }
        Channel::Websockify => {
            let screen = value(&query, "screen");
            vnc::websockify(live.displays.as_ref(), screen, sender, receiver, stop).await
        }
    }
}
