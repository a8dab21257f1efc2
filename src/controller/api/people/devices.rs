//! Device approval over HTTP (docs/api/authentication.md). It needs no key, because a program gets its key
//! this way.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::AppState;
use crate::api::NO_STORE;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::devices::DevicePoll;
use crate::web::origin::Origin;
use crate::web::source::Source;
use hotdesk_domain::identity::device::{INTERVAL_SECONDS, LIFE_SECONDS};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json as Body;
use hotdesk_wire::error::ErrorBody;
use hotdesk_wire::identity::device::{
    DeviceAuthorization, DevicePollResult, DeviceStatus, DeviceUser, PollDevice, StartDevice,
};

/// Returns the routes of device approval.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(device_start)).routes(routes!(device_poll))
}

/// Starts a device approval.
///
/// The response has a code that a signed-in person enters at `verification_uri`, and a code to poll with.
#[utoipa::path(post, path = "/cli/auth/start", tag = "service", request_body = StartDevice, responses(
    (status = 200, description = "The codes", body = DeviceAuthorization),
    (status = 400, description = "The request is malformed", body = ErrorBody),
    (status = 413, description = "The request is too large", body = ErrorBody),
    (status = 429, description = "Too many; see Retry-After", body = ErrorBody),
    (status = 503, description = "The database is unavailable; see Retry-After", body = ErrorBody)))]
async fn device_start(
    State(app): State<AppState>,
    source: Source,
    origin: Origin,
    Body(wanted): Body<StartDevice>,
) -> Result<Response> {
    let started = app.devices.start(&wanted.client, &wanted.hostname, source).await?;
    let page = format!("{}/cli/approve", origin.0);
    let answer = DeviceAuthorization {
        device_code: started.device_code.reveal().to_owned(),
        user_code: started.user_code.to_string(),
        verification_uri_complete: format!("{page}?code={}", started.user_code),
        verification_uri: page,
        expires_in_seconds: LIFE_SECONDS,
        interval_seconds: INTERVAL_SECONDS,
    };
    Ok((NO_STORE, Json(answer)).into_response())
}

/// Polls the decision of the person.
///
/// The key of an approval is returned once. Afterwards, and for an unknown code, the status is `expired`.
#[utoipa::path(post, path = "/cli/auth/poll", tag = "service", request_body = PollDevice, responses(
    (status = 200, description = "The state of the approval", body = DevicePollResult),
    (status = 400, description = "The request is malformed", body = ErrorBody),
    (status = 413, description = "The request is too large", body = ErrorBody),
    (status = 429, description = "Too many; see Retry-After", body = ErrorBody),
    (status = 503, description = "The database is unavailable; see Retry-After", body = ErrorBody)))]
async fn device_poll(
    State(app): State<AppState>,
    source: Source,
    Body(wanted): Body<PollDevice>,
) -> Result<Response> {
    let plain = |status| DevicePollResult { status, interval_seconds: None, api_key: None, user: None };
    let answer = match app.devices.poll(&wanted.device_code, source).await? {
        DevicePoll::Pending(seconds) => {
            DevicePollResult { interval_seconds: Some(seconds), ..plain(DeviceStatus::Pending) }
        }
        DevicePoll::Denied => plain(DeviceStatus::Denied),
        DevicePoll::Expired => plain(DeviceStatus::Expired),
        DevicePoll::Approved(key, account, email) => DevicePollResult {
            api_key: Some(key.reveal().to_owned()),
            user: Some(DeviceUser { id: account.to_string(), email }),
            ..plain(DeviceStatus::Approved)
        },
    };
    Ok((NO_STORE, Json(answer)).into_response())
}
