//! An event of a trigger: a bounded JSON object.

use serde_json::{Map, Value};

use hotdesk_base::clock;

/// Longest text of an event in bytes: the longest path of Linux.
const MAX_TEXT: usize = 4096;
/// Most fields of an event, and levels of it: lines of a log may be any JSON.
const MAX_FIELDS: usize = 64;
const MAX_DEPTH: usize = 4;
/// Most bytes of an event: it is in the record of a run, and in the bodies of webhooks.
const MAX_BYTES: usize = 16 * 1024;

/// What happened.
#[derive(Clone, Debug)]
pub(super) struct TriggerEvent {
    fields: Map<String, Value>,
}

impl TriggerEvent {
    /// Makes an event of fields. `trigger`, `source` and `time` are added, and take precedence.
    pub(super) fn new(trigger: &str, source: &str, fields: Map<String, Value>) -> Self {
        let bounded = bounded_value(Value::Object(fields), MAX_DEPTH);
        let is_small = bounded.to_string().len() <= MAX_BYTES;
        let mut fields = match bounded {
            Value::Object(fields) if is_small => fields,
            Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => [("truncated".to_owned(), Value::Bool(true))].into_iter().collect(),
        };
        for (name, value) in [("trigger", trigger), ("source", source), ("time", &clock::now().iso8601())] {
            fields.insert(name.to_owned(), Value::String(value.to_owned()));
        }
        Self { fields }
    }

    /// The event as JSON.
    pub(super) fn value(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    /// The text of a field, such as `path` or `data.title`; empty for one that the event does not have.
    pub(super) fn text(&self, path: &str) -> String {
        let mut names = path.split('.');
        let first = names.next().and_then(|name| self.fields.get(name));
        let found = names.fold(first, |value, name| value.and_then(|value| value.get(name)));
        match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        }
    }
}

/// A text with at most [`MAX_TEXT`] bytes.
pub(super) fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

fn bounded_value(value: Value, depth: usize) -> Value {
    match value {
        Value::String(text) => Value::String(bounded(&text)),
        Value::Array(_) | Value::Object(_) if depth == 0 => Value::Null,
        Value::Array(values) => {
            values.into_iter().take(MAX_FIELDS).map(|value| bounded_value(value, depth - 1)).collect()
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().take(MAX_FIELDS);
            Value::Object(
                fields.map(|(name, value)| (bounded(&name), bounded_value(value, depth - 1))).collect(),
            )
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(value: Value) -> TriggerEvent {
        TriggerEvent::new("t", "file", value.as_object().unwrap().clone())
    }

    #[test]
    fn fields_are_found_by_their_path() {
        let event =
            event(json!({"path": "/a", "data": {"title": "x", "n": 3}, "list": [1], "trigger": "other"}));
        for (path, text) in [
            ("path", "/a"),
            ("data.title", "x"),
            ("data.n", "3"),
            ("data", r#"{"n":3,"title":"x"}"#),
            ("list", "[1]"),
            ("none", ""),
            ("path.deeper", ""),
            ("trigger", "t"),
            ("source", "file"),
        ] {
            assert_eq!(event.text(path), text, "{path}");
        }
    }

    #[test]
    fn events_are_bounded() {
        let long = "ä".repeat(MAX_TEXT);
        assert_eq!(event(json!({"a": long})).text("a").len(), MAX_TEXT);
        assert_eq!(event(json!({"a": {"a": {"a": {"a": {}}}}})).text("a.a.a.a"), "");
        let many: Vec<&str> = vec![&long; 9];
        assert_eq!(event(json!({"a": many})).text("truncated"), "true");
    }
}
