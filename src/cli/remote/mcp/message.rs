//! JSON-RPC messages of the Model Context Protocol, as far as a relay must understand them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

/// Key of the protocol version in the `_meta` of a message without a session.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// JSON-RPC code of a text that is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON-RPC code of JSON that is not a message.
pub const INVALID_REQUEST: i64 = -32600;
/// JSON-RPC code of a failure between this program and the server (from the range for implementations).
pub const RELAY_ERROR: i64 = -32000;

/// A message of the client.
#[derive(Clone, Debug)]
pub struct ClientMessage {
    /// The message as it was sent.
    pub text: Bytes,
    /// Id of a request; `None` for a notification and for an answer.
    pub id: Option<Value>,
    method: Option<String>,
    /// Header fields that repeat values of a message without a session.
    pub fields: Vec<(&'static str, String)>,
    cancelled: Option<Value>,
    subscription: Option<Subscription>,
}

/// A change of the client's subscriptions, with the address of the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// `resources/subscribe`.
    Begin(String),
    /// `resources/unsubscribe`.
    End(String),
}

impl ClientMessage {
    /// Reads a line.
    ///
    /// # Errors
    /// The JSON-RPC error for the client.
    pub fn parse(text: Bytes) -> Result<Self, Value> {
        let refuse = |code, why: String| Err(error_reply(&Value::Null, code, &why));
        let message: Value = match serde_json::from_slice(&text) {
            Ok(message) => message,
            Err(error) => return refuse(PARSE_ERROR, format!("the line is not JSON: {error}")),
        };
        if !message.is_object() {
            return refuse(INVALID_REQUEST, "the line is not a JSON object".to_owned());
        }
        let method = message["method"].as_str().map(str::to_owned);
        let id = method.as_ref().and_then(|_| message.get("id").filter(|id| !id.is_null()).cloned());
        let is_cancellation = method.as_deref() == Some("notifications/cancelled");
        let cancelled = is_cancellation.then(|| message["params"]["requestId"].clone());
        let fields = method.as_deref().map(|method| fields(method, &message["params"])).unwrap_or_default();
        // A line of standard output is one message, and so is a body.
        let uri = message["params"]["uri"].as_str().map(str::to_owned);
        let subscription = match method.as_deref() {
            Some("resources/subscribe") => uri.map(Subscription::Begin),
            Some("resources/unsubscribe") => uri.map(Subscription::End),
            Some(_) | None => None,
        };
        Ok(Self { text, id, method, fields, cancelled, subscription })
    }

    /// Whether it opens a session.
    pub fn is_initialize(&self) -> bool {
        self.method.as_deref() == Some("initialize")
    }

    /// Whether the client has ended the opening of its session.
    pub fn is_initialized(&self) -> bool {
        self.method.as_deref() == Some("notifications/initialized")
    }

    /// Whether it carries its protocol version itself, and so needs no session.
    pub fn is_stateless(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Whether later messages must wait until the server has it.
    pub fn is_ordered(&self) -> bool {
        self.id.is_none() || self.is_initialize()
    }

    /// How it changes the subscriptions of the client, if the server accepts it.
    pub fn subscription(&self) -> Option<&Subscription> {
        self.subscription.as_ref()
    }

    /// Id of the request that it cancels.
    pub fn cancelled(&self) -> Option<&Value> {
        self.cancelled.as_ref()
    }
}

/// Header fields of a message without a session: version, method and name repeat values of the body.
fn fields(method: &str, params: &Value) -> Vec<(&'static str, String)> {
    let Some(version) = params["_meta"][VERSION_KEY].as_str() else { return Vec::new() };
    let mut fields =
        vec![("mcp-protocol-version", field_value(version)), ("mcp-method", field_value(method))];
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => params["uri"].as_str(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
        _ => None,
    };
    fields.extend(name.map(|name| ("mcp-name", field_value(name))));
    fields
}

/// A value as a header field has it. What a field cannot have is written as base64, as the protocol says.
fn field_value(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && value.trim() == value;
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if is_plain && !looks_encoded {
        return value.to_owned();
    }
    format!("=?base64?{}?=", STANDARD.encode(value))
}

/// An answer with an error.
pub fn error_reply(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(message: &Value) -> ClientMessage {
        ClientMessage::parse(message.to_string().into()).unwrap()
    }

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        let request = parse(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize"}));
        assert!(request.is_initialize() && request.is_ordered() && request.id == Some(json!(0)));
        let call = parse(&json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call"}));
        assert!(!call.is_ordered() && !call.is_stateless());
        let cancel = parse(&json!({"method": "notifications/cancelled", "params": {"requestId": 7}}));
        assert!(cancel.is_ordered() && cancel.cancelled() == Some(&json!(7)) && cancel.id.is_none());
        let answer = parse(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        assert!(answer.is_ordered() && answer.id.is_none());
    }

    #[test]
    fn subscriptions_are_seen() {
        let of = |method: &str| {
            let message = parse(&json!({"id": 1, "method": method, "params": {"uri": "a:b"}}));
            message.subscription().cloned()
        };
        assert_eq!(of("resources/subscribe"), Some(Subscription::Begin("a:b".to_owned())));
        assert_eq!(of("resources/unsubscribe"), Some(Subscription::End("a:b".to_owned())));
        assert_eq!(of("resources/read"), None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (line, code) in [("{", PARSE_ERROR), ("[]", INVALID_REQUEST), ("1", INVALID_REQUEST)] {
            let refused = ClientMessage::parse(line.into()).unwrap_err();
            assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(code), &Value::Null), "{line}");
        }
    }

    #[test]
    fn a_message_without_a_session_has_its_fields() {
        let meta = json!({VERSION_KEY: "2026-07-28"});
        let call =
            |name: &str| json!({"id": 1, "method": "tools/call", "params": {"name": name, "_meta": meta}});
        let fields = |name| parse(&call(name)).fields;
        let version = ("mcp-protocol-version", "2026-07-28".to_owned());
        let method = ("mcp-method", "tools/call".to_owned());
        assert_eq!(fields("bash"), [version.clone(), method.clone(), ("mcp-name", "bash".to_owned())]);
        assert_eq!(fields("\u{e9}"), [version, method, ("mcp-name", "=?base64?w6k=?=".to_owned())]);
    }
}
