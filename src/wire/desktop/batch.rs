//! Batches of actions (`POST actions`).

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::desktop::action::{
    Click, Drag, KeyPress, Move, PointerButton, Scroll, Type, Wait, WaitChange, WaitStable,
};
use crate::desktop::effect::{ActionResult, Options};
use crate::desktop::screenshot::ScreenshotQuery;

/// One action of a batch: its name, and the fields of the route with that name.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// `POST click`.
    Click(Click),
    /// `POST move`.
    Move(Move),
    /// `POST mouse_down`.
    MouseDown(PointerButton),
    /// `POST mouse_up`.
    MouseUp(PointerButton),
    /// `POST drag`.
    Drag(Drag),
    /// `POST scroll`.
    Scroll(Scroll),
    /// `POST type`.
    Type(Type),
    /// `POST key`.
    Key(KeyPress),
    /// `POST key_down`.
    KeyDown(KeyPress),
    /// `POST key_up`.
    KeyUp(KeyPress),
    /// `POST wait`.
    Wait(Wait),
    /// `POST wait_stable`.
    WaitStable(WaitStable),
    /// `POST wait_change`.
    WaitChange(WaitChange),
    /// A screenshot in base64.
    Screenshot(ScreenshotQuery),
}

impl Action {
    /// Returns the common options; `None` for actions that only observe or wait.
    pub fn options(&self) -> Option<&Options> {
        match self {
            Self::Click(body) => Some(&body.options),
            Self::Move(body) => Some(&body.options),
            Self::MouseDown(body) | Self::MouseUp(body) => Some(&body.options),
            Self::Drag(body) => Some(&body.options),
            Self::Scroll(body) => Some(&body.options),
            Self::Type(body) => Some(&body.options),
            Self::Key(body) | Self::KeyDown(body) | Self::KeyUp(body) => Some(&body.options),
            Self::Wait(_) | Self::WaitStable(_) | Self::WaitChange(_) | Self::Screenshot(_) => None,
        }
    }
}

macro_rules! action_from {
    ($($action:ident($body:ident)),*) => {
        $(impl From<$body> for Action {
            fn from(body: $body) -> Self {
                Self::$action(body)
            }
        })*
    };
}

// Actions whose body type belongs to no other action.
action_from!(
    Click(Click),
    Move(Move),
    Drag(Drag),
    Scroll(Scroll),
    Type(Type),
    Key(KeyPress),
    Wait(Wait),
    WaitStable(WaitStable),
    WaitChange(WaitChange)
);

/// `POST actions`. A bare array is accepted as `actions`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"actions": [{"action": "click", "x": 10, "y": 10}, {"action": "type", "text": "hello"}]}))]
pub struct Batch {
    /// Actions, at most 200. They run in this order on one screen, without other clients' actions between
    /// them.
    #[schema(max_items = 200)]
    pub actions: Vec<Action>,
    /// True to continue after a failed action; otherwise the batch ends there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
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
