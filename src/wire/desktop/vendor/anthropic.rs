//! Inputs of Anthropic's `computer` tool: versions 20241022, 20250124 and 20251124, and of the toolset 20260801, whose
//! names of tools are the values of `action`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::fields::{Coordinate, Fields, VendorActionError, check_range, required};
use super::steps;
use crate::desktop::action::{Action, Drag, PointerQuery, Zoom};
use hotdesk_domain::desktop::key_name::{HeldKeys, MAX_PRESSES};
use hotdesk_domain::desktop::pointer::MAX_SCROLL_STEPS;
use hotdesk_domain::limits::{MAX_HOLD_MS, MAX_MODEL_WAIT_SECONDS, MAX_WAIT_SECONDS};

/// Direction of `scroll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScrollDirection {
    /// Towards the start of the document.
    Up,
    /// Towards its end.
    Down,
    /// Towards the left edge.
    Left,
    /// Towards the right edge.
    Right,
}

impl ScrollDirection {
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

/// Input of one call of Anthropic's `computer` tool. Coordinates are `[x, y]` in pixels of the picture that the model saw.
/// Without `coordinate`, an action is where the pointer is. `text` of actions of the mouse names keys to hold.
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
        scroll_direction: ScrollDirection,
        /// Number of wheel steps.
        #[schema(minimum = 0, maximum = 500)]
        scroll_amount: f64,
        /// Keys to hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Waits.
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
    /// For an unknown action, a field that is absent or of a wrong type, and a field that the action does not have.
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
    /// [`MAX_GROUP_ACTIONS`](hotdesk_domain::limits::MAX_GROUP_ACTIONS). Coordinates are pixels of the picture with the
    /// id `frame`; without it, of the screen.
    ///
    /// # Errors
    /// For a value out of range and for too many keys. The computer checks names of keys and whether a point is on the
    /// screen.
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
    let presses = combinations.iter().flat_map(|one| HeldKeys::sort(&[one]).presses());
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
