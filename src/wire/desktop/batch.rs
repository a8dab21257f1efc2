//! Batches of actions (`POST actions`), in our vocabulary or in that of a model.

use std::fmt;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::desktop::action::Action;
use crate::desktop::effect::{ActionResult, ScreenObservation, Settle};
use crate::desktop::screenshot::{ScreenshotBase64, ScreenshotQuery};
use crate::desktop::vendor::{ActionFormat, AnthropicAction, ConvertedList, OpenaiAction};
use crate::field;

/// Longest `frame` and longest text among the options of a list's screenshot, in bytes. Each is copied into
/// every action of the list. Names of frames and regions have at most 29.
const MAX_COPIED_TEXT: usize = 40;

/// `POST actions` in our vocabulary. A bare array is accepted as `actions`.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(example = json!({"actions": [{"action": "click", "x": 10, "y": 10}, {"action": "type", "text": "hello"}]}))]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Actions, at most 200. They run in this order on one screen, without other clients' actions between
    /// them.
    #[schema(min_items = 1, max_items = 200)]
    pub actions: Vec<Action>,
    /// True to continue after a failed action; otherwise the batch ends there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
    /// Numbers of consecutive actions that count as one and have one result, for all actions in order; at
    /// most 16 each. Each action is its own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 200)]
    pub groups: Option<Vec<u32>>,
    /// Wait at the end until the screen stops changing; the answer has what changed, and the screenshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Settle>,
}

impl Batch {
    /// Returns how long the wait at the end takes at most.
    pub fn settle_duration(&self) -> Duration {
        self.settle.as_ref().map_or(Duration::ZERO, Settle::duration)
    }
}

/// Body of `POST actions`: the vocabulary is ours without `format`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"actions": [{"action": "click", "x": 10, "y": 10}]}))]
#[serde(untagged)]
pub enum ActionList {
    /// Our actions.
    Native(Batch),
    /// Inputs of Anthropic's tool.
    Anthropic(AnthropicList),
    /// Actions of OpenAI's `computer_call`.
    Openai(OpenaiList),
}

/// List of inputs of Anthropic's `computer` tool.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AnthropicList {
    /// Always `anthropic`.
    #[schema(pattern = "^(anthropic)$")]
    pub format: String,
    /// Inputs of the tool, at most 200. Each has one result.
    #[schema(min_items = 1, max_items = 200)]
    pub actions: Vec<AnthropicAction>,
    /// What a list has in every vocabulary.
    #[serde(flatten)]
    pub options: VendorListOptions,
}

/// List of actions of OpenAI's `computer_call`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OpenaiList {
    /// Always `openai`.
    #[schema(pattern = "^(openai)$")]
    pub format: String,
    /// Actions of the call, at most 200. Each has one result.
    #[schema(min_items = 1, max_items = 200)]
    pub actions: Vec<OpenaiAction>,
    /// What a list has in every vocabulary.
    #[serde(flatten)]
    pub options: VendorListOptions,
}

/// Fields of a list in the vocabulary of any model. It refuses unknown fields, and so does the schema of each
/// list, which has these fields.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VendorListOptions {
    /// True to continue after a failed action; otherwise the list ends there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
    /// `frame` of the screenshot that the model saw: coordinates are its pixels, for any scale and region.
    /// Without it, coordinates are screen pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 40)]
    pub frame: Option<String>,
    /// Conditions of the wait at the end, and options for its screenshot, which is always taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<Settle>,
}

/// Fields of a body that is an object. The actions are read when the format is known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    actions: Box<RawValue>,
    continue_on_error: Option<bool>,
    groups: Option<Vec<u32>>,
    #[serde(default, deserialize_with = "field::or_null")]
    settle: Option<Settle>,
    format: Option<ActionFormat>,
    frame: Option<String>,
}

impl Fields {
    /// Reads the actions.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    fn batch(self) -> Result<Batch, String> {
        let Self { actions, continue_on_error, groups, settle, format, frame } = self;
        let Some(format) = format else {
            if frame.is_some() {
                return Err("frame is for a list with a format: each of these actions has its own".to_owned());
            }
            let actions = serde_json::from_str(actions.get()).map_err(|error| error.to_string())?;
            return Ok(Batch { actions, continue_on_error, groups, settle });
        };
        if groups.is_some() {
            return Err("groups is for a list without a format".to_owned());
        }
        let list: Vec<Value> = serde_json::from_str(actions.get()).map_err(|error| error.to_string())?;
        let mut settle = settle.unwrap_or_default();
        let look = settle.screenshot.get_or_insert_default();
        check_copied(frame.as_deref(), look)?;
        let look = look.clone();
        let ConvertedList { mut actions, groups } = format.convert(list, frame.as_deref())?;
        actions.iter_mut().for_each(|action| use_options(action, &look));
        let groups = groups.iter().any(|size| *size != 1).then_some(groups);
        Ok(Batch { actions, continue_on_error, groups, settle: Some(settle) })
    }
}

/// Checks the texts that each action of a list gets a copy of.
///
/// # Errors
/// A sentence that names the field of a too long text.
fn check_copied(frame: Option<&str>, look: &ScreenshotQuery) -> Result<(), String> {
    let texts = [
        ("frame", frame),
        ("settle.screenshot.response_format", look.response_format.as_deref()),
        ("settle.screenshot.format", look.format.as_deref()),
        ("settle.screenshot.region", look.region.as_deref()),
        ("settle.screenshot.cursor", look.cursor.as_deref()),
        ("settle.screenshot.screen", look.screen.as_deref()),
    ];
    let is_long = |text: Option<&str>| text.is_some_and(|text| text.len() > MAX_COPIED_TEXT);
    match texts.into_iter().find(|(_, text)| is_long(*text)) {
        Some((field, _)) => Err(format!("{field} must have at most {MAX_COPIED_TEXT} bytes")),
        None => Ok(()),
    }
}

/// Gives a screenshot of the list the options of the one at its end: the model gets pictures of one size. A
/// zoom is at full scale, within the same `max_bytes`.
fn use_options(action: &mut Action, look: &ScreenshotQuery) {
    if let Action::Screenshot(query) = action {
        query.clone_from(look);
    } else if let Action::Zoom(zoom) = action {
        zoom.screenshot =
            Some(ScreenshotQuery { scale: None, max_pixels: None, region: None, ..look.clone() });
    }
}

// A list in a model's vocabulary is converted here, so it is always serialized in ours: controller, agent and
// proxy path need no other case.
impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Batch;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an array of actions, or an object that holds it as `actions`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Batch, A::Error> {
                let actions = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(Batch { actions, ..Batch::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Batch, A::Error> {
                let fields = Fields::deserialize(MapAccessDeserializer::new(object))?;
                fields.batch().map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// Result of one action.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchItem {
    /// Result, when it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ActionResult>,
    /// Error, when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<BatchError>,
}

/// Error of one action, or of the end of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchError {
    /// HTTP status that its own route would answer.
    pub status: u16,
    /// Message for people.
    pub error: String,
    /// Machine-readable code, if one is defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// Result of a batch.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchResult {
    /// True when every action succeeded.
    pub success: bool,
    /// One entry for each action that was tried, in order. Actions after a failure that ended the batch have
    /// no entry.
    pub results: Vec<BatchItem>,
    /// Number of actions that were not tried.
    pub not_tried: usize,
    /// Duration of the batch in milliseconds.
    pub took_ms: u64,
    /// Result of the wait at the end; all changes since the first action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<ScreenObservation>,
    /// Screenshot at the end, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotBase64>,
    /// Why the wait or the screenshot at the end failed; what failed is absent then. The results of the
    /// actions hold all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_error: Option<BatchError>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<Value, String> {
        let batch = serde_json::from_str::<Batch>(&body.to_string());
        batch.map(|batch| serde_json::to_value(batch).expect("JSON")).map_err(|error| error.to_string())
    }

    #[test]
    fn our_own_lists_stay_as_they_are() {
        let actions = json!([{"action": "click", "x": 1.0, "y": 2.0, "frame": "ab-1"},
            {"action": "wait", "seconds": 1.0}]);
        for body in [
            json!({"actions": actions}),
            json!({"actions": actions, "continue_on_error": true}),
            json!({"actions": actions, "groups": [2],
                "settle": {"quiet_ms": 50, "screenshot": {"scale": 0.5}}}),
            json!({"actions": []}),
        ] {
            assert_eq!(read(body.clone()), Ok(body));
        }
        assert_eq!(read(actions.clone()), Ok(json!({"actions": actions})));
    }

    #[test]
    fn a_list_of_a_model_becomes_ours_wherever_its_format_stands() {
        let settle =
            json!({"quiet_ms": 20, "screenshot": {"format": "jpeg", "scale": 0.5, "max_bytes": 9000}});
        let list = json!([{"action": "screenshot"}, {"action": "zoom", "region": [0, 0, 8, 4]},
            {"action": "wait", "duration": 61}]);
        let texts = [
            format!(r#"{{"format": "anthropic", "actions": {list}, "frame": "ab-1", "settle": {settle}}}"#),
            format!(r#"{{"actions": {list}, "settle": {settle}, "frame": "ab-1", "format": "anthropic"}}"#),
        ];
        let expected = json!({
            "actions": [
                {"action": "screenshot", "format": "jpeg", "scale": 0.5, "max_bytes": 9000},
                {"action": "zoom", "x": 0.0, "y": 0.0, "width": 8.0, "height": 4.0, "frame": "ab-1",
                    "screenshot": {"format": "jpeg", "max_bytes": 9000}},
                {"action": "wait", "seconds": 60.0},
                {"action": "wait", "seconds": 1.0},
            ],
            "groups": [1, 1, 2],
            "settle": settle,
        });
        for text in texts {
            let batch: Batch = serde_json::from_str(&text).expect("a batch");
            assert_eq!(serde_json::to_value(&batch).expect("JSON"), expected, "{text}");
            // What the controller sends is what the agent reads.
            assert_eq!(read(expected.clone()), Ok(expected.clone()));
        }
        let plain = json!({"format": "openai", "actions": [{"type": "move", "x": 1, "y": 2}]});
        let expected =
            json!({"actions": [{"action": "move", "x": 1.0, "y": 2.0}], "settle": {"screenshot": {}}});
        assert_eq!(read(plain.clone()), Ok(expected.clone()));
        // Numbers that are whole are read again from a value.
        let batch: Batch = serde_json::from_value(plain).expect("a batch");
        assert_eq!(serde_json::to_value(&batch).expect("JSON"), expected);
    }

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let wait = json!([{"type": "wait"}]);
        for (body, part) in [
            (
                json!({"format": "gemini", "actions": wait}),
                "unknown variant `gemini`, expected `anthropic` or `openai`",
            ),
            (json!({"format": "openai"}), "missing field `actions`"),
            (json!({"format": "openai", "actions": {}}), "expected a sequence"),
            (json!({"format": "openai", "actions": [{"type": "fly"}]}), "actions[0].type \"fly\" is not"),
            (json!({"format": "openai", "actions": wait, "screen": 1}), "unknown field `screen`"),
            (json!({"format": "openai", "actions": wait, "settle": []}), "expected an object"),
            (json!({"format": "openai", "actions": wait, "settle": {"quiet": 1}}), "unknown field `quiet`"),
            (
                json!({"format": "openai", "actions": wait, "groups": [1]}),
                "groups is for a list without a format",
            ),
            (
                json!({"actions": [{"action": "wait", "seconds": 1}], "frame": "x"}),
                "frame is for a list with a format",
            ),
            (
                json!({"format": "openai", "actions": wait, "frame": "x".repeat(41)}),
                "frame must have at most 40 bytes",
            ),
            (
                json!({"format": "openai", "actions": wait,
                    "settle": {"screenshot": {"region": "1".repeat(41)}}}),
                "settle.screenshot.region must have at most 40 bytes",
            ),
            (json!({"actions": [{"action": "left_click"}]}), "unknown variant `left_click`"),
            (json!({"actions": wait}), "missing field `action`"),
            (json!({"actions": [], "screen": "default"}), "unknown field `screen`"),
            (json!({}), "missing field `actions`"),
        ] {
            let error = read(body.clone()).expect_err("refused");
            assert!(error.contains(part), "{body}: {error}");
        }
        let twice = r#"{"actions": [{"action": "click", "x": 1, "x": 2, "y": 3}]}"#;
        let error = serde_json::from_str::<Batch>(twice).expect_err("refused").to_string();
        assert!(error.contains("duplicate field"), "{error}");
    }
}
