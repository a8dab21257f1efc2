//! Tests of the vocabulary of Anthropic's tool, and of its conversion.

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
        assert!(actions.as_array().unwrap().iter().all(|action| action["frame"] == expected), "{actions}");
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
