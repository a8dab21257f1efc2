//! Notifications of the session, requested again whenever their stream ends.

use std::convert::Infallible;
use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::{LiveSession, MAX_ANSWER, RelayFailure, Upstream, write_message};
use crate::client::event_stream::EventStream;
use crate::failure::Outcome;

/// Pause before notifications are requested again, for a server that restarts. It doubles with each failure.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause that this program chooses: notifications are late by it after an outage.
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(60);
/// Longest such pause that the server chooses (`Retry-After`).
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

impl Upstream<'_> {
    /// Writes the notifications of the session, for as long as this program runs.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub async fn listen(&self) -> Outcome<Infallible> {
        let mut sessions = self.session.subscribe();
        let mut pause = RECONNECT_PAUSE;
        loop {
            let session = sessions.borrow_and_update().clone();
            let Some(session) = session else {
                // It cannot end: this upstream owns the sender.
                let _ = sessions.changed().await;
                continue;
            };
            let end = tokio::select! {
                heard = self.hear(&session) => heard?,
                _ = sessions.changed() => continue,
            };
            let wait = match end {
                // Not only with the next message: a client may wait for notifications alone.
                ListenEnd::Gone => match self.open_again(&session).await {
                    Ok(_) => {
                        let wait = grow(&mut pause);
                        if wait == RECONNECT_PAUSE {
                            continue;
                        }
                        // The last new session was gone at once.
                        sessions.mark_unchanged();
                        wait
                    }
                    Err(RelayFailure::Output(failure)) => return Err(failure),
                    Err(RelayFailure::Upstream(why)) => {
                        eprintln!("hotdesk: no session for notifications: {}", why.text());
                        grow(&mut pause)
                    }
                },
                ListenEnd::Refused => {
                    // The same request would be refused again; the next session may not.
                    let _ = sessions.changed().await;
                    continue;
                }
                ListenEnd::Failed(retry_after) => grow(&mut pause).max(retry_after.unwrap_or_default()),
                ListenEnd::Ended => {
                    pause = RECONNECT_PAUSE;
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = sessions.changed() => pause = RECONNECT_PAUSE,
            }
        }
    }

    /// Writes notifications until the stream ends.
    async fn hear(&self, session: &LiveSession) -> Outcome<ListenEnd> {
        let Ok(response) = self.api.stream(self.request(Method::GET, Some(session))).await else {
            return Ok(ListenEnd::Failed(None));
        };
        if !response.status().is_success() {
            return Ok(ListenEnd::of_refusal(response.status(), response.headers()));
        }
        let mut events = EventStream::of(self.api, response, MAX_ANSWER);
        // A stream that breaks is opened again.
        while let Ok(Some(data)) = events.next_data().await {
            if let Ok(event) = serde_json::from_str::<Value>(&data) {
                write_message(&event).await?;
            }
        }
        Ok(ListenEnd::Ended)
    }
}

/// Why notifications of a session end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenEnd {
    /// The server does not know the session any more.
    Gone,
    /// The server refuses the credential, or has no notifications.
    Refused,
    /// The server could not be reached or could not answer; after this time it may.
    Failed(Option<Duration>),
    /// The stream ended.
    Ended,
}

impl ListenEnd {
    fn of_refusal(status: StatusCode, headers: &HeaderMap) -> Self {
        if status == StatusCode::NOT_FOUND {
            return Self::Gone;
        }
        let lasting = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::METHOD_NOT_ALLOWED];
        if lasting.contains(&status) {
            return Self::Refused;
        }
        let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        Self::Failed(seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER)))
    }
}

/// Returns the pause before the next attempt, and doubles it for the one after that.
fn grow(pause: &mut Duration) -> Duration {
    let wait = *pause;
    *pause = (wait * 2).min(MAX_RECONNECT_PAUSE);
    wait
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn only_lasting_refusals_end_the_listening() {
        let end = |status: u16, retry_after: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = retry_after {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(value));
            }
            ListenEnd::of_refusal(StatusCode::from_u16(status).unwrap(), &headers)
        };
        let failed = |seconds: u64| ListenEnd::Failed(Some(Duration::from_secs(seconds)));
        assert_eq!(end(404, None), ListenEnd::Gone);
        for status in [401, 403, 405] {
            assert_eq!(end(status, Some("1")), ListenEnd::Refused, "{status}");
        }
        assert_eq!((end(429, Some("7")), end(503, Some("99999"))), (failed(7), failed(600)));
        for (status, retry_after) in [(429, None), (409, Some("soon")), (400, None), (502, None)] {
            assert_eq!(end(status, retry_after), ListenEnd::Failed(None), "{status}");
        }
    }

    #[test]
    fn the_pause_grows_to_a_minute() {
        let mut pause = RECONNECT_PAUSE;
        let waits: Vec<u64> = (0..8).map(|_| grow(&mut pause).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
