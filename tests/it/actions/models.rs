//! Lists of actions in the vocabularies of models: their effect on a real screen, and the screenshot at the
//! end (docs/api/actions.md#lists-of-a-model).

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::display::fixture::{DisplayFixture, Picture};
use crate::display::window::{InputEvent, Window};
use crate::harness::controller::RunningController;
use crate::harness::picture;

/// Colour of the window under the pointer.
const COLOUR: u32 = 0x33_66_99;
/// Keys in the evdev keymap.
const CTRL: u8 = 37;
const SHIFT: u8 = 50;
const ENTER: u8 = 36;
const A: u8 = 38;
const S: u8 = 39;

/// Presses and releases, without the state of keys.
fn inputs(window: &Window) -> Vec<InputEvent> {
    let without_state = |event| match event {
        InputEvent::Key(code, _) => Some(InputEvent::Key(code, 0)),
        InputEvent::Press(..) | InputEvent::Release(..) => Some(event),
        InputEvent::Motion(..) => None,
    };
    window.events().into_iter().filter_map(without_state).collect()
}

fn click(button: u8, x: i16, y: i16) -> Vec<InputEvent> {
    drag(button, (x, y), (x, y))
}

fn drag(button: u8, from: (i16, i16), to: (i16, i16)) -> Vec<InputEvent> {
    vec![InputEvent::Press(button, from.0, from.1), InputEvent::Release(button, to.0, to.1)]
}

fn key(code: u8) -> Vec<InputEvent> {
    vec![InputEvent::Key(code, 0)]
}

/// A list of a model whose screenshot at the end is half as large as the screen.
fn list(format: &str, actions: &Value) -> Value {
    let settle = json!({"quiet_ms": 20, "screenshot": {"scale": 0.5}});
    json!({"format": format, "actions": actions, "settle": settle})
}

/// Checks the end of an answer: the settled screen of 400 by 300 pixels, with the window.
fn assert_shown(answer: &Value) {
    assert_eq!(answer["settle"]["reached"], true, "{answer}");
    let shot = &answer["screenshot"];
    assert_eq!((&shot["width"], &shot["height"]), (&json!(200), &json!(150)), "{answer}");
    assert!(shot["frame"].is_string(), "{answer}");
    let image = Picture::decode(&picture::from_base64(shot["image"].as_str().expect("an image")));
    assert_eq!(image.pixel(150, 20), COLOUR);
}

#[tokio::test]
async fn inputs_of_anthropic_s_tool_act_on_the_screen() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, COLOUR);
    window.focus();
    window.events();
    let actions = json!([
        {"action": "left_click", "coordinate": [10, 20]},
        {"action": "left_click", "coordinate": [11, 21], "text": "ctrl"},
        {"action": "mouse_move", "coordinate": [30, 40]},
        {"action": "double_click"},
        {"action": "triple_click", "coordinate": [31, 41]},
        {"action": "right_click", "coordinate": [32, 42]},
        {"action": "middle_click", "text": "shift"},
        {"action": "scroll", "coordinate": [50, 60], "scroll_direction": "down", "scroll_amount": 2},
        {"action": "type", "text": "a"},
        {"action": "key", "text": "ctrl+s"},
        {"action": "key", "text": "Return Return"},
        {"action": "left_click_drag", "start_coordinate": [100, 100], "coordinate": [120, 110]},
        {"action": "left_click_drag", "coordinate": [130, 120]},
        {"action": "left_mouse_down"},
        {"action": "mouse_move", "coordinate": [140, 130]},
        {"action": "left_mouse_up"},
        {"action": "hold_key", "text": "shift", "duration": 0.1},
        {"action": "wait", "duration": 0},
        {"action": "cursor_position"},
        {"action": "screenshot"},
        {"action": "zoom", "region": [10, 10, 20, 15]},
    ]);
    let answer = fixture.ok("POST", "/actions", list("anthropic", &actions)).await;
    assert_eq!((&answer["success"], &answer["not_tried"]), (&json!(true), &json!(0)), "{answer}");
    let expected = [
        click(1, 10, 20),
        key(CTRL),
        click(1, 11, 21),
        click(1, 30, 40).repeat(2),
        click(1, 31, 41).repeat(3),
        click(3, 32, 42),
        key(SHIFT),
        click(2, 32, 42),
        click(5, 50, 60).repeat(2),
        key(A),
        key(CTRL),
        key(S),
        key(ENTER).repeat(2),
        drag(1, (100, 100), (120, 110)),
        drag(1, (120, 110), (130, 120)),
        drag(1, (130, 120), (140, 130)),
        key(SHIFT),
    ];
    assert_eq!(inputs(&window), expected.concat());
    let results = answer["results"].as_array().expect("results");
    let names: Vec<&str> =
        results.iter().map(|item| item["result"]["action"].as_str().unwrap_or_default()).collect();
    let expected = [
        "click",
        "click",
        "move",
        "mouse_up",
        "triple_click",
        "click",
        "mouse_up",
        "scroll",
        "type",
        "key_press",
        "key_press",
        "drag",
        "drag",
        "mouse_down",
        "move",
        "mouse_up",
        "key_press",
        "wait",
        "cursor_position",
        "screenshot",
        "zoom",
    ];
    assert_eq!(names, expected);
    let details = json!({"x": 140, "y": 130, "buttons": [], "modifiers": []});
    assert_eq!(results[18]["result"]["details"], details);
    let size = |at: usize| {
        let shot = &results[at]["result"]["screenshot"];
        (shot["width"].as_u64(), shot["height"].as_u64())
    };
    assert_eq!((size(19), size(20)), ((Some(200), Some(150)), (Some(10), Some(5))));
    assert_shown(&answer);
    fixture.close().await;
}

#[tokio::test]
async fn actions_of_openai_s_calls_act_on_the_screen() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, COLOUR);
    window.focus();
    window.events();
    let actions = json!([
        {"type": "click", "button": "left", "x": 10, "y": 20},
        {"type": "click", "button": "wheel", "x": 11, "y": 21, "keys": ["SHIFT"]},
        {"type": "click", "button": "back", "x": 12, "y": 22, "keys": ["A"]},
        {"type": "double_click", "x": 13, "y": 23},
        {"type": "drag", "path": [{"x": 100, "y": 100}, {"x": 150, "y": 100}, {"x": 150, "y": 120}]},
        {"type": "keypress", "keys": ["CTRL", "S"]},
        {"type": "keypress", "keys": ["ENTER"]},
        {"type": "move", "x": 30, "y": 40, "keys": ["SHIFT"]},
        {"type": "scroll", "x": 50, "y": 60, "scroll_x": -100, "scroll_y": 200},
        {"type": "type", "text": "a"},
        {"type": "wait"},
        {"type": "screenshot"},
    ]);
    let answer = fixture.ok("POST", "/actions", list("openai", &actions)).await;
    assert_eq!((&answer["success"], &answer["not_tried"]), (&json!(true), &json!(0)), "{answer}");
    let expected = [
        click(1, 10, 20),
        key(SHIFT),
        click(2, 11, 21),
        // A capital letter is typed with Shift; held down, it is the key.
        key(A),
        click(8, 12, 22),
        click(1, 13, 23).repeat(2),
        drag(1, (100, 100), (150, 120)),
        key(CTRL),
        key(S),
        key(ENTER),
        key(SHIFT),
        click(5, 50, 60).repeat(2),
        click(6, 50, 60),
        key(A),
    ];
    assert_eq!(inputs(&window), expected.concat());
    let results = answer["results"].as_array().expect("results");
    assert_eq!(results.len(), 12);
    // Of several steps, the result is that of the action itself.
    for (at, name) in [(2, "click"), (7, "move"), (8, "scroll"), (10, "wait"), (11, "screenshot")] {
        assert_eq!(results[at]["result"]["action"], name, "{}", results[at]);
    }
    assert_eq!(results[11]["result"]["screenshot"]["width"], 200);
    let now = fixture.ok("GET", "/cursor_position", Value::Null).await;
    assert_eq!(now, json!({"x": 50, "y": 60, "buttons": [], "modifiers": []}));
    assert_shown(&answer);
    fixture.close().await;
}

#[tokio::test]
async fn coordinates_are_pixels_of_the_picture_that_the_model_saw() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, COLOUR);
    let seen = fixture.ok("GET", "/screenshot?scale=0.5", Value::Null).await;
    let mut body = list(
        "anthropic",
        &json!([
            {"action": "left_click", "coordinate": [100, 75]},
            {"action": "cursor_position"},
            {"action": "zoom", "region": [0, 0, 50, 40]},
        ]),
    );
    body["frame"] = seen["frame"].clone();
    let answer = fixture.ok("POST", "/actions", body.clone()).await;
    assert_eq!(window.clicks(), click(1, 200, 150));
    let results = &answer["results"];
    let at = &results[1]["result"]["details"];
    assert_eq!((&at["x"], &at["y"]), (&json!(100), &json!(75)), "{answer}");
    let zoom = &results[2]["result"];
    assert_eq!(zoom["details"], json!({"x": 0, "y": 0, "width": 100, "height": 80}));
    assert_eq!((&zoom["screenshot"]["width"], &zoom["screenshot"]["height"]), (&json!(100), &json!(80)));
    // The picture at the end is the next one that the model sees.
    body["frame"] = answer["screenshot"]["frame"].clone();
    body["actions"] = json!([{"action": "left_click", "coordinate": [10, 10]}]);
    fixture.ok("POST", "/actions", body.clone()).await;
    assert_eq!(window.clicks(), click(1, 20, 20));
    for (field, value, status) in [
        ("actions", json!([{"action": "left_click", "coordinate": [200, 10]}]), 400),
        ("actions", json!([{"action": "zoom", "region": [0, 0, 201, 10]}]), 400),
        ("frame", json!("00000000-1"), 409),
    ] {
        let mut body = body.clone();
        body[field] = value;
        let answer = fixture.ok("POST", "/actions", body).await;
        assert_eq!(answer["results"][0]["error"]["status"], status, "{answer}");
        assert_shown(&answer);
    }
    assert_eq!(window.clicks(), []);
    fixture.close().await;
}

#[tokio::test]
async fn a_failed_action_ends_the_list_and_releases_what_it_held() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, COLOUR);
    let actions = json!([
        {"type": "move", "x": 5000, "y": 40, "keys": ["CTRL", "SHIFT"]},
        {"type": "click", "button": "left", "x": 10, "y": 20},
    ]);
    let mut body = list("openai", &actions);
    let ended = fixture.ok("POST", "/actions", body.clone()).await;
    assert_eq!((&ended["success"], &ended["not_tried"]), (&json!(false), &json!(1)), "{ended}");
    assert_eq!(ended["results"].as_array().map(Vec::len), Some(1));
    assert_eq!(ended["results"][0]["error"]["status"], 400);
    assert_shown(&ended);
    let now = fixture.ok("GET", "/cursor_position", Value::Null).await;
    assert_eq!(now["modifiers"], json!([]));
    assert_eq!(window.clicks(), []);
    body["continue_on_error"] = json!(true);
    let went_on = fixture.ok("POST", "/actions", body).await;
    assert_eq!((&went_on["success"], &went_on["not_tried"]), (&json!(false), &json!(0)), "{went_on}");
    assert_eq!(window.clicks(), click(1, 10, 20));
    fixture.close().await;
}

#[tokio::test]
async fn a_wrong_action_is_refused_by_its_place_and_nothing_is_done() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, COLOUR);
    let click = json!({"action": "left_click", "coordinate": [1, 1]});
    let wait = json!({"type": "wait"});
    for (body, part) in [
        (json!({"format": "gemini", "actions": [click]}), "unknown variant `gemini`"),
        (json!({"format": "anthropic", "actions": []}), "actions must be 1 to 200"),
        (json!({"format": "anthropic", "actions": [click, {"action": "fly"}]}), "actions[1].action \"fly\""),
        (
            json!({"format": "anthropic", "actions": [{"action": "mouse_move", "coordinate": [1, -1]}]}),
            "actions[0].coordinate must be [x, y]",
        ),
        (
            json!({"format": "anthropic", "actions": [click, {"action": "wait", "duration": "1"}]}),
            "actions[1].duration must be a number",
        ),
        (json!({"format": "anthropic", "actions": [click], "settle": {"quiet_ms": 1}}), "quiet_ms must be"),
        (
            json!({"format": "anthropic", "actions": [click], "settle": {"screenshot": {"scale": 2.0}}}),
            "scale must be",
        ),
        (json!({"format": "openai", "actions": [click]}), "actions[0].type is required"),
        (
            json!({"format": "openai", "actions": [{"type": "click", "x": 1, "y": true}]}),
            "actions[0].y must be",
        ),
        (json!({"format": "openai", "actions": vec![wait; 201]}), "actions must be 1 to 200"),
        (json!({"actions": [{"action": "click", "x": 1, "y": 1}], "groups": [2]}), "groups must have"),
    ] {
        let error = fixture.fails("POST", "/actions", body.clone(), 400).await;
        assert!(error.contains(part), "{body}: {error}");
    }
    assert_eq!(window.events(), []);
    fixture.close().await;
}

#[tokio::test]
async fn our_own_list_may_end_with_a_screenshot_too() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, COLOUR);
    let actions = json!([{"action": "click", "x": 10, "y": 20}]);
    let plain = fixture.ok("POST", "/actions", json!({"actions": actions})).await;
    assert!(plain["settle"].is_null() && plain["screenshot"].is_null(), "{plain}");
    let settle = json!({"quiet_ms": 20, "screenshot": {"scale": 0.5}});
    let shown = fixture.ok("POST", "/actions", json!({"actions": actions, "settle": settle})).await;
    assert_shown(&shown);
    assert_eq!(window.clicks(), click(1, 10, 20).repeat(2));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_vocabularies_reach_a_program_in_a_computer() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let instance = controller.record(&id).await["instance_id"].as_str().expect("an id").to_owned();
    let id = id.as_str();
    let editor = "export DISPLAY=:99; (xterm -e 'cat >/root/typed' >/dev/null 2>&1 &); \
        timeout 20 xdotool search --sync --onlyvisible --class xterm windowfocus --sync %@ && echo ready";
    assert!(controller.bash(id, editor).await.ends_with("ready\n"));
    let anthropic = json!([{"action": "type", "text": "Grüße"}, {"action": "key", "text": "Return"}]);
    let openai = json!([{"type": "type", "text": "世界"}, {"type": "keypress", "keys": ["ENTER"]}]);
    for (path, format, actions) in [
        (format!("/computers/{id}/actions"), "anthropic", anthropic),
        (format!("/desktops/{instance}/proxy/actions"), "openai", openai),
    ] {
        let answer = controller.post(&path, list(format, &actions)).await;
        assert_eq!((answer.status, &answer.body["success"]), (200, &json!(true)), "{path}: {}", answer.body);
        assert_eq!(answer.body["screenshot"]["width"], 640, "{path}");
        let wrong = json!({"format": format, "actions": [{"action": "key", "type": "keypress"}]});
        let refused = controller.post(&path, wrong).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.body);
        let error = refused.body["error"].as_str().unwrap_or_default();
        assert!(error.contains("actions[0].") && error.contains("is required"), "{path}: {error}");
    }
    let received = wait::until(Duration::from_secs(10), || async {
        (controller.bash(id, "cat /root/typed").await == "Grüße\n世界\n").then_some(())
    });
    assert!(received.await.is_some(), "{:?}", controller.bash(id, "cat /root/typed").await);
}
