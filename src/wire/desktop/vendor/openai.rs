//! Actions of OpenAI's `computer_call` (Responses API).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::fields::{Fields, VendorActionError, check_range, required};
use super::steps;
use crate::desktop::action::{Action, Drag};
use hotdesk_domain::desktop::key_name::{HeldKeys, MAX_KEYS_TEXT, MAX_PRESSES};
use hotdesk_domain::desktop::pointer::{MAX_PATH_POINTS, MAX_SCROLL_STEPS, wheel_steps};

/// Time of `wait` in seconds, which has no duration: that of OpenAI's examples.
const WAIT_SECONDS: f64 = 2.0;

/// Button of `click`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpenaiButton {
    /// The main button.
    #[default]
    Left,
    /// The button of the context menu.
    Right,
    /// The middle button.
    Wheel,
    /// One page back.
    Back,
    /// One page forward.
    Forward,
}

impl OpenaiButton {
    /// Returns the name of the API.
    fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Wheel => "middle",
            Self::Back => "back",
            Self::Forward => "forward",
        }
    }
}

/// Point of a drag's path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PathPoint {
    /// Distance from the left edge, in pixels.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Distance from the top edge, in pixels.
    #[schema(minimum = 0)]
    pub y: f64,
}

/// Action of OpenAI's `computer_call`. Coordinates are pixels of the picture that the model saw. `keys` of
/// actions of the mouse are held.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OpenaiAction {
    /// Clicks with a button.
    Click {
        /// Button to click; the left one when absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        button: Option<OpenaiButton>,
        /// Distance from the left edge, in pixels.
        #[schema(minimum = 0)]
        x: f64,
        /// Distance from the top edge, in pixels.
        #[schema(minimum = 0)]
        y: f64,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<String>>,
    },
    /// Clicks twice with the left button.
    DoubleClick {
        /// Distance from the left edge, in pixels.
        #[schema(minimum = 0)]
        x: f64,
        /// Distance from the top edge, in pixels.
        #[schema(minimum = 0)]
        y: f64,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<String>>,
    },
    /// Drags with the left button along a path.
    Drag {
        /// Points of the path, with start and end.
        #[schema(min_items = 2, max_items = 1000)]
        path: Vec<PathPoint>,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<String>>,
    },
    /// Presses keys together: modifiers are held for each other key.
    Keypress {
        /// Names of the keys, such as `CTRL` and `C`.
        #[schema(min_items = 1, max_items = 100)]
        keys: Vec<String>,
    },
    /// Moves the pointer.
    Move {
        /// Distance from the left edge, in pixels.
        #[schema(minimum = 0)]
        x: f64,
        /// Distance from the top edge, in pixels.
        #[schema(minimum = 0)]
        y: f64,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<String>>,
    },
    /// Takes a screenshot, with the options of the list's screenshot.
    Screenshot,
    /// Turns the wheel; 100 pixels are one wheel step.
    Scroll {
        /// Distance from the left edge, in pixels.
        #[schema(minimum = 0)]
        x: f64,
        /// Distance from the top edge, in pixels.
        #[schema(minimum = 0)]
        y: f64,
        /// Pixels to the right; negative to the left.
        #[schema(minimum = -50000, maximum = 50000)]
        scroll_x: f64,
        /// Pixels down; negative up.
        #[schema(minimum = -50000, maximum = 50000)]
        scroll_y: f64,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<String>>,
    },
    /// Types a text.
    Type {
        /// Text to type; `{{secret:NAME}}` types the value of a secret.
        text: String,
    },
    /// Waits for two seconds.
    Wait,
}

impl<'de> Deserialize<'de> for OpenaiAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl OpenaiAction {
    /// Reads an action. Null fields count as absent.
    ///
    /// # Errors
    /// For an unknown type, a field that is absent or of a wrong type, and a field that the action does not
    /// have.
    pub fn read(action: Value) -> Result<Self, VendorActionError> {
        let mut fields = Fields::of(action)?;
        let name = required("type", fields.text("type")?)?;
        let action = Self::of_name(&name, &mut fields)?;
        fields.finish(&name)?;
        Ok(action)
    }

    fn of_name(name: &str, fields: &mut Fields) -> Result<Self, VendorActionError> {
        let action = match name {
            "click" => Self::Click {
                button: fields.value("button", "left, right, wheel, back or forward")?,
                x: required("x", fields.position("x")?)?,
                y: required("y", fields.position("y")?)?,
                keys: fields.texts("keys")?,
            },
            "double_click" => Self::DoubleClick {
                x: required("x", fields.position("x")?)?,
                y: required("y", fields.position("y")?)?,
                keys: fields.texts("keys")?,
            },
            "drag" => Self::Drag {
                path: required("path", fields.value("path", "a list of points {x, y}")?)?,
                keys: fields.texts("keys")?,
            },
            "keypress" => Self::Keypress { keys: required("keys", fields.texts("keys")?)? },
            "move" => Self::Move {
                x: required("x", fields.position("x")?)?,
                y: required("y", fields.position("y")?)?,
                keys: fields.texts("keys")?,
            },
            "screenshot" => Self::Screenshot,
            "scroll" => Self::Scroll {
                x: required("x", fields.position("x")?)?,
                y: required("y", fields.position("y")?)?,
                scroll_x: required("scroll_x", fields.number("scroll_x")?)?,
                scroll_y: required("scroll_y", fields.number("scroll_y")?)?,
                keys: fields.texts("keys")?,
            },
            "type" => Self::Type { text: required("text", fields.text("text")?)? },
            "wait" => Self::Wait,
            _ => {
                let vocabulary = "OpenAI's computer_call";
                return Err(VendorActionError::unknown_action("type", name, vocabulary));
            }
        };
        Ok(action)
    }

    /// Returns our actions that do the same, at least one and at most
    /// [`MAX_GROUP_ACTIONS`](hotdesk_domain::limits::MAX_GROUP_ACTIONS). Coordinates are pixels of the
    /// picture with the id `frame`; without it, of the screen.
    ///
    /// # Errors
    /// For a value out of range and for too many keys. The computer checks names of keys and whether a point
    /// is on the screen.
    pub fn into_actions(self, frame: Option<&str>) -> Result<Vec<Action>, VendorActionError> {
        match self {
            Self::Click { button, x, y, keys } => {
                let button = button.unwrap_or_default().name();
                Ok(steps::click([x, y], button, 1, held(keys)?, frame))
            }
            Self::DoubleClick { x, y, keys } => Ok(steps::click([x, y], "left", 2, held(keys)?, frame)),
            Self::Drag { path, keys } => drag(&path, keys, frame),
            Self::Keypress { keys } => keypress(&keys).map(|action| vec![action]),
            Self::Move { x, y, keys } => {
                Ok(steps::hold_around(&held(keys)?, vec![steps::move_to([x, y], frame)]))
            }
            Self::Screenshot => Ok(vec![Action::Screenshot(Default::default())]),
            Self::Scroll { x, y, scroll_x, scroll_y, keys } => {
                let across = turn("scroll_x", scroll_x, ["left", "right"])?;
                let down = turn("scroll_y", scroll_y, ["up", "down"])?;
                // A scroll by nothing moves the pointer.
                let turns: &[(&str, f64)] = match (down.1 != 0.0, across.1 != 0.0) {
                    (true, true) => &[down, across],
                    (false, true) => &[across],
                    (_, false) => &[down],
                };
                Ok(steps::scroll(Some([x, y]), turns, held(keys)?, frame))
            }
            Self::Type { text } => Ok(vec![steps::type_text(text)]),
            Self::Wait => Ok(steps::wait(WAIT_SECONDS)),
        }
    }
}

/// Returns the keys that a mouse action holds.
fn held(keys: Option<Vec<String>>) -> Result<HeldKeys, VendorActionError> {
    steps::held_keys("keys", &keys.unwrap_or_default())
}

/// Returns direction and wheel steps of a scroll along one axis.
fn turn(
    field: &'static str,
    pixels: f64,
    [back, forth]: [&'static str; 2],
) -> Result<(&'static str, f64), VendorActionError> {
    let steps = wheel_steps(pixels);
    check_range(field, steps, f64::from(MAX_SCROLL_STEPS))
        .map_err(|_| VendorActionError::of_field(field, "must be -50000 to 50000"))?;
    Ok((if pixels < 0.0 { back } else { forth }, steps))
}

fn drag(
    path: &[PathPoint],
    keys: Option<Vec<String>>,
    frame: Option<&str>,
) -> Result<Vec<Action>, VendorActionError> {
    if !(2..=MAX_PATH_POINTS).contains(&path.len()) {
        return Err(VendorActionError::of_field("path", format!("must have 2 to {MAX_PATH_POINTS} points")));
    }
    if path.iter().any(|point| point.x < 0.0 || point.y < 0.0) {
        return Err(VendorActionError::of_field("path", "must have coordinates of at least 0"));
    }
    let (modifiers, others) = steps::split_held(held(keys)?);
    let drag = Drag {
        path: Some(path.iter().map(|point| [point.x, point.y]).collect()),
        modifiers,
        options: steps::options(frame),
        ..Drag::default()
    };
    Ok(steps::hold_around(&others, vec![Action::Drag(drag)]))
}

fn keypress(keys: &[String]) -> Result<Action, VendorActionError> {
    if !(1..=MAX_PRESSES).contains(&keys.len()) {
        return Err(VendorActionError::of_field("keys", format!("must name 1 to {MAX_PRESSES} keys")));
    }
    if keys.iter().any(String::is_empty) {
        return Err(VendorActionError::of_field("keys", "must not have an empty name"));
    }
    let size: usize = keys.iter().map(String::len).sum();
    if size > MAX_KEYS_TEXT {
        return Err(VendorActionError::of_field("keys", format!("must have at most {MAX_KEYS_TEXT} bytes")));
    }
    steps::press("keys", HeldKeys::sort(keys).presses(), None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn convert(action: Value, frame: Option<&str>) -> Result<Value, String> {
        let action = OpenaiAction::read(action).and_then(|action| action.into_actions(frame));
        action.map(|actions| json!(actions)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_action_is_converted() {
        let key = |name: &str, key: &str| json!({"action": name, "key": key});
        let click = |button: &str| json!({"action": "click", "x": 3.0, "y": 4.0, "button": button});
        let with = |mut action: Value, field: &str, value: Value| {
            action[field] = value;
            action
        };
        let scroll = |direction: &str, amount: f64| {
            let at = json!({"action": "scroll", "x": 3.0, "y": 4.0});
            with(with(at, "direction", json!(direction)), "amount", json!(amount))
        };
        for (action, expected) in [
            (json!({"type": "click", "button": "left", "x": 3, "y": 4}), json!([click("left")])),
            (json!({"type": "click", "button": "right", "x": 3, "y": 4}), json!([click("right")])),
            (json!({"type": "click", "button": "wheel", "x": 3, "y": 4}), json!([click("middle")])),
            (json!({"type": "click", "button": "back", "x": 3, "y": 4}), json!([click("back")])),
            (json!({"type": "click", "button": "forward", "x": 3, "y": 4}), json!([click("forward")])),
            (json!({"type": "click", "x": 3, "y": 4, "keys": null}), json!([click("left")])),
            (
                json!({"type": "click", "button": "left", "x": 3, "y": 4, "keys": ["CTRL", "SHIFT"]}),
                json!([with(click("left"), "modifiers", json!(["ctrl", "shift"]))]),
            ),
            (
                json!({"type": "double_click", "x": 3, "y": 4}),
                json!([with(click("left"), "count", json!(2))]),
            ),
            (
                json!({"type": "double_click", "x": 3, "y": 4, "keys": ["ALT"]}),
                json!([with(with(click("left"), "count", json!(2)), "modifiers", json!(["alt"]))]),
            ),
            (
                json!({"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}, {"x": 5, "y": 6}]}),
                json!([{"action": "drag", "path": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}]),
            ),
            (
                json!({"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}],
                    "keys": ["SPACE", "SHIFT"]}),
                json!([
                    key("key_down", "space"),
                    {"action": "drag", "path": [[1.0, 2.0], [3.0, 4.0]], "modifiers": ["shift"]},
                    key("key_up", "space")
                ]),
            ),
            (json!({"type": "keypress", "keys": ["CTRL", "C"]}), json!([key("key", "ctrl+C")])),
            (json!({"type": "keypress", "keys": ["ENTER"]}), json!([key("key", "Return")])),
            (json!({"type": "keypress", "keys": ["CMD"]}), json!([key("key", "super")])),
            (
                json!({"type": "keypress", "keys": ["ARROWLEFT", "ARROWLEFT"]}),
                json!([{"action": "key", "keys": ["Left", "Left"]}]),
            ),
            (json!({"type": "move", "x": 3, "y": 4}), json!([{"action": "move", "x": 3.0, "y": 4.0}])),
            (
                json!({"type": "move", "x": 3, "y": 4, "keys": ["SHIFT"]}),
                json!([
                    key("key_down", "shift"),
                    {"action": "move", "x": 3.0, "y": 4.0},
                    key("key_up", "shift")
                ]),
            ),
            (json!({"type": "screenshot"}), json!([{"action": "screenshot"}])),
            (
                json!({"type": "scroll", "x": 3, "y": 4, "scroll_x": 0, "scroll_y": 300}),
                json!([scroll("down", 3.0)]),
            ),
            (
                json!({"type": "scroll", "x": 3, "y": 4, "scroll_x": 0, "scroll_y": -20}),
                json!([scroll("up", 1.0)]),
            ),
            (
                json!({"type": "scroll", "x": 3, "y": 4, "scroll_x": -200, "scroll_y": 100,
                    "keys": ["CTRL"]}),
                json!([
                    with(scroll("down", 1.0), "modifiers", json!(["ctrl"])),
                    with(scroll("left", 2.0), "modifiers", json!(["ctrl"]))
                ]),
            ),
            (
                json!({"type": "scroll", "x": 3, "y": 4, "scroll_x": 100, "scroll_y": 0}),
                json!([scroll("right", 1.0)]),
            ),
            (
                json!({"type": "scroll", "x": 3, "y": 4, "scroll_x": 0, "scroll_y": 0}),
                json!([scroll("down", 0.0)]),
            ),
            (json!({"type": "type", "text": "a b"}), json!([{"action": "type", "text": "a b"}])),
            (json!({"type": "wait"}), json!([{"action": "wait", "seconds": 2.0}])),
        ] {
            assert_eq!(convert(action.clone(), None), Ok(expected), "{action}");
        }
    }

    #[test]
    fn positions_have_the_frame() {
        for action in [
            json!({"type": "click", "button": "left", "x": 3, "y": 4}),
            json!({"type": "double_click", "x": 3, "y": 4}),
            json!({"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}),
            json!({"type": "move", "x": 3, "y": 4}),
            json!({"type": "scroll", "x": 3, "y": 4, "scroll_x": 0, "scroll_y": 300}),
        ] {
            assert_eq!(convert(action, Some("ab-1")).unwrap()[0]["frame"], "ab-1");
        }
    }

    #[test]
    fn a_refusal_names_the_field() {
        for (action, expected) in [
            (json!("click"), "must be an object"),
            (json!({"x": 1}), "type is required"),
            (json!({"type": "left_click"}), "type \"left_click\" is not an action of OpenAI's computer_call"),
            (json!({"type": "click", "y": 4}), "x is required"),
            (json!({"type": "click", "x": "3", "y": 4}), "x must be a number of at least 0"),
            (json!({"type": "click", "x": 3, "y": -4}), "y must be a number of at least 0"),
            (
                json!({"type": "click", "button": "middle", "x": 3, "y": 4}),
                "button must be left, right, wheel, back or forward",
            ),
            (json!({"type": "click", "x": 3, "y": 4, "keys": "CTRL"}), "keys must be a list of texts"),
            (
                json!({"type": "click", "x": 3, "y": 4, "keys": ["a", "b", "c", "d", "e", "f"]}),
                "keys must name at most 5 keys",
            ),
            (json!({"type": "click", "x": 3, "y": 4, "z": 5}), "z is not a field of click"),
            (json!({"type": "drag"}), "path is required"),
            (json!({"type": "drag", "path": [{"x": 1}]}), "path must be a list of points {x, y}"),
            (json!({"type": "drag", "path": [{"x": 1, "y": 2}]}), "path must have 2 to 1000 points"),
            (
                json!({"type": "drag", "path": [{"x": 1, "y": 2}, {"x": -1, "y": 2}]}),
                "path must have coordinates of at least 0",
            ),
            (json!({"type": "keypress"}), "keys is required"),
            (json!({"type": "keypress", "keys": []}), "keys must name 1 to 100 keys"),
            (json!({"type": "keypress", "keys": [1]}), "keys must be a list of texts"),
            (json!({"type": "keypress", "keys": ["CTRL", ""]}), "keys must not have an empty name"),
            (json!({"type": "keypress", "keys": vec!["a"; 101]}), "keys must name 1 to 100 keys"),
            (json!({"type": "scroll", "x": 3, "y": 4, "scroll_y": 1}), "scroll_x is required"),
            (
                json!({"type": "scroll", "x": 3, "y": 4, "scroll_x": 0, "scroll_y": 60_000}),
                "scroll_y must be -50000 to 50000",
            ),
            (json!({"type": "type", "text": null}), "text is required"),
        ] {
            assert_eq!(convert(action.clone(), None), Err(expected.to_owned()), "{action}");
        }
        assert!(serde_json::from_str::<OpenaiAction>(r#"{"type": "fly"}"#).is_err());
    }
}
