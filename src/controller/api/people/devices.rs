//! Device approval over HTTP (wire.md 13). No key is needed: it is how a program comes by one.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::api::NO_STORE;
use crate::auth::devices::Polled;
use crate::auth::source::Source;
use crate::origin::Origin;
use hotdesk_domain::device::{INTERVAL_SECONDS, LIFE_SECONDS};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json as Body;
use hotdesk_wire::device::{DevicePolled, DeviceStarted, DeviceStatus, DeviceUser, PollDevice, StartDevice};
use hotdesk_wire::error::ErrorBody;

/// The routes of device approval.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(device_start)).routes(routes!(device_poll))
}

/// Begins to ask for a key: the answer has a code that a signed-in person types at `verification_uri`, and one to poll with.
#[utoipa::path(post, path = "/cli/auth/start", tag = "service", request_body = StartDevice, responses(
    (status = 200, description = "The codes", body = DeviceStarted),
    (status = 400, description = "The request is malformed", body = ErrorBody),
    (status = 413, description = "The request is too large", body = ErrorBody),
    (status = 429, description = "Too many; see Retry-After", body = ErrorBody),
    (status = 503, description = "The store is away; see Retry-After", body = ErrorBody)))]
async fn device_start(
    State(app): State<Shared>,
    source: Source,
    origin: Origin,
    Body(wanted): Body<StartDevice>,
) -> Result<Response> {
    let started = app.start_device(&wanted.client, &wanted.hostname, source).await?;
    let page = format!("{}/cli/approve", origin.0);
    let answer = DeviceStarted {
        device_code: started.device_code.reveal().to_owned(),
        user_code: started.user_code.to_string(),
        verification_uri_complete: format!("{page}?code={}", started.user_code),
        verification_uri: page,
        expires_in_seconds: LIFE_SECONDS,
        interval_seconds: INTERVAL_SECONDS,
    };
    Ok((NO_STORE, Json(answer)).into_response())
}

/// Asks how the person decided. The key of an approval is handed out once; afterwards, as for a code that nobody knows, the
/// status is `expired`.
#[utoipa::path(post, path = "/cli/auth/poll", tag = "service", request_body = PollDevice, responses(
    (status = 200, description = "How it stands", body = DevicePolled),
    (status = 400, description = "The request is malformed", body = ErrorBody),
    (status = 413, description = "The request is too large", body = ErrorBody),
    (status = 429, description = "Too many; see Retry-After", body = ErrorBody),
    (status = 503, description = "The store is away; see Retry-After", body = ErrorBody)))]
async fn device_poll(
    State(app): State<Shared>,
    source: Source,
    Body(wanted): Body<PollDevice>,
) -> Result<Response> {
    let plain = |status| DevicePolled { status, interval_seconds: None, api_key: None, user: None };
    let answer = match app.poll_device(&wanted.device_code, source).await? {
        Polled::Pending(seconds) => {
            DevicePolled { interval_seconds: Some(seconds), ..plain(DeviceStatus::Pending) }
        }
        Polled::Denied => plain(DeviceStatus::Denied),
        Polled::Expired => plain(DeviceStatus::Expired),
        Polled::Approved(key, account, email) => DevicePolled {
            api_key: Some(key.reveal().to_owned()),
            user: Some(DeviceUser { id: account.to_string(), email }),
            ..plain(DeviceStatus::Approved)
        },
    };
    Ok((NO_STORE, Json(answer)).into_response())
}
