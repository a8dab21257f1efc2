//! Computer tool as a function, for models without one of their own.

use serde_json::{Value, json};

use crate::conversation::COMPUTER;

/// Returns the definition. Its fields are those of Anthropic's `computer_20250124`, so that calls of all back
/// ends are alike.
pub(super) fn definition(width: u32, height: u32) -> Value {
    let description = format!(
        "Screen, mouse and keyboard of a computer. The screen is {width} pixels wide and {height} high. A \
         coordinate is [x, y] in pixels from the top left corner. Look at the newest screenshot before you \
         click, and click into the middle of things."
    );
    let point = json!({
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 2,
        "maxItems": 2,
    });
    let described = |text: &str| {
        let mut field = point.clone();
        field["description"] = text.into();
        field
    };
    json!({
        "type": "function",
        "function": {
            "name": COMPUTER,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {
                    "action": {
                        "type": "string",
                        "enum": [
                            "screenshot", "left_click", "right_click", "middle_click", "double_click",
                            "triple_click", "left_click_drag", "left_mouse_down", "left_mouse_up",
                            "mouse_move", "cursor_position", "scroll", "type", "key", "hold_key", "wait",
                        ],
                        "description": "What to do.",
                    },
                    "coordinate": described(
                        "Position of clicks, mouse_move and scroll, and the end of left_click_drag.",
                    ),
                    "start_coordinate": described("Begin of left_click_drag."),
                    "text": {
                        "type": "string",
                        "description": "Text of type; key or keys of key and hold_key, such as ctrl+s; keys \
                                        that are held during a click or scroll.",
                    },
                    "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
                    "scroll_amount": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "Clicks of the mouse wheel.",
                    },
                    "duration": {"type": "number", "description": "Seconds of wait and hold_key."},
                },
                "required": ["action"],
            },
        },
    })
}
