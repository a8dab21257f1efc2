//! Actions on a real computer and their error answers (docs/api/actions.md).

mod hostile;
mod models;
mod screenshots;
mod wrong;

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::controller::RunningController;

/// Opens a window over the middle of the screen that logs every button and key event it receives.
const OPEN_EVENT_WINDOW: &str = "export DISPLAY=:99; (stdbuf -oL xev -event button -event keyboard >/root/seen 2>&1 &); \
    timeout 20 xdotool search --sync --onlyvisible --name 'Event Tester' windowmove --sync %@ 300 200 \
    windowsize --sync %@ 500 300 windowfocus --sync %@ && echo watching";

/// Values that the window logged for a kind of event, for example `ButtonPress`, one word per event.
async fn observed(
    controller: &RunningController,
    id: &str,
    event: &str,
    field: &str,
    count: usize,
) -> Vec<String> {
    let command = format!("grep -A3 '^{event}' /root/seen | grep -oP '{field}' | tr '\\n' ' '");
    let found = wait::until(Duration::from_secs(10), || async {
        let words = controller.bash(id, &command).await;
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        (words.len() >= count).then_some(words)
    });
    found.await.unwrap_or_else(|| panic!("fewer than {count} {event} events"))
}

async fn perform(controller: &RunningController, id: &str, action: &str, body: Value) -> Value {
    let answer = controller.act(id, action, body.clone()).await;
    assert_eq!(answer.status, 200, "{action} {body}: {}", answer.body);
    assert_eq!(answer.body["success"], true, "{action} {body}: {}", answer.body);
    let mut answer_of = answer.body;
    // Every input action reports its observed effect, which other tests check.
    let effect = answer_of.as_object_mut().expect("an object").remove("effect");
    let input = !["bash", "exec", "wait"].contains(&action);
    assert_eq!(effect.is_some_and(|effect| effect["observed_ms"].is_number()), input, "{action}");
    answer_of
}

#[tokio::test(flavor = "multi_thread")]
async fn pointer_and_keys_reach_the_window_under_them() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    assert!(controller.bash(id, OPEN_EVENT_WINDOW).await.ends_with("watching\n"));
    let click_body = |more: Value| {
        let mut body = json!({"x": 500, "y": 300});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let answer_of =
        |action: &str, details: Value| json!({"success": true, "action": action, "details": details});
    for (body, action, button, double) in [
        (click_body(json!({})), "click", "left", false),
        (click_body(json!({"button": "right", "double": false})), "click", "right", false),
        (click_body(json!({"button": "middle"})), "click", "middle", false),
        (click_body(json!({"button": "left", "double": true})), "double_click", "left", true),
    ] {
        let details = json!({"x": 500, "y": 300, "button": button, "double": double});
        assert_eq!(perform(&controller, id, "click", body).await, answer_of(action, details));
    }
    let scrolled = perform(&controller, id, "scroll", json!({"direction": "down", "amount": 2})).await;
    assert_eq!(scrolled["details"], json!({"direction": "down", "amount": 2, "x": 500, "y": 300}));
    let scrolled = perform(&controller, id, "scroll", json!({"direction": "up", "x": 510, "y": 310})).await;
    assert_eq!(scrolled["details"], json!({"direction": "up", "amount": 3, "x": 510, "y": 310}));
    let still = perform(&controller, id, "scroll", json!({"direction": "Down", "amount": 0})).await;
    assert_eq!(still["details"], json!({"direction": "down", "amount": 0, "x": 510, "y": 310}));
    for direction in ["Left", "RIGHT"] {
        perform(&controller, id, "scroll", json!({"direction": direction, "amount": 1})).await;
    }
    let drag = json!({"start_x": 400, "start_y": 300, "end_x": 600, "end_y": 350, "duration": 0.1, "button": "middle"});
    assert_eq!(perform(&controller, id, "drag", drag.clone()).await, answer_of("drag", drag));
    let presses = observed(&controller, id, "ButtonPress", "(?<=button )[0-9]", 13).await;
    assert_eq!(presses, ["1", "3", "2", "1", "1", "5", "5", "4", "4", "4", "6", "7", "2"].map(str::to_owned));

    // Screen corners, including coordinate 0, are inside the screen.
    for (x, y) in [(0, 0), (1279, 719), (0, 719), (640, 360)] {
        assert_eq!(
            perform(&controller, id, "move", json!({"x": x, "y": y})).await,
            answer_of("move", json!({"x": x, "y": y}))
        );
        let place = controller
            .bash(id, "DISPLAY=:99 xdotool getmouselocation --shell | head -n2 | tr '\\n' ' '")
            .await;
        assert_eq!(place, format!("X={x} Y={y} "));
    }
    for key in ["Enter", "Return", "ctrl+c", "Page_Up", "space", "F5", "CTRL+Shift+a"] {
        assert_eq!(
            perform(&controller, id, "key", json!({ "key": key })).await,
            answer_of("key_press", json!({ "key": key }))
        );
    }
    let keys = observed(&controller, id, "KeyPress", "(?<=, )[A-Za-z_0-9]+(?=\\), same_screen)", 10).await;
    let expected =
        ["Return", "Return", "Control_L", "c", "Prior", "space", "F5", "Control_L", "Shift_L", "A"];
    assert_eq!(keys, expected.map(str::to_owned));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_commands_and_waits_answer_as_the_clients_read_them() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let created = controller.record(&id).await;
    let id = id.as_str();
    let editor = "export DISPLAY=:99; (xterm -e 'cat >/root/typed' >/dev/null 2>&1 &); \
        timeout 20 xdotool search --sync --onlyvisible --class xterm windowfocus --sync %@ && echo ready";
    assert!(controller.bash(id, editor).await.ends_with("ready\n"));
    let text = "Grüße, 世界! ~/.config \"$HOME\" `x`";
    let typed = perform(&controller, id, "type", json!({"text": format!("{text}\n")})).await;
    assert_eq!(typed["action"], "type");
    let received = wait::until(Duration::from_secs(10), || async {
        (controller.bash(id, "cat /root/typed").await == format!("{text}\n")).then_some(())
    });
    assert!(received.await.is_some(), "{:?}", controller.bash(id, "cat /root/typed").await);
    perform(&controller, id, "type", json!({"text": ""})).await;

    let output = perform(&controller, id, "bash", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    let expected = json!({"success": true, "action": "bash", "command": "echo out; echo err >&2; exit 3",
        "output": "out\nerr\n", "stdout": "out\n", "stderr": "err\n", "exit_code": 3, "timeout": false});
    assert_eq!(output, expected);
    let environment = controller.bash(id, "echo $DISPLAY $HOME $PWD; id -u").await;
    assert_eq!(environment, ":99 /root /root\n0\n");
    let late = controller.act(id, "bash", json!({"command": "echo begun; sleep 60", "timeout": 3})).await;
    assert_eq!(
        (late.status, &late.body["success"], &late.body["exit_code"]),
        (200, &json!(false), &json!(124))
    );
    assert_eq!((&late.body["timeout"], &late.body["output"]), (&json!(true), &json!("begun\n")));

    let output = perform(&controller, id, "exec", json!({"code": "print(6 * 7)"})).await;
    let expected = json!({"success": true, "action": "exec", "output": "42\n", "stdout": "42\n", "stderr": "",
        "timeout": false});
    assert_eq!(output, expected);
    let failed = controller.act(id, "exec", json!({"code": "raise ValueError('no')"})).await;
    assert_eq!((failed.status, &failed.body["success"]), (200, &json!(false)));
    assert_eq!((&failed.body["error"], &failed.body["error_type"]), (&json!("no"), &json!("ValueError")));
    let late = controller.act(id, "exec", json!({"code": "import time; time.sleep(60)", "timeout": 1})).await;
    assert_eq!(
        (late.status, &late.body["timeout"], &late.body["success"]),
        (200, &json!(true), &json!(false))
    );

    for body in [json!({"seconds": 0.2}), json!({"duration": 0.2}), json!({"seconds": 0.2, "duration": 60})] {
        let waited = controller.act(id, "wait", body.clone()).await;
        assert_eq!((waited.status, &waited.body["action"]), (200, &json!("wait")), "{body}");
        assert_eq!(waited.body["details"], json!({"seconds": 0.2}));
        assert!((0.2..5.0).contains(&waited.took.as_secs_f64()), "{body}: {:?}", waited.took);
    }
    // By the instance handle and without a media type, which some clients send.
    let path = format!("/computers/{}/bash", created["instance_id"].as_str().unwrap());
    let bare = controller.request(reqwest::Method::POST, &path).body(r#"{"command":"echo bare"}"#);
    assert_eq!(crate::harness::agent::fetch_json(bare).await.body["output"], "bare\n");
}
