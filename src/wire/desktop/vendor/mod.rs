//! Actions in the vocabularies of models that operate computers: Anthropic's `computer` tool and OpenAI's
//! `computer_call` (docs/api/actions.md).
//!
//! A vendor's action becomes one or several of our actions. Key names are translated by
//! [`hotdesk_domain::desktop::key_name`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

mod anthropic;
mod fields;
mod openai;
mod steps;

use crate::desktop::action::Action;
use hotdesk_domain::limits::MAX_LIST_ACTIONS;

pub use anthropic::{AnthropicAction, ScrollDirection};
pub use fields::{Coordinate, VendorActionError};
pub use openai::{OpenaiAction, OpenaiButton, PathPoint};

/// Vocabulary of a list of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionFormat {
    /// Inputs of Anthropic's `computer` tool.
    Anthropic,
    /// Actions of OpenAI's `computer_call`.
    Openai,
}

/// Our actions for a list of a vendor's actions.
#[derive(Clone, Debug)]
pub(super) struct ConvertedList {
    /// Our actions, in order.
    pub(super) actions: Vec<Action>,
    /// Number of our actions for each action of the vendor.
    pub(super) groups: Vec<u32>,
}

impl ActionFormat {
    /// Converts a list. Coordinates are pixels of the picture with the id `frame`; without it, of the screen.
    ///
    /// # Errors
    /// A sentence that names the index and the field of the first wrong action, or the wrong length of the list.
    pub(super) fn convert(self, list: Vec<Value>, frame: Option<&str>) -> Result<ConvertedList, String> {
        // Before the conversion, which would multiply a long list.
        if !(1..=MAX_LIST_ACTIONS).contains(&list.len()) {
            return Err(format!("actions must be 1 to {MAX_LIST_ACTIONS}"));
        }
        let mut all = ConvertedList { actions: Vec::new(), groups: Vec::new() };
        for (index, action) in list.into_iter().enumerate() {
            let group = self.convert_one(action, frame).map_err(|error| error.of_index(index))?;
            // At most MAX_GROUP_ACTIONS.
            all.groups.push(group.len() as u32);
            all.actions.extend(group);
        }
        Ok(all)
    }

    fn convert_one(self, action: Value, frame: Option<&str>) -> Result<Vec<Action>, VendorActionError> {
        match self {
            Self::Anthropic => AnthropicAction::read(action)?.into_actions(frame),
            Self::Openai => OpenaiAction::read(action)?.into_actions(frame),
        }
    }
}
