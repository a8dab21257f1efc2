//! Answers that are streams of server-sent events.

use std::time::Duration;

use axum::BoxError;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use serde::Serialize;

/// Time between two comments of a stream without events, so that proxies do not end the connection.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns an answer that sends each value as an event, as JSON in `data`. An error breaks the connection.
pub fn event_stream<T, E>(values: impl Stream<Item = Result<T, E>> + Send + 'static) -> Response
where
    T: Serialize + 'static,
    E: Into<BoxError> + 'static,
{
    let events = values.map(|value| {
        let value = value.map_err(Into::<BoxError>::into)?;
        Event::default().json_data(value).map_err(BoxError::from)
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
