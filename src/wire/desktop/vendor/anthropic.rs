//! Inputs of Anthropic's `computer` tool: versions 20241022, 20250124 and 20251124, and of the toolset
//! 20260801, whose names of tools are the values of `action`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::fields::{Coordinate, Fields, VendorActionError, check_range, required};
use super::steps;
use crate::desktop::action::{Action, Drag, PointerQuery, Zoom};
use hotdesk_domain::desktop::key_name::{HeldKeys, MAX_PRESSES, combination_presses};
use hotdesk_domain::desktop::pointer::MAX_SCROLL_STEPS;
use hotdesk_domain::limits::{MAX_HOLD_MS, MAX_MODEL_WAIT_SECONDS, MAX_WAIT_SECONDS};

/// Direction of `scroll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WheelDirection {
    /// Towards the start of the document.
    Up,
    /// Towards its end.
    Down,
    /// Towards the left edge.
    Left,
    /// Towards the right edge.
    Right,
}

impl WheelDirection {
    /// Returns the name of the API.
    fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Left => "left",
            Self::Right => "right",
        }
    }
}

/// Input of one call of Anthropic's `computer` tool. Coordinates are `[x, y]` in pixels of the picture that
/// the model saw. Without `coordinate`, an action is where the pointer is. `text` of actions of the mouse
/// names keys to hold.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum AnthropicAction {
    /// Presses a key or a combination in the syntax of xdotool, or several with white space between them.
    Key {
        /// Name of the keys, such as `ctrl+s`.
        text: String,
        /// Number of times to press them; 1 when absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 1, maximum = 100)]
        repeat: Option<u32>,
    },
    /// Holds a key or a combination.
    HoldKey {
        /// Name of the keys.
        text: String,
        /// Time in seconds.
        #[schema(minimum = 0, maximum = 60)]
        duration: f64,
    },
    /// Types a text.
    Type {
        /// Text to type; `{{secret:NAME}}` types the value of a secret.
        text: String,
    },
    /// Returns where the pointer is.
    CursorPosition,
    /// Moves the pointer.
    MouseMove {
        /// Target of the pointer.
        #[schema(value_type = Vec<f64>, min_items = 2, max_items = 2)]
        coordinate: Coordinate,
    },
    /// Presses the left button and holds it.
    LeftMouseDown {
        /// Place to move to before.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        coordinate: Option<Coordinate>,
    },
    /// Releases the left button.
    LeftMouseUp {
        /// Place to move to before.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        coordinate: Option<Coordinate>,
    },
    /// Clicks with the left button.
    LeftClick {
        /// Place of the click.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        coordinate: Option<Coordinate>,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Drags with the left button.
    LeftClickDrag {
        /// Start of the drag.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        start_coordinate: Option<Coordinate>,
        /// End of the drag.
        #[schema(value_type = Vec<f64>, min_items = 2, max_items = 2)]
        coordinate: Coordinate,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Clicks with the right button.
    RightClick {
        /// Place of the click.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        coordinate: Option<Coordinate>,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Clicks with the middle button.
    MiddleClick {
        /// Place of the click.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        coordinate: Option<Coordinate>,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Clicks twice with the left button.
    DoubleClick {
        /// Place of the clicks.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        coordinate: Option<Coordinate>,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Clicks three times with the left button.
    TripleClick {
        /// Place of the clicks.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        coordinate: Option<Coordinate>,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Turns the wheel.
    Scroll {
        /// Place of the pointer.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<f64>>, min_items = 2, max_items = 2)]
        coordinate: Option<Coordinate>,
        /// Direction of the wheel.
        scroll_direction: WheelDirection,
        /// Number of wheel steps.
        #[schema(minimum = 0, maximum = 500)]
        scroll_amount: f64,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Waits for a time.
    Wait {
        /// Time in seconds.
        #[schema(minimum = 0, maximum = 300)]
        duration: f64,
    },
    /// Takes a screenshot, with the options of the list's screenshot.
    Screenshot,
    /// Takes a screenshot of a part of the screen at full scale.
    Zoom {
        /// Corners `[x0, y0, x1, y1]` of the part: the first is inside of it, the second is not.
        #[schema(value_type = Vec<f64>, min_items = 4, max_items = 4)]
        region: [f64; 4],
    },
}

impl<'de> Deserialize<'de> for AnthropicAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl AnthropicAction {
    /// Reads an input of the tool. Null fields count as absent.
    ///
    /// # Errors
    /// For an unknown action, a field that is absent or of a wrong type, and a field that the action does not
    /// have.
    pub fn read(input: Value) -> Result<Self, VendorActionError> {
        let mut fields = Fields::of(input)?;
        let name = required("action", fields.text("action")?)?;
        let action = Self::of_name(&name, &mut fields)?;
        fields.finish(&name)?;
        Ok(action)
    }

    fn of_name(name: &str, fields: &mut Fields) -> Result<Self, VendorActionError> {
        let action = match name {
            "key" => Self::Key {
                text: required("text", fields.text("text")?)?,
                repeat: fields.value("repeat", "a whole number")?,
            },
            "hold_key" => Self::HoldKey {
                text: required("text", fields.text("text")?)?,
                duration: required("duration", fields.number("duration")?)?,
            },
            "type" => Self::Type { text: required("text", fields.text("text")?)? },
            "cursor_position" => Self::CursorPosition,
            "mouse_move" => {
                Self::MouseMove { coordinate: required("coordinate", fields.coordinate("coordinate")?)? }
            }
            "left_mouse_down" => Self::LeftMouseDown { coordinate: fields.coordinate("coordinate")? },
            "left_mouse_up" => Self::LeftMouseUp { coordinate: fields.coordinate("coordinate")? },
            "left_click" => {
                Self::LeftClick { coordinate: fields.coordinate("coordinate")?, text: fields.text("text")? }
            }
            "left_click_drag" => Self::LeftClickDrag {
                start_coordinate: fields.coordinate("start_coordinate")?,
                coordinate: required("coordinate", fields.coordinate("coordinate")?)?,
                text: fields.text("text")?,
            },
            "right_click" => {
                Self::RightClick { coordinate: fields.coordinate("coordinate")?, text: fields.text("text")? }
            }
            "middle_click" => {
                Self::MiddleClick { coordinate: fields.coordinate("coordinate")?, text: fields.text("text")? }
            }
            "double_click" => {
                Self::DoubleClick { coordinate: fields.coordinate("coordinate")?, text: fields.text("text")? }
            }
            "triple_click" => {
                Self::TripleClick { coordinate: fields.coordinate("coordinate")?, text: fields.text("text")? }
            }
            "scroll" => Self::Scroll {
                coordinate: fields.coordinate("coordinate")?,
                scroll_direction: required(
                    "scroll_direction",
                    fields.value("scroll_direction", "up, down, left or right")?,
                )?,
                scroll_amount: required("scroll_amount", fields.number("scroll_amount")?)?,
                text: fields.text("text")?,
            },
            "wait" => Self::Wait { duration: required("duration", fields.number("duration")?)? },
            "screenshot" => Self::Screenshot,
            "zoom" => Self::Zoom { region: required("region", fields.corners("region")?)? },
            _ => {
                let vocabulary = "Anthropic's computer tool";
                return Err(VendorActionError::unknown_action("action", name, vocabulary));
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
            Self::Key { text, repeat } => key(&text, repeat).map(|action| vec![action]),
            Self::HoldKey { text, duration } => hold(&text, duration),
            Self::Type { text } => Ok(vec![steps::type_text(text)]),
            Self::CursorPosition => {
                Ok(vec![Action::CursorPosition(PointerQuery { frame: frame.map(str::to_owned) })])
            }
            Self::MouseMove { coordinate } => Ok(vec![steps::move_to(coordinate, frame)]),
            Self::LeftMouseDown { coordinate } => {
                Ok(vec![Action::MouseDown(steps::pointer_button(coordinate, "left", frame))])
            }
            Self::LeftMouseUp { coordinate } => {
                Ok(vec![Action::MouseUp(steps::pointer_button(coordinate, "left", frame))])
            }
            Self::LeftClick { coordinate, text } => click(coordinate, "left", 1, text, frame),
            Self::LeftClickDrag { start_coordinate, coordinate, text } => {
                drag(start_coordinate, coordinate, text, frame)
            }
            Self::RightClick { coordinate, text } => click(coordinate, "right", 1, text, frame),
            Self::MiddleClick { coordinate, text } => click(coordinate, "middle", 1, text, frame),
            Self::DoubleClick { coordinate, text } => click(coordinate, "left", 2, text, frame),
            Self::TripleClick { coordinate, text } => click(coordinate, "left", 3, text, frame),
            Self::Scroll { coordinate, scroll_direction, scroll_amount, text } => {
                let amount = check_range("scroll_amount", scroll_amount, f64::from(MAX_SCROLL_STEPS))?;
                let turns = [(scroll_direction.name(), amount)];
                Ok(steps::scroll(coordinate, &turns, held(text)?, frame))
            }
            Self::Wait { duration } => {
                Ok(steps::wait(check_range("duration", duration, MAX_MODEL_WAIT_SECONDS)?))
            }
            Self::Screenshot => Ok(vec![Action::Screenshot(Default::default())]),
            Self::Zoom { region } => zoom(region, frame).map(|action| vec![action]),
        }
    }
}

/// Returns the keys that a mouse action holds.
fn held(text: Option<String>) -> Result<HeldKeys, VendorActionError> {
    match text.filter(|text| !text.is_empty()) {
        Some(text) => steps::held_keys("text", &steps::combinations_in("text", &text)?),
        None => Ok(HeldKeys::default()),
    }
}

fn click(
    at: Option<Coordinate>,
    button: &str,
    count: u8,
    text: Option<String>,
    frame: Option<&str>,
) -> Result<Vec<Action>, VendorActionError> {
    let held = held(text)?;
    Ok(match at {
        Some(at) => steps::click(at, button, count, held, frame),
        None => steps::click_at_pointer(button, count, &held),
    })
}

fn key(text: &str, repeat: Option<u32>) -> Result<Action, VendorActionError> {
    if repeat.is_some_and(|repeat| !(1..=MAX_PRESSES).contains(&(repeat as usize))) {
        return Err(VendorActionError::of_field("repeat", format!("must be 1 to {MAX_PRESSES}")));
    }
    let combinations = steps::combinations_in("text", text)?;
    let presses = combinations.iter().flat_map(|one| combination_presses(one));
    steps::press("text", presses.collect(), repeat)
}

/// Holds keys: by one action if it is not too long, so that they are released whatever happens.
fn hold(text: &str, duration: f64) -> Result<Vec<Action>, VendorActionError> {
    // The screen releases what was held for longer.
    let seconds = check_range("duration", duration, MAX_WAIT_SECONDS)?;
    let keys = steps::held_keys("text", &steps::combinations_in("text", text)?)?;
    let milliseconds = (seconds * 1000.0).round() as u32;
    if keys.others.len() > 1 || milliseconds > MAX_HOLD_MS {
        return Ok(steps::hold_around(&keys, steps::wait(seconds)));
    }
    let mut press = steps::press("text", keys.presses(), None)?;
    if let Action::Key(body) = &mut press {
        body.hold_ms = Some(milliseconds);
    }
    Ok(vec![press])
}

fn drag(
    start: Option<Coordinate>,
    [end_x, end_y]: Coordinate,
    text: Option<String>,
    frame: Option<&str>,
) -> Result<Vec<Action>, VendorActionError> {
    let (modifiers, others) = steps::split_held(held(text)?);
    let drag = Drag {
        start_x: start.map(|[x, _]| x),
        start_y: start.map(|[_, y]| y),
        end_x: Some(end_x),
        end_y: Some(end_y),
        modifiers,
        options: steps::options(frame),
        ..Drag::default()
    };
    Ok(steps::hold_around(&others, vec![Action::Drag(drag)]))
}

fn zoom([x0, y0, x1, y1]: [f64; 4], frame: Option<&str>) -> Result<Action, VendorActionError> {
    let (width, height) = (x1 - x0, y1 - y0);
    if !(width > 0.0 && height > 0.0) {
        return Err(VendorActionError::of_field(
            "region",
            "must be [x0, y0, x1, y1] with x0 < x1 and y0 < y1",
        ));
    }
    let frame = frame.map(str::to_owned);
    Ok(Action::Zoom(Zoom { x: x0, y: y0, width, height, frame, screenshot: None }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn convert(input: Value, frame: Option<&str>) -> Result<Value, String> {
        let action = AnthropicAction::read(input).and_then(|action| action.into_actions(frame));
        action.map(|actions| json!(actions)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_action_of_every_version_is_converted() {
        let key = |name: &str, key: &str| json!({"action": name, "key": key});
        let button = |name: &str, button: &str| json!({"action": name, "button": button});
        let click = |button: &str| json!({"action": "click", "x": 3.0, "y": 4.0, "button": button});
        let with = |mut action: Value, field: &str, value: Value| {
            action[field] = value;
            action
        };
        let (down, up) = (button("mouse_down", "left"), button("mouse_up", "left"));
        for (input, expected) in [
            // computer_20241022.
            (json!({"action": "key", "text": "ctrl+s"}), json!([key("key", "ctrl+s")])),
            (json!({"action": "key", "text": "Page_Down"}), json!([key("key", "Page_Down")])),
            (
                json!({"action": "key", "text": "Down Down Return"}),
                json!([{"action": "key", "keys": ["Down", "Down", "Return"]}]),
            ),
            (json!({"action": "type", "text": "a b"}), json!([{"action": "type", "text": "a b"}])),
            (
                json!({"action": "mouse_move", "coordinate": [3, 4]}),
                json!([{"action": "move", "x": 3.0, "y": 4.0}]),
            ),
            (json!({"action": "left_click"}), json!([down, up])),
            (
                json!({"action": "right_click"}),
                json!([button("mouse_down", "right"), button("mouse_up", "right")]),
            ),
            (
                json!({"action": "middle_click"}),
                json!([button("mouse_down", "middle"), button("mouse_up", "middle")]),
            ),
            (json!({"action": "double_click"}), json!([down, up, down, up])),
            (
                json!({"action": "left_click_drag", "coordinate": [3, 4]}),
                json!([{"action": "drag", "end_x": 3.0, "end_y": 4.0}]),
            ),
            (json!({"action": "screenshot"}), json!([{"action": "screenshot"}])),
            (json!({"action": "cursor_position"}), json!([{"action": "cursor_position"}])),
            // computer_20250124.
            (json!({"action": "left_click", "coordinate": [3, 4]}), json!([click("left")])),
            (
                json!({"action": "left_click", "coordinate": [3, 4], "text": "ctrl+shift"}),
                json!([with(click("left"), "modifiers", json!(["ctrl", "shift"]))]),
            ),
            (json!({"action": "left_click", "coordinate": [3, 4], "text": ""}), json!([click("left")])),
            (
                json!({"action": "left_click", "coordinate": [3, 4], "text": "shift+space"}),
                json!([
                    key("key_down", "space"),
                    with(click("left"), "modifiers", json!(["shift"])),
                    key("key_up", "space")
                ]),
            ),
            (
                json!({"action": "left_click", "text": "ctrl+shift"}),
                json!([
                    key("key_down", "ctrl"),
                    key("key_down", "shift"),
                    down,
                    up,
                    key("key_up", "shift"),
                    key("key_up", "ctrl")
                ]),
            ),
            (json!({"action": "right_click", "coordinate": [3, 4]}), json!([click("right")])),
            (json!({"action": "middle_click", "coordinate": [3, 4]}), json!([click("middle")])),
            (
                json!({"action": "double_click", "coordinate": [3, 4]}),
                json!([with(click("left"), "count", json!(2))]),
            ),
            (
                json!({"action": "triple_click", "coordinate": [3, 4]}),
                json!([with(click("left"), "count", json!(3))]),
            ),
            (json!({"action": "triple_click"}), json!([down, up, down, up, down, up])),
            (json!({"action": "left_mouse_down"}), json!([down])),
            (
                json!({"action": "left_mouse_up", "coordinate": [3, 4]}),
                json!([with(with(up.clone(), "x", json!(3.0)), "y", json!(4.0))]),
            ),
            (
                json!({"action": "left_click_drag", "start_coordinate": [1, 2], "coordinate": [3, 4],
                    "text": "alt"}),
                json!([{"action": "drag", "start_x": 1.0, "start_y": 2.0, "end_x": 3.0, "end_y": 4.0,
                    "modifiers": ["alt"]}]),
            ),
            (
                json!({"action": "scroll", "coordinate": [3, 4], "scroll_direction": "down",
                    "scroll_amount": 5,
                    "text": "ctrl"}),
                json!([{"action": "scroll", "direction": "down", "amount": 5.0, "x": 3.0, "y": 4.0,
                    "modifiers": ["ctrl"]}]),
            ),
            (
                json!({"action": "scroll", "scroll_direction": "left", "scroll_amount": 0}),
                json!([{"action": "scroll", "direction": "left", "amount": 0.0}]),
            ),
            (json!({"action": "wait", "duration": 1.5}), json!([{"action": "wait", "seconds": 1.5}])),
            (
                json!({"action": "wait", "duration": 100}),
                json!([{"action": "wait", "seconds": 60.0}, {"action": "wait", "seconds": 40.0}]),
            ),
            (
                json!({"action": "hold_key", "text": "shift+Right", "duration": 1.5}),
                json!([with(key("key", "shift+Right"), "hold_ms", json!(1500))]),
            ),
            (
                json!({"action": "hold_key", "text": "w", "duration": 11}),
                json!([key("key_down", "w"), {"action": "wait", "seconds": 11.0}, key("key_up", "w")]),
            ),
            (
                json!({"action": "hold_key", "text": "w+d", "duration": 1}),
                json!([key("key_down", "w"), key("key_down", "d"), {"action": "wait", "seconds": 1.0},
                    key("key_up", "d"), key("key_up", "w")]),
            ),
            // computer_20251124 and computer_toolset_20260801.
            (
                json!({"action": "zoom", "region": [10, 20, 110, 70]}),
                json!([{"action": "zoom", "x": 10.0, "y": 20.0, "width": 100.0, "height": 50.0}]),
            ),
            (
                json!({"action": "key", "text": "Down", "repeat": 7}),
                json!([with(key("key", "Down"), "repeat", json!(7))]),
            ),
            // Clients that dump every field of a model.
            (
                json!({"action": "key", "text": "a", "coordinate": null, "duration": null}),
                json!([key("key", "a")]),
            ),
        ] {
            assert_eq!(convert(input.clone(), None), Ok(expected), "{input}");
        }
    }

    #[test]
    fn positions_have_the_frame() {
        for (input, has_frame) in [
            (json!({"action": "left_click", "coordinate": [3, 4]}), true),
            (json!({"action": "mouse_move", "coordinate": [3, 4]}), true),
            (json!({"action": "left_mouse_down", "coordinate": [3, 4]}), true),
            (json!({"action": "left_click_drag", "coordinate": [3, 4]}), true),
            (json!({"action": "zoom", "region": [0, 0, 1, 1]}), true),
            (json!({"action": "cursor_position"}), true),
            (
                json!({"action": "scroll", "coordinate": [3, 4], "scroll_direction": "up",
                    "scroll_amount": 1}),
                true,
            ),
            (json!({"action": "left_click"}), false),
            (json!({"action": "key", "text": "a"}), false),
            (json!({"action": "screenshot"}), false),
        ] {
            let actions = convert(input.clone(), Some("ab-1")).unwrap();
            let expected = if has_frame { json!("ab-1") } else { Value::Null };
            assert!(
                actions.as_array().unwrap().iter().all(|action| action["frame"] == expected),
                "{actions}"
            );
        }
    }

    #[test]
    fn a_refusal_names_the_field() {
        for (input, expected) in [
            (json!(7), "must be an object"),
            (json!([]), "must be an object"),
            (json!({}), "action is required"),
            (json!({"action": 7}), "action must be a text"),
            (json!({"action": "fly"}), "action \"fly\" is not an action of Anthropic's computer tool"),
            (json!({"action": "key"}), "text is required"),
            (json!({"action": "key", "text": 7}), "text must be a text"),
            (json!({"action": "key", "text": ""}), "text must not be empty"),
            (json!({"action": "key", "text": "a ".repeat(101)}), "text must name 1 to 100 keys"),
            (json!({"action": "key", "text": "a".repeat(20_001)}), "text must have at most 20000 bytes"),
            (json!({"action": "key", "text": "a", "repeat": 0}), "repeat must be 1 to 100"),
            (json!({"action": "key", "text": "a", "repeat": 101}), "repeat must be 1 to 100"),
            (json!({"action": "key", "text": "a", "repeat": 1.5}), "repeat must be a whole number"),
            (json!({"action": "key", "text": "a", "duration": 1}), "duration is not a field of key"),
            (json!({"action": "mouse_move"}), "coordinate is required"),
            (
                json!({"action": "mouse_move", "coordinate": [1]}),
                "coordinate must be [x, y]: two numbers of at least 0",
            ),
            (
                json!({"action": "mouse_move", "coordinate": [1, 2, 3]}),
                "coordinate must be [x, y]: two numbers of at least 0",
            ),
            (
                json!({"action": "mouse_move", "coordinate": [1, -2]}),
                "coordinate must be [x, y]: two numbers of at least 0",
            ),
            (
                json!({"action": "mouse_move", "coordinate": ["1", 2]}),
                "coordinate must be [x, y]: two numbers of at least 0",
            ),
            (
                json!({"action": "mouse_move", "coordinate": "1,2"}),
                "coordinate must be [x, y]: two numbers of at least 0",
            ),
            (
                json!({"action": "left_click", "coordinate": [1, 2], "text": "a+b+c+d+e+f"}),
                "text must name at most 5 keys",
            ),
            (
                json!({"action": "left_click_drag", "coordinate": [1, 2],
                    "start_coordinate": {"x": 1, "y": 2}}),
                "start_coordinate must be [x, y]: two numbers of at least 0",
            ),
            (json!({"action": "scroll", "scroll_amount": 1}), "scroll_direction is required"),
            (
                json!({"action": "scroll", "scroll_direction": "in", "scroll_amount": 1}),
                "scroll_direction must be up, down, left or right",
            ),
            (json!({"action": "scroll", "scroll_direction": "up"}), "scroll_amount is required"),
            (
                json!({"action": "scroll", "scroll_direction": "up", "scroll_amount": -1}),
                "scroll_amount must be 0 to 500",
            ),
            (
                json!({"action": "scroll", "scroll_direction": "up", "scroll_amount": 501}),
                "scroll_amount must be 0 to 500",
            ),
            (json!({"action": "wait"}), "duration is required"),
            (json!({"action": "wait", "duration": "1"}), "duration must be a number"),
            (json!({"action": "wait", "duration": -1}), "duration must be 0 to 300"),
            (json!({"action": "wait", "duration": 301}), "duration must be 0 to 300"),
            (json!({"action": "hold_key", "text": "a", "duration": 61}), "duration must be 0 to 60"),
            (json!({"action": "zoom"}), "region is required"),
            (
                json!({"action": "zoom", "region": [1, 2, 3]}),
                "region must be [x0, y0, x1, y1]: four numbers of at least 0",
            ),
            (
                json!({"action": "zoom", "region": [5, 0, 5, 9]}),
                "region must be [x0, y0, x1, y1] with x0 < x1 and y0 < y1",
            ),
        ] {
            assert_eq!(convert(input.clone(), None), Err(expected.to_owned()), "{input}");
        }
        assert!(serde_json::from_str::<AnthropicAction>(r#"{"action": "fly"}"#).is_err());
    }

    #[test]
    fn what_is_serialized_is_read_again() {
        let inputs = [
            json!({"action": "cursor_position"}),
            json!({"action": "triple_click", "coordinate": [1.0, 2.0], "text": "shift"}),
            json!({"action": "scroll", "scroll_direction": "up", "scroll_amount": 2.0}),
        ];
        for input in inputs {
            let action: AnthropicAction = serde_json::from_value(input.clone()).unwrap();
            assert_eq!(serde_json::to_value(&action).unwrap(), input);
        }
    }
}
