//! Batches of actions (`POST actions`).

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::desktop::action::Action;
use crate::desktop::effect::ActionResult;

/// `POST actions`. A bare array is accepted as `actions`.
#[derive(Clone, Debug, Serialize, ToSchema)]
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
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            actions: Vec<Action>,
            continue_on_error: Option<bool>,
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Batch;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an array of actions, or an object that holds it as `actions`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Batch, A::Error> {
                let actions = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(Batch { actions, continue_on_error: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Batch, A::Error> {
                let Fields { actions, continue_on_error } =
                    Fields::deserialize(MapAccessDeserializer::new(object))?;
                Ok(Batch { actions, continue_on_error })
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

/// Error of one action.
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
}
