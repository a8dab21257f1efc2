//! RTMP streaming of a computer's screen and sound over HTTP (docs/api/streaming.md). The agent streams.

use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::api::desktop::forward;
use crate::{AppState, audit};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::identity::access::Caller;
use hotdesk_domain::limits::MAX_STREAM_START_SECONDS;
use hotdesk_guest::{Guest, QUICK_TIMEOUT};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::stream::{StartStream, StreamStarted, StreamStatus, StreamTo};

/// Longest start: until the agent reports the server's response, plus a margin.
const START_TIMEOUT: Duration = Duration::from_secs(QUICK_TIMEOUT.as_secs() + MAX_STREAM_START_SECONDS);

/// Returns the routes of streaming.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(start)).routes(routes!(status)).routes(routes!(stop))
}

/// Target of a new stream.
enum StreamStart {
    /// A saved connection.
    Connection(StreamTo),
    /// A server of the computer's template, whose agent knows it.
    OfTemplate(StartStream),
}

/// Streams a screen and the computer's sound, as H.264 and AAC, to a saved connection.
///
/// Without a connection of the name it is a server of the computer's template.
/// The response comes when the server has accepted the stream; 503 `stream_refused` has its reason otherwise.
/// A computer has one stream at a time (409 `already_streaming`). 409 `no_encoder`: the computer has no
/// ffmpeg. 400 `private_address`: the server's name resolves to an address that the service's configuration
/// does not allow.
#[utoipa::path(post, path = "/computers/{id}/stream/start", tag = "streaming", params(("id" = String, Path)),
    request_body = StartStream,
    responses((status = 200, description = "The stream has started", body = StreamStarted)))]
async fn start(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<StartStream>,
) -> Result<Json<StreamStarted>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let start = match app.stream_connections.find(&caller, &wanted.connection_name).await {
        Ok(connection) => StreamStart::Connection(StreamTo {
            // Checked again, because the configuration may have changed since it was saved.
            url: app.stream_connections.destination(&connection.url)?.to_string(),
            key: connection.key,
            screen: wanted.screen,
            allow_private: app.config.streaming.allow_private,
        }),
        Err(error) if error.kind == Kind::NotFound && computer.template.is_some() => {
            StreamStart::OfTemplate(wanted)
        }
        Err(error) => return Err(error.into()),
    };
    let guest = app.fleet.guest(&computer).await?;
    // In its own task, so that a client that disconnects or loses access leaves no stream without a known
    // owner.
    let begun = audit::propagate(begin(Arc::clone(&app), caller, computer.id, guest, start));
    let started = app.tasks.spawn("stream start", begun).await.map_err(Error::internal)?;
    Ok(Json(started.unwrap_or_else(|| Err(Error::internal("the start of a stream panicked")))?))
}

async fn begin(
    app: AppState,
    caller: Caller,
    computer: ComputerId,
    guest: Guest,
    start: StreamStart,
) -> Result<StreamStarted, Error> {
    let sent: Result<StreamStarted, Error> = match &start {
        StreamStart::Connection(to) => {
            guest.call(Method::POST, "/stream/start", (), Some(to), START_TIMEOUT).await
        }
        StreamStart::OfTemplate(name) => {
            guest.call(Method::POST, "/template/stream/start", (), Some(name), START_TIMEOUT).await
        }
    };
    if sent.as_ref().is_err_and(|error| !may_stream(error)) {
        return sent;
    }
    let whose = sent.is_ok().then_some(caller.account);
    let stored = async {
        app.store.set_stream_owner(computer, whose).await?;
        // A loss of access meanwhile did not see this user as the stream's owner.
        app.directory.find_computer(&caller, &computer.to_string()).await
    };
    if let Err(lost) = stored.await {
        if let Err(error) = app.store.request_stream_end(computer).await {
            tracing::warn!(
                %computer,
                error = format_args!("{error:#}"),
                "could not store that the stream must be stopped; it is tried once"
            );
        }
        app.streams.end(vec![computer]);
        return Err(lost);
    }
    sent
}

/// Whether a computer may stream although its agent's response to a start was an error. Only a refusal means
/// that it does not.
fn may_stream(error: &Error) -> bool {
    error.code.is_none() && matches!(error.kind, Kind::Internal | Kind::Unavailable | Kind::TimedOut)
}

/// Returns whether the computer streams, and if not why its last stream ended.
#[utoipa::path(get, path = "/computers/{id}/stream/status", tag = "streaming", params(("id" = String, Path)),
    responses((status = 200, description = "The state of the stream", body = StreamStatus)))]
async fn status(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<StreamStatus>> {
    forward(&app, &caller, &id, Method::GET, "/stream/status", (), None::<&()>, QUICK_TIMEOUT).await
}

/// Ends the stream, if there is one.
#[utoipa::path(post, path = "/computers/{id}/stream/stop", tag = "streaming", params(("id" = String, Path)),
    responses((status = 200, description = "No stream is running", body = Acknowledgement)))]
async fn stop(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Acknowledgement>> {
    forward(&app, &caller, &id, Method::POST, "/stream/stop", (), None::<&()>, QUICK_TIMEOUT).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::error_code::ErrorCode;

    #[test]
    fn only_a_refusal_says_that_nothing_is_streamed() {
        for (error, open) in [
            (Error::timed_out("late"), true),
            (Error::unavailable("The computer broke off its answer"), true),
            (Error::internal("nonsense"), true),
            (Error::invalid("a port"), false),
            (Error::not_found("no screen"), false),
            (Error::conflict("streams already").code(ErrorCode::AlreadyStreaming), false),
            (Error::unavailable("no").code(ErrorCode::StreamRefused), false),
            (Error::unavailable("no").code(ErrorCode::EncoderFailed), false),
        ] {
            assert_eq!(may_stream(&error), open, "{error:?}");
        }
    }
}
