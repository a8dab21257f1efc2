//! Streaming a computer's screen and sound to an RTMP server over HTTP (wire.md 8): done by its agent.

use crate::auth::Authenticated;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::forward;
use crate::{Shared, audit};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::access::Caller;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::limits::MAX_STREAM_START_SECONDS;
use hotdesk_guest::{Guest, QUICK};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::action::Done;
use hotdesk_wire::stream::{StartStream, StreamStarted, StreamStatus, StreamTo};

/// Until the agent says that the server took the stream or why not, and what is needed around it.
const START_TIMEOUT: Duration = Duration::from_secs(QUICK.as_secs() + MAX_STREAM_START_SECONDS);

/// The routes of streaming.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(start)).routes(routes!(status)).routes(routes!(stop))
}

/// Streams a screen and what the computer plays, as H.264 and AAC, to a saved connection. On return the server has taken
/// it; 503 `stream_refused` says why it did not. One stream at a time per computer (409 `already_streaming`); 409
/// `no_encoder` where the computer has no ffmpeg; 400 `private_address` where the server's name leads to an address that
/// the service's configuration does not allow.
#[utoipa::path(post, path = "/computers/{id}/stream/start", tag = "streaming", params(("id" = String, Path)),
    request_body = StartStream, responses((status = 200, description = "It streams", body = StreamStarted)))]
async fn start(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<StartStream>,
) -> Result<Json<StreamStarted>> {
    let computer = app.find_computer(&caller, &id).await?;
    let connection = app.find_connection(&caller, &wanted.connection_name).await?;
    let body = StreamTo {
        // Again, because the configuration may be another than when it was saved.
        url: app.destination(&connection.url)?.to_string(),
        key: connection.key,
        screen: wanted.screen,
        allow_private: app.config.streaming.allow_private,
    };
    let guest = app.fleet.guest(&computer).await?;
    // A client that hangs up, or loses the computer, leaves no stream of which nobody knows whose it is.
    let begun = audit::carried(begin(Arc::clone(&app), caller, computer.id, guest, body));
    let started = app.tasks.spawn("stream start", begun).await.map_err(Error::internal)?;
    Ok(Json(started.unwrap_or_else(|| Err(Error::internal("the start of a stream panicked")))?))
}

async fn begin(
    app: Shared,
    caller: Caller,
    computer: ComputerId,
    guest: Guest,
    body: StreamTo,
) -> Result<StreamStarted, Error> {
    let sent: Result<StreamStarted, Error> =
        guest.call(Method::POST, "/stream/start", (), Some(&body), START_TIMEOUT).await;
    if sent.as_ref().is_err_and(|error| !may_stream(error)) {
        return sent;
    }
    let whose = sent.is_ok().then_some(caller.account);
    let kept = async {
        app.store.set_streamed_by(computer, whose).await?;
        // Whoever lost the computer meanwhile was not known as the one who streams.
        app.find_computer(&caller, &computer.to_string()).await
    };
    if let Err(lost) = kept.await {
        if let Err(error) = app.store.order_stream_end(computer).await {
            tracing::warn!(%computer, %error, "that its stream is to be ended is not stored: it is tried once");
        }
        app.end_streams(vec![computer]);
        return Err(lost);
    }
    sent
}

/// Whether a computer may stream though its agent's answer to a start is none: only a refusal says that it does not.
fn may_stream(error: &Error) -> bool {
    error.code.is_none() && matches!(error.kind, Kind::Internal | Kind::Unavailable | Kind::TimedOut)
}

/// Whether the computer streams, and why it does not any more.
#[utoipa::path(get, path = "/computers/{id}/stream/status", tag = "streaming", params(("id" = String, Path)),
    responses((status = 200, description = "How it is", body = StreamStatus)))]
async fn status(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<StreamStatus>> {
    forward(&app, &caller, &id, Method::GET, "/stream/status", (), None::<&()>, QUICK).await
}

/// Ends the stream, if there is one.
#[utoipa::path(post, path = "/computers/{id}/stream/stop", tag = "streaming", params(("id" = String, Path)),
    responses((status = 200, description = "Nothing is streamed", body = Done)))]
async fn stop(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<Done>> {
    forward(&app, &caller, &id, Method::POST, "/stream/stop", (), None::<&()>, QUICK).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_says_that_nothing_is_streamed() {
        for (error, open) in [
            (Error::timed_out("late"), true),
            (Error::unavailable("The computer broke off its answer"), true),
            (Error::internal("nonsense"), true),
            (Error::invalid("a port"), false),
            (Error::not_found("no screen"), false),
            (Error::conflict("streams already").code("already_streaming"), false),
            (Error::unavailable("no").code("stream_refused"), false),
            (Error::unavailable("no").code("encoder_failed"), false),
        ] {
            assert_eq!(may_stream(&error), open, "{error:?}");
        }
    }
}
