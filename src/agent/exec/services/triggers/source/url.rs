//! Answers of a URL that are not as expected.

use std::time::Duration;

use serde_json::json;

use crate::exec::services::health::probe;
use crate::exec::services::triggers::{Reporter, fields};
use hotdesk_wire::template::Choice as _;
use hotdesk_wire::template::trigger::HttpMethod;

/// Longest time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Reports each answer with another status than `expected`, and each request without an answer.
pub(super) async fn watch(
    url: &str,
    method: HttpMethod,
    expected: u64,
    every: Duration,
    reporter: &Reporter,
) -> String {
    let client = match probe::client(url) {
        Ok(client) => client,
        Err(error) => return format!("requests cannot be sent: {error}"),
    };
    let Ok(method) = reqwest::Method::from_bytes(method.word().as_bytes()) else {
        return format!("{} is no method", method.word());
    };
    reporter.watching();
    loop {
        let request = client.request(method.clone(), url).timeout(REQUEST_TIMEOUT).send();
        let (status, error) = match request.await {
            Ok(answer) => (Some(u64::from(answer.status().as_u16())), None),
            Err(error) => (None, Some(probe::causes(&error))),
        };
        if status != Some(expected) {
            let found = [("url", json!(url)), ("status", json!(status)), ("error", json!(error))];
            reporter.event("http", fields(found));
        }
        tokio::time::sleep(every).await;
    }
}
