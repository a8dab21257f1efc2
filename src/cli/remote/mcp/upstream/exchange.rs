//! Exchange of one message with the server.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;

use super::super::message::ClientMessage;
use super::{LiveSession, MAX_ANSWER, RelayFailure, Upstream, upstream, write_message};
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::event_stream::EventStream;
use hotdesk_wire::error::ErrorBody;

/// Longest wait for the head of an answer. Without a session it comes with the result, and the longest call
/// creates a computer (seven minutes).
const CALL_TIMEOUT: Duration = Duration::from_secs(600);

/// Where the result of an exchange goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// To the client.
    Forwarded,
    /// Nowhere: the client has seen the answer to the first `initialize`.
    Dropped,
}

/// Result of an exchange.
#[derive(Default)]
pub(super) struct ExchangeOutcome {
    /// Whether the server does not know the session any more.
    pub(super) is_session_gone: bool,
    /// The session that was opened.
    pub(super) session: Option<LiveSession>,
    /// Whether the answer to the request is a result.
    pub(super) is_success: bool,
}

impl Upstream<'_> {
    /// Sends a message and handles the answer.
    pub(super) async fn exchange(
        &self,
        message: &ClientMessage,
        session: Option<&LiveSession>,
        answers: Answers,
    ) -> Result<ExchangeOutcome, RelayFailure> {
        let mut request = self.request(Method::POST, session).header(CONTENT_TYPE, "application/json");
        for (name, value) in &message.fields {
            request = request.header(*name, value);
        }
        // What is no request is accepted at once, and standard input waits for it.
        let timeout = if message.id.is_some() { CALL_TIMEOUT } else { REQUEST_TIMEOUT };
        let sent = tokio::time::timeout(timeout, request.body(message.text.clone()).send()).await;
        let late = |_| upstream(&format!("the server did not answer in {} seconds", timeout.as_secs()));
        let response = sent.map_err(late)?;
        let response = response.map_err(|error| RelayFailure::Upstream(self.api.transport_failure(error)))?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Ok(ExchangeOutcome { is_session_gone: true, ..ExchangeOutcome::default() });
        }
        let Some(id) = &message.id else {
            if status.is_success() {
                return Ok(ExchangeOutcome::default());
            }
            let body = self.body(response).await?.unwrap_or_default();
            return Err(upstream(&refusal(status, &body)));
        };
        let answer = if is_kind(&headers, "text/event-stream") {
            self.streamed_answer(response, id, answers).await?
        } else {
            self.whole_answer(response, id, answers).await?
        };
        let session = message.is_initialize().then_some(&answer).and_then(|answer| {
            let id = headers.get("mcp-session-id")?.to_str().ok()?.to_owned();
            let version = answer["result"]["protocolVersion"].as_str()?.to_owned();
            Some(LiveSession { id, version })
        });
        let is_success = answer.get("result").is_some();
        Ok(ExchangeOutcome { is_session_gone: false, session, is_success })
    }

    /// Relays the messages of a stream up to the answer to a request. What a server sends after it is not
    /// read, so that no failure becomes a second answer.
    async fn streamed_answer(
        &self,
        response: Response,
        id: &Value,
        answers: Answers,
    ) -> Result<Value, RelayFailure> {
        let mut events = EventStream::of(self.api, response, MAX_ANSWER);
        while let Some(data) = events.next_data().await.map_err(RelayFailure::Upstream)? {
            let Ok(event) = serde_json::from_str::<Value>(&data) else { continue };
            if answers == Answers::Forwarded {
                write_message(&event).await.map_err(RelayFailure::Output)?;
            }
            if is_answer(&event, id) {
                return Ok(event);
            }
        }
        Err(upstream("the server ended the stream before its answer"))
    }

    /// Relays a body that is the answer to a request.
    async fn whole_answer(
        &self,
        response: Response,
        id: &Value,
        answers: Answers,
    ) -> Result<Value, RelayFailure> {
        let status = response.status();
        let body = self.body(response).await?.unwrap_or_default();
        if !is_answer(&body, id) {
            return Err(upstream(&refusal(status, &body)));
        }
        if answers == Answers::Forwarded {
            write_message(&body).await.map_err(RelayFailure::Output)?;
        }
        Ok(body)
    }

    /// Reads an answer that is not a stream; `None` when it is empty or no JSON.
    async fn body(&self, mut response: Response) -> Result<Option<Value>, RelayFailure> {
        let mut body = Vec::new();
        loop {
            let chunk = tokio::time::timeout(REQUEST_TIMEOUT, response.chunk()).await;
            let chunk = chunk.map_err(|_| upstream("the server stopped in the middle of its answer"))?;
            let chunk = chunk.map_err(|error| RelayFailure::Upstream(self.api.transport_failure(error)))?;
            let Some(chunk) = chunk else { return Ok(serde_json::from_slice(&body).ok()) };
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(upstream("the answer of the server is too long"));
            }
            body.extend_from_slice(&chunk);
        }
    }
}

fn is_kind(headers: &HeaderMap, kind: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.starts_with(kind))
}

/// Error text of the server, with its request id.
fn refusal(status: StatusCode, body: &Value) -> String {
    match serde_json::from_value::<ErrorBody>(body.clone()) {
        Ok(ErrorBody { error, request_id: Some(id), .. }) => format!("{error} (request {id})"),
        Ok(ErrorBody { error, .. }) => error,
        Err(_) => match body["error"]["message"].as_str() {
            Some(message) => message.to_owned(),
            None if status.is_success() => format!("the server answered {status} without a message"),
            None => format!("the server answered {status}"),
        },
    }
}

/// Whether a message answers a request.
fn is_answer(message: &Value, id: &Value) -> bool {
    message["jsonrpc"].is_string() && message.get("method").is_none() && message["id"] == *id
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_has_the_id_of_its_request() {
        let is = |message: Value| is_answer(&message, &json!(1));
        assert!(is(json!({"jsonrpc": "2.0", "id": 1, "result": {}})));
        for foreign in [
            Value::Null,
            json!([]),
            json!({"id": 1}),
            json!({"jsonrpc": "2.0", "id": 2, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        ] {
            assert!(!is(foreign.clone()), "{foreign}");
        }
    }

    #[test]
    fn a_refusal_has_the_text_of_the_server() {
        let text = |body: Value| refusal(StatusCode::OK, &body);
        assert_eq!(text(json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "no"}})), "no");
        assert_eq!(text(Value::Null), "the server answered 200 OK without a message");
    }
}
