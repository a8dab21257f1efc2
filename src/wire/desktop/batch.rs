//! What is sent to have several actions done in one request? (`POST actions`)

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::action::{Click, Drag, Key, Move, PointerButton, Scroll, Type, Wait, WaitChange, WaitStable};
use super::effect::{ActionResult, Options};
use super::screenshot::ScreenshotQuery;

/// One action of a list: its name, and the fields of the route of that name.
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
    Key(Key),
    /// `POST key_down`.
    KeyDown(Key),
    /// `POST key_up`.
    KeyUp(Key),
    /// `POST wait`.
    Wait(Wait),
    /// `POST wait_stable`.
    WaitStable(WaitStable),
    /// `POST wait_change`.
    WaitChange(WaitChange),
    /// A screenshot, as base64.
    Screenshot(ScreenshotQuery),
}

impl Action {
    /// What it asks for beside its own fields; `None` for what only looks or waits.
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
    ($($body:ident),*) => {
        $(impl From<$body> for Action {
            fn from(body: $body) -> Self {
                Self::$body(body)
            }
        })*
    };
}

// Bodies that belong to one action only.
action_from!(Click, Move, Drag, Scroll, Type, Key, Wait, WaitStable, WaitChange);

/// `POST actions`. A bare array is read as its `actions`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"actions": [{"action": "click", "x": 10, "y": 10}, {"action": "type", "text": "hello"}]}))]
pub struct Batch {
    /// Done in this order on one screen, with nobody else's between them; at most 200.
    #[schema(max_items = 200)]
    pub actions: Vec<Action>,
    /// Goes on after an action that failed; otherwise the list ends there.
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

/// What became of one action of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchItem {
    /// Its result, when it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ActionResult>,
    /// Why it was not, when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<BatchError>,
}

/// Why an action of a list failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchError {
    /// The status that its own route would have answered.
    pub status: u16,
    /// For people.
    pub error: String,
    /// For programs, where one is defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// What became of a list of actions.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchResult {
    /// True when every action was done.
    pub success: bool,
    /// One entry for each action that was tried, in order; those after a failure that ended the list have none.
    pub results: Vec<BatchItem>,
    /// How many actions were not tried.
    pub not_tried: usize,
    /// Milliseconds that all took.
    pub took_ms: u64,
}
