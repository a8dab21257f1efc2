//! Inputs of Anthropic's `computer` tool: versions 20241022, 20250124 and 20251124, and of the toolset
//! 20260801, whose names of tools are the values of `action`.

mod conversion;
#[cfg(test)]
mod tests;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::fields::{Coordinate, Fields, VendorActionError, required};

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
}
