//! The live channels of a computer: a client's socket, its counterpart at the agent, and the end of both.
//!
//! An upgrade is accepted before it is refused with a close code, because clients read codes and not statuses (wire.md 10).

use std::time::Duration;

use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::Shared;
use crate::auth::door::{self, Admitted};
use hotdesk_base::living::Hold;
use hotdesk_domain::access::Credential;
use hotdesk_domain::channel::{self, Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::Error;
use hotdesk_domain::rfb::{Refused, ViewOnly};
use hotdesk_guest::Socket;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::serve::Peer;
use hotdesk_http::socket::{Closing, Heard, Receiver, Sender, Upgrade};
use hotdesk_store::computers::Computer;
use hotdesk_store::passwords::Pass;
use hotdesk_wire::ticket::Mode;

/// What of a client's query reaches the agent; the rest is between the client and the controller.
const PASSED: [&str; 5] = ["cols", "rows", "sample_rate", "channels", "screen"];
/// How long an agent may take to read a message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after an agent's silent end its computer may turn out to have ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Sockets of one computer at once: a third of all that may be open, so that nobody can take them all with one password.
const MAX_PER_COMPUTER: usize = 1024;
/// The code for one too many (registered with IANA as "try again later").
const TRY_AGAIN_LATER: u16 = 1013;
/// What an agent may close a channel for, beside an end in order; any other code is a failure of its.
const AGENT_FAILURES: [Failure; 4] =
    [Failure::NotRunning, Failure::Idle, Failure::Failed, Failure::Unreachable];

/// `GET /desktops/{id}/ws/{channel}`.
pub async fn open(
    State(app): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Path((id, channel)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    let channel = Channel::parse(&channel).ok_or_else(|| Error::not_found("No such channel"))?;
    let query: Vec<(String, String)> = serde_urlencoded::from_str(query.as_deref().unwrap_or_default())
        .map_err(|_| Error::invalid("the query is not name=value pairs"))?;
    let shown = query.iter().find(|(name, _)| name == "ticket").map(|(_, ticket)| ticket.as_str());
    let source = app.source(&peer, &headers);
    let admitted = match shown.filter(|_| channel == Channel::Websockify) {
        None => app
            .admit(channel, &id, door::token(&headers, &query).as_deref(), source)
            .await?
            .map(|Admitted { computer, hold, by, .. }| Session { computer, hold, by, query, filter: None }),
        Some(ticket) => app.admit_ticket(&id, ticket, source).await?.map(|admitted| Session {
            computer: admitted.computer,
            hold: admitted.hold,
            by: admitted.by,
            query: vec![("screen".to_owned(), admitted.given.screen)],
            filter: (admitted.given.mode == Mode::View).then(ViewOnly::default),
        }),
    };
    let sockets = app.sockets.clone();
    Ok(sockets.open(upgrade, channel.name(), move |sender, receiver| async move {
        match admitted {
            Ok(session) => attend(&app, channel, session, (sender, receiver)).await,
            Err(closing) => closing,
        }
    })?)
}

/// What somebody was admitted to.
struct Session {
    computer: Computer,
    /// The password of that time.
    hold: Hold<Pass>,
    /// What made the ticket that it was opened by, if one did.
    by: Option<Hold<Credential>>,
    query: Vec<(String, String)>,
    /// Reads along where the client may only watch.
    filter: Option<ViewOnly>,
}

/// Joins a client with the computer for as long as what it came in by opens that.
async fn attend(app: &Shared, channel: Channel, session: Session, client: (Sender, Receiver)) -> Closing {
    // Held to the end: nobody is told of the end of what nobody holds.
    let (hold, by) = (session.hold.clone(), session.by.clone());
    let ended = |why: &'static str| Closing::new(channel.close_code(Failure::Unauthenticated), why);
    let maker_ended = async {
        match &by {
            Some(by) => by.ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = hold.ended() => ended("the password was changed"),
        () = maker_ended => ended(door::MAKER_ENDED),
        closing = converse(app, channel, session, client) => closing,
    }
}

/// Joins a client with the computer until one of them, the computer or the controller ends.
async fn converse(
    app: &Shared,
    channel: Channel,
    Session { computer, query, filter, .. }: Session,
    (sender, receiver): (Sender, Receiver),
) -> Closing {
    let failed = |failure, reason: &'static str| Closing::new(channel.close_code(failure), reason);
    let Some(_seat) = app.channels.admit(computer.id, MAX_PER_COMPUTER) else {
        return Closing::new(TRY_AGAIN_LATER, "too many sockets of this computer");
    };
    if channel == Channel::Events {
        return app.events.join(&computer, sender, receiver).await;
    }
    // Clients open sockets again by themselves: what sleeps would be woken at once.
    let Ok(guest) = app.fleet.guest_awake(&computer).await else {
        return failed(Failure::NotRunning, "computer not running");
    };
    let passed: Vec<&(String, String)> =
        query.iter().filter(|(name, _)| PASSED.contains(&name.as_str())).collect();
    let stop = app.sockets.stopping();
    let ended = app.fleet.ended(computer.id);
    let talk = async {
        let talked = match guest.socket(&format!("/ws/{}", channel.name()), &passed).await {
            Ok(agent) => bridge(channel, agent, filter, (&sender, receiver)).await,
            Err(error) => {
                tracing::info!(computer = %computer.id, channel = channel.name(), %error, "no channel");
                Some(failed(Failure::Unreachable, "could not reach the computer"))
            }
        };
        match talked {
            Some(closing) => closing,
            // The agent was gone without a word: alone, unless its computer's end is told meanwhile.
            None => {
                tokio::time::sleep(END_TIMEOUT).await;
                failed(Failure::Unreachable, "the computer broke the channel off")
            }
        }
    };
    // In this order: a controller that shuts down lets go of its computers as well.
    tokio::select! {
        biased;
        () = stop.cancelled() => Closing::new(GOING_AWAY, "server shutting down"),
        because = ended => Closing::new(GOING_AWAY, channel::stopping(because)),
        closing = talk => closing,
    }
}

/// Carries messages both ways, each way at its own pace: who does not read is not written to. `None` when the agent
/// ended without a close.
async fn bridge(
    channel: Channel,
    agent: Socket,
    mut filter: Option<ViewOnly>,
    (sender, mut receiver): (&Sender, Receiver),
) -> Option<Closing> {
    let (mut to_agent, mut from_agent) = agent.split();
    let upward = async {
        while let Some(heard) = receiver.receive().await {
            let message = match (heard, filter.as_mut()) {
                (Heard::Text(text), None) => Message::Text(text.as_str().into()),
                // RFB is binary: text would go past the filter.
                (Heard::Text(_), Some(_)) => return Some(not_watching(Refused::NotRfb)),
                (Heard::Binary(bytes), None) => Message::Binary(bytes),
                (Heard::Binary(bytes), Some(filter)) => match filter.pass(&bytes) {
                    Ok(passed) if passed.is_empty() => continue,
                    Ok(passed) => Message::Binary(passed.into()),
                    Err(refused) => return Some(not_watching(refused)),
                },
            };
            match tokio::time::timeout(WRITE_TIMEOUT, to_agent.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return None,
            }
        }
        // The client left; the agent hears it as a close.
        let _ = tokio::time::timeout(WRITE_TIMEOUT, to_agent.close()).await;
        Some(Closing::new(NORMAL, ""))
    };
    let downward = async {
        while let Some(Ok(message)) = from_agent.next().await {
            let written = match message {
                Message::Text(text) => sender.text(text.as_str()).await,
                Message::Binary(bytes) => sender.binary(bytes).await,
                Message::Close(frame) => return frame.map(|frame| passed_on(channel, &frame)),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
            };
            if written.is_err() {
                return Some(Closing::new(NORMAL, ""));
            }
        }
        None
    };
    tokio::select! {
        closing = upward => closing,
        closing = downward => closing,
    }
}

/// The close of a client that may only watch and says what no watcher says.
fn not_watching(refused: Refused) -> Closing {
    tracing::info!(?refused, "a view-only client was cut off");
    Closing::new(Channel::Websockify.close_code(Failure::Failed), "a message that is not for watching")
}

/// An agent's close as the client sees it.
fn passed_on(channel: Channel, frame: &CloseFrame) -> Closing {
    let code = u16::from(frame.code);
    let known = [NORMAL, GOING_AWAY].contains(&code)
        || AGENT_FAILURES.into_iter().any(|failure| channel.close_code(failure) == code);
    let code = if known { code } else { channel.close_code(Failure::Failed) };
    Closing::new(code, frame.reason.as_str().to_owned())
}
