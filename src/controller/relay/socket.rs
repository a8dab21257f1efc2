//! Live channels of a computer: a client's socket, its counterpart at the agent, and the end of both.
//!
//! A refused upgrade is accepted first and then closed with a code, because clients read close codes and not
//! statuses (docs/channels.md).

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::AppState;
use crate::identity::auth::socket_auth::{self, AdmittedSocket};
use crate::web::request_lease::RequestLease;
use crate::web::source::Source;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::keyed_semaphore::Permit;
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::desktop::channel::{self, Channel, Failure, GOING_AWAY, NORMAL, TRY_AGAIN_LATER};
use hotdesk_domain::desktop::rfb::{InputReader, RfbViolation, ViewOnly};
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::Credential;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_guest::{Guest, Socket};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::socket::{CloseReason, PeerMessage, Receiver, Sender, Upgrade};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::passwords::PasswordDigest;
use hotdesk_wire::computer::ticket::TicketMode;

/// Query parameters of a client that reach the agent. The others are only for the controller.
const FORWARDED_PARAMETERS: [&str; 5] = ["cols", "rows", "sample_rate", "channels", "screen"];
/// Time in which an agent must read a message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after an agent's abrupt end in which the end of its computer may be noticed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Concurrent sockets of one computer: a third of all that may be open, so that one password cannot occupy
/// all.
const MAX_PER_COMPUTER: usize = 1024;
/// Failures for which an agent may close a channel, besides an orderly end. Any other code counts as a
/// failure of the agent.
const AGENT_FAILURES: [Failure; 6] = [
    Failure::NotRunning,
    Failure::Idle,
    Failure::Failed,
    Failure::Unreachable,
    Failure::NotListening,
    Failure::NoEncoder,
];

/// `GET /desktops/{id}/ws/{channel}`.
pub async fn open(
    State(app): State<AppState>,
    source: Source,
    Path((id, channel)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    let channel = Channel::parse(&channel).filter(|channel| Channel::BY_PASSWORD.contains(channel));
    let channel = channel.ok_or_else(|| Error::not_found("No such channel"))?;
    let query: Vec<(String, String)> = serde_urlencoded::from_str(query.as_deref().unwrap_or_default())
        .map_err(|_| Error::invalid("the query is not name=value pairs"))?;
    let shown = query.iter().find(|(name, _)| name == "ticket").map(|(_, ticket)| ticket.as_str());
    let refused_page = app.sockets.refused_page(&upgrade);
    let admitted = match (refused_page, shown.filter(|_| Channel::BY_TICKET.contains(&channel))) {
        // Such a page uses up no ticket.
        (Some(refused), _) => Err(refused),
        (None, None) => app
            .socket_auth
            .admit(channel, &id, socket_auth::token(&headers, &query).as_deref(), source)
            .await?
            .map(|AdmittedSocket { computer, hold, by, .. }| AdmittedClient {
                computer,
                hold,
                by,
                actor: Actor::Password,
                query,
                filter: None,
            }),
        (None, Some(ticket)) => {
            let admitted = app.socket_auth.admit_ticket(channel, &id, ticket, source).await?;
            admitted.map(|admitted| AdmittedClient {
                computer: admitted.computer,
                hold: admitted.hold,
                by: admitted.by,
                actor: admitted.given.actor,
                query: vec![("screen".to_owned(), admitted.given.screen)],
                // The agent takes no input by any other channel that a ticket opens.
                filter: (channel == Channel::Websockify && admitted.given.mode == TicketMode::View)
                    .then(ViewOnly::default),
            })
        }
    };
    let sockets = app.sockets.clone();
    Ok(sockets.open(upgrade, channel.name(), move |sender, receiver| async move {
        match admitted {
            Ok(admitted) => serve(&app, channel, admitted, (sender, receiver)).await,
            Err(closing) => closing,
        }
    })?)
}

/// An authenticated client.
struct AdmittedClient {
    computer: Computer,
    /// Lease on the password at that time.
    hold: Lease<PasswordDigest>,
    /// Lease on the credential that created the ticket, if a ticket was used.
    by: Option<Lease<Credential>>,
    /// Who acts by the socket.
    actor: Actor,
    query: Vec<(String, String)>,
    /// Filter of the messages of a client that may only watch.
    filter: Option<ViewOnly>,
}

/// Connects a client with the computer until its password or credential ends.
async fn serve(
    app: &AppState,
    channel: Channel,
    admitted: AdmittedClient,
    client: (Sender, Receiver),
) -> CloseReason {
    // Keep the leases to the end, because only holders are notified.
    let (hold, by) = (admitted.hold.clone(), admitted.by.clone());
    let ended = |why: &'static str| CloseReason::new(channel.close_code(Failure::Unauthenticated), why);
    let issuer_revoked = async {
        match &by {
            Some(by) => by.revoked().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = hold.revoked() => ended("the password was changed"),
        () = issuer_revoked => ended(socket_auth::ISSUER_REVOKED),
        closing = relay(app, channel, admitted, client) => closing,
    }
}

/// Connects a client with the computer until one of them, the computer or the controller ends.
async fn relay(
    app: &AppState,
    channel: Channel,
    AdmittedClient { computer, actor, query, filter, .. }: AdmittedClient,
    (sender, receiver): (Sender, Receiver),
) -> CloseReason {
    let failed = |failure, reason: &'static str| CloseReason::new(channel.close_code(failure), reason);
    let _permit = match permit(app, computer.id) {
        Ok(permit) => permit,
        Err(closing) => return closing,
    };
    if channel == Channel::Events {
        return app.events.join(&computer, sender, receiver).await;
    }
    // Clients reconnect by themselves, so a suspended computer is not woken; otherwise it would never stay
    // suspended.
    let Ok(guest) = app.fleet.guest_awake(&computer).await else {
        return failed(Failure::NotRunning, "computer not running");
    };
    let guest = guest.acting_as(actor);
    let forwarded = |(name, _): &(String, String)| FORWARDED_PARAMETERS.contains(&name.as_str());
    let query = query.into_iter().filter(forwarded).collect();
    let upstream = Upstream { channel, guest, query, greeting: None, filter };
    connect(app, computer.id, upstream, (&sender, receiver)).await
}

/// Takes a permit for a socket of a computer.
///
/// # Errors
/// How to close the socket when there are too many.
fn permit(app: &AppState, computer: ComputerId) -> std::result::Result<Permit<ComputerId>, CloseReason> {
    let permit = app.channels.try_acquire(computer, MAX_PER_COMPUTER);
    permit.ok_or_else(|| CloseReason::new(TRY_AGAIN_LATER, "too many sockets of this computer"))
}

/// Opens the socket of a caller with an API key: a channel of a computer, until the credential, the access to the computer, one of
/// them or the controller ends.
pub(super) fn open_by_key(
    app: AppState,
    upgrade: Upgrade,
    computer: ComputerId,
    upstream: Upstream,
    (lease, password): (RequestLease, Lease<PasswordDigest>),
) -> Result<Response> {
    let (channel, sockets) = (upstream.channel, app.sockets.clone());
    Ok(sockets.open(upgrade, channel.name(), move |sender, receiver| async move {
        let _permit = match permit(&app, computer) {
            Ok(permit) => permit,
            Err(closing) => return closing,
        };
        let revoked = |why: String| CloseReason::new(channel.close_code(Failure::Unauthenticated), why);
        tokio::select! {
            biased;
            error = lease.lost() => revoked(error.message),
            () = password.revoked() => revoked("the access to the computer has changed".to_owned()),
            closing = connect(&app, computer, upstream, (&sender, receiver)) => closing,
        }
    })?)
}

/// The agent's side of a socket.
pub(super) struct Upstream {
    pub channel: Channel,
    pub guest: Guest,
    pub query: Vec<(String, String)>,
    /// Text message that the controller sends first.
    pub greeting: Option<String>,
    /// Filter of the messages of a client that may only watch.
    pub filter: Option<ViewOnly>,
}

/// Connects a client with an agent's channel until one of them, the computer or the controller ends.
async fn connect(
    app: &AppState,
    computer: ComputerId,
    Upstream { channel, guest, query, greeting, filter }: Upstream,
    (sender, receiver): (&Sender, Receiver),
) -> CloseReason {
    let failed = |failure, reason: &'static str| CloseReason::new(channel.close_code(failure), reason);
    let stop = app.sockets.stopping();
    let ended = app.fleet.wait_ended(computer);
    let conversation = async {
        let opened = open_upstream(&guest, channel, &query, greeting).await;
        let bridged = match opened {
            Ok(agent) => bridge(channel, &guest, agent, filter, (sender, receiver)).await,
            Err(error) => {
                tracing::info!(
                    %computer,
                    channel = channel.name(),
                    error = format_args!("{error:#}"),
                    "could not open a channel to the agent"
                );
                Some(failed(Failure::Unreachable, "could not reach the computer"))
            }
        };
        match bridged {
            Some(closing) => closing,
            // The agent disconnected without a close frame. If its computer ended, that reason is reported
            // instead.
            None => {
                tokio::time::sleep(END_TIMEOUT).await;
                failed(Failure::Unreachable, "the computer broke the channel off")
            }
        }
    };
    // In this order, because a controller that shuts down also releases its computers.
    tokio::select! {
        biased;
        () = stop.cancelled() => CloseReason::new(GOING_AWAY, "server shutting down"),
        because = ended => CloseReason::new(GOING_AWAY, channel::stopping(because)),
        closing = conversation => closing,
    }
}

/// Opens an agent's channel and sends its first message.
async fn open_upstream(
    guest: &Guest,
    channel: Channel,
    query: &[(String, String)],
    greeting: Option<String>,
) -> std::result::Result<Socket, Error> {
    let mut agent = guest.socket(&format!("/ws/{}", channel.name()), query).await?;
    if let Some(greeting) = greeting {
        let sent = tokio::time::timeout(WRITE_TIMEOUT, agent.send(Message::text(greeting))).await;
        let unsent = || Error::unavailable("The computer's agent does not read");
        sent.map_err(|error| unsent().context(error))?.map_err(|error| unsent().context(error))?;
    }
    Ok(agent)
}

/// Copies messages in both directions, each with its own back-pressure. `None` when the agent disconnected
/// without a close frame.
async fn bridge(
    channel: Channel,
    guest: &Guest,
    agent: Socket,
    mut filter: Option<ViewOnly>,
    (sender, mut receiver): (&Sender, Receiver),
) -> Option<CloseReason> {
    let (mut to_agent, mut from_agent) = agent.split();
    // What a viewer does is in the agent's timeline, which is fetched while somebody acts.
    let mut input = (channel == Channel::Websockify && filter.is_none()).then(InputReader::default);
    let upward = async {
        while let Some(heard) = receiver.receive().await {
            if let (PeerMessage::Binary(bytes), Some(input)) = (&heard, &mut input)
                && input.may_have_input(bytes)
            {
                guest.note_acted();
            }
            let message = match (heard, filter.as_mut()) {
                (PeerMessage::Text(text), None) => Message::Text(text.as_str().into()),
                // RFB is binary; text would bypass the filter.
                (PeerMessage::Text(_), Some(_)) => return Some(not_watching(RfbViolation::NotRfb)),
                (PeerMessage::Binary(bytes), None) => Message::Binary(bytes),
                (PeerMessage::Binary(bytes), Some(filter)) => match filter.pass(&bytes) {
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
        // The client left; close the agent's side too.
        let _ = tokio::time::timeout(WRITE_TIMEOUT, to_agent.close()).await;
        Some(CloseReason::new(NORMAL, ""))
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
                return Some(CloseReason::new(NORMAL, ""));
            }
        }
        None
    };
    tokio::select! {
        closing = upward => closing,
        closing = downward => closing,
    }
}

/// Returns the close of a view-only client that sent a forbidden message.
fn not_watching(refused: RfbViolation) -> CloseReason {
    tracing::info!(?refused, "closed a view-only client that sent a forbidden message");
    CloseReason::new(Channel::Websockify.close_code(Failure::Failed), "a message that is not for watching")
}

/// Converts an agent's close for the client.
fn passed_on(channel: Channel, frame: &CloseFrame) -> CloseReason {
    let code = u16::from(frame.code);
    let known = [NORMAL, GOING_AWAY].contains(&code)
        || AGENT_FAILURES.into_iter().any(|failure| channel.close_code(failure) == code);
    let code = if known { code } else { channel.close_code(Failure::Failed) };
    CloseReason::new(code, frame.reason.as_str().to_owned())
}
