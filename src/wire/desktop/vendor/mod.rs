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

pub use anthropic::{AnthropicAction, WheelDirection};
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
    /// A sentence that names the index and the field of the first wrong action, or the wrong length of the
    /// list.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use hotdesk_domain::limits::MAX_GROUP_ACTIONS;

    /// Names of actions of both vocabularies, and others.
    const NAMES: [&str; 27] = [
        "key",
        "hold_key",
        "type",
        "cursor_position",
        "mouse_move",
        "left_mouse_down",
        "left_mouse_up",
        "left_click",
        "left_click_drag",
        "right_click",
        "middle_click",
        "double_click",
        "triple_click",
        "scroll",
        "wait",
        "screenshot",
        "zoom",
        "click",
        "drag",
        "keypress",
        "move",
        "",
        "fly",
        "KEY",
        "é",
        "wait ",
        "\0",
    ];
    const FIELDS: [&str; 17] = [
        "text",
        "repeat",
        "duration",
        "coordinate",
        "start_coordinate",
        "scroll_direction",
        "scroll_amount",
        "region",
        "button",
        "x",
        "y",
        "keys",
        "path",
        "scroll_x",
        "scroll_y",
        "key",
        "frame",
    ];

    /// Values of fields: valid ones of every type, and others.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (0..400_i64).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            "(ctrl|CTRL|shift|space|[a-z]|\\+| ){0,8}".prop_map(Value::from),
            proptest::sample::select(vec!["up", "left", "wheel"]).prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 16, 6, |inner| {
            let object = (inner.clone(), inner.clone()).prop_map(|(x, y)| json!({"x": x, "y": y}));
            prop_oneof![proptest::collection::vec(inner, 0..6).prop_map(Value::from), object]
        })
    }

    /// An action with some of the fields.
    fn action() -> impl Strategy<Value = Value> {
        let fields = proptest::collection::vec((proptest::sample::select(FIELDS.to_vec()), value()), 0..5);
        (proptest::sample::select(NAMES.to_vec()), fields).prop_map(|(name, fields)| {
            let mut action = json!({"action": name, "type": name});
            fields.into_iter().for_each(|(field, value)| action[field] = value);
            action
        })
    }

    proptest! {
        #[test]
        fn any_action_is_converted_or_refused_with_its_place(
            mut action in action(),
            anthropic in any::<bool>(),
            other in prop_oneof![value(), action()],
        ) {
            let format = if anthropic { ActionFormat::Anthropic } else { ActionFormat::Openai };
            let tag = if anthropic { "type" } else { "action" };
            action.as_object_mut().expect("an object").remove(tag);
            for list in [vec![action.clone()], vec![action, other]] {
                match format.convert(list.clone(), Some("ab-1")) {
                    Ok(converted) => {
                        prop_assert_eq!(converted.groups.len(), list.len());
                        let sizes = 1..=MAX_GROUP_ACTIONS as u32;
                        prop_assert!(converted.groups.iter().all(|size| sizes.contains(size)));
                        let count: u32 = converted.groups.iter().sum();
                        prop_assert_eq!(count as usize, converted.actions.len());
                    }
                    Err(error) => {
                        let places = ["actions[0]", "actions[1]"];
                        prop_assert!(places.iter().any(|place| error.starts_with(place)), "{}", error);
                    }
                }
            }
        }
    }

    #[test]
    fn a_refusal_names_the_index() {
        for (format, list, expected) in [
            (ActionFormat::Anthropic, json!([]), "actions must be 1 to 200"),
            (
                ActionFormat::Anthropic,
                json!(vec![json!({"action": "screenshot"}); 201]),
                "actions must be 1 to 200",
            ),
            (ActionFormat::Anthropic, json!([{"action": "screenshot"}, 7]), "actions[1] must be an object"),
            (
                ActionFormat::Openai,
                json!([{"type": "wait"}, {"type": "wait"}, {"type": "move", "x": 1}]),
                "actions[2].y is required",
            ),
            (ActionFormat::Openai, json!([{"action": "left_click"}]), "actions[0].type is required"),
        ] {
            let list = list.as_array().expect("a list").clone();
            assert_eq!(format.convert(list, None).expect_err("refused"), expected);
        }
    }
}
