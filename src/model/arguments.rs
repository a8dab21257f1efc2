//! Arguments and ids of tool calls, as models write them.

use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Returns the arguments of a call: an object. A text that is none stays a string, so that the caller can
/// tell the model. No text is an object without fields.
pub(crate) fn parse(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => {
            Value::String(text.to_owned())
        }
    }
}

/// Returns arguments as the object that servers want in a conversation. Those that are none become one with
/// their text.
pub(crate) fn object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => Value::Object(Map::new()),
        Value::String(text) => json!({"malformed_arguments": text}),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            json!({"malformed_arguments": input.to_string()})
        }
    }
}

/// Returns an id for a call to which the server gave none.
pub(crate) fn new_call_id() -> String {
    format!("call_{}", Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_are_arguments_and_other_texts_stay() {
        for (text, expected) in [
            ("{\"a\": 1}", json!({"a": 1})),
            ("", json!({})),
            (" \n", json!({})),
            ("{\"a\": ", json!("{\"a\": ")),
            ("[1]", json!("[1]")),
            ("null", json!("null")),
            ("{\"a\": 1} and more", json!("{\"a\": 1} and more")),
        ] {
            let parsed = parse(text);
            assert_eq!(parsed, expected, "{text}");
            assert!(object(&parsed).is_object(), "{text}");
        }
        // Deeper than a parser's stack allows.
        assert!(parse(&"[".repeat(100_000)).is_string());
        assert_eq!(object(&json!("x")), json!({"malformed_arguments": "x"}));
    }
}
