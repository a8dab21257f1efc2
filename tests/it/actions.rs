//! Does every action of wire.md 6 do what it says on a real computer, and is bad input refused?

mod hostile;
mod screenshots;
mod wrong;

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::controller::RunningController;

/// Opens a window that writes down every button and key it gets, over the middle of the screen.
const WATCHER: &str = "export DISPLAY=:99; (stdbuf -oL xev -event button -event keyboard >/root/seen 2>&1 &); \
    timeout 20 xdotool search --sync --onlyvisible --name 'Event Tester' windowmove --sync %@ 300 200 \
    windowsize --sync %@ 500 300 windowfocus --sync %@ && echo watching";

/// What the watcher saw of a kind, for example `ButtonPress`, as one word per event.
async fn seen(house: &RunningController, id: &str, event: &str, field: &str, count: usize) -> Vec<String> {
    let command = format!("grep -A3 '^{event}' /root/seen | grep -oP '{field}' | tr '\\n' ' '");
    let found = wait::until(Duration::from_secs(10), || async {
        let words = house.bash(id, &command).await;
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        (words.len() >= count).then_some(words)
    });
    found.await.unwrap_or_else(|| panic!("fewer than {count} {event} events"))
}

async fn done(house: &RunningController, id: &str, action: &str, body: Value) -> Value {
    let answer = house.act(id, action, body.clone()).await;
    assert_eq!(answer.status, 200, "{action} {body}: {}", answer.body);
    assert_eq!(answer.body["success"], true, "{action} {body}: {}", answer.body);
    let mut told = answer.body;
    // Every input tells what could be seen of it; what that is belongs to other tests.
    let effect = told.as_object_mut().expect("an object").remove("effect");
    let input = !["bash", "exec", "wait"].contains(&action);
    assert_eq!(effect.is_some_and(|effect| effect["observed_ms"].is_number()), input, "{action}");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn pointer_and_keys_reach_the_window_under_them() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    assert!(house.bash(id, WATCHER).await.ends_with("watching\n"));
    let at = |more: Value| {
        let mut body = json!({"x": 500, "y": 300});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let told = |action: &str, details: Value| json!({"success": true, "action": action, "details": details});
    for (body, action, button, double) in [
        (at(json!({})), "click", "left", false),
        (at(json!({"button": "right", "double": false})), "click", "right", false),
        (at(json!({"button": "middle", "unknown": 1})), "click", "middle", false),
        (at(json!({"button": "left", "double": true})), "double_click", "left", true),
    ] {
        let details = json!({"x": 500, "y": 300, "button": button, "double": double});
        assert_eq!(done(&house, id, "click", body).await, told(action, details));
    }
    let scrolled = done(&house, id, "scroll", json!({"direction": "down", "amount": 2})).await;
    assert_eq!(scrolled["details"], json!({"direction": "down", "amount": 2, "x": 500, "y": 300}));
    let scrolled = done(&house, id, "scroll", json!({"direction": "up", "x": 510, "y": 310})).await;
    assert_eq!(scrolled["details"], json!({"direction": "up", "amount": 3, "x": 510, "y": 310}));
    for direction in ["left", "right"] {
        done(&house, id, "scroll", json!({"direction": direction, "amount": 1})).await;
    }
    let drag = json!({"start_x": 400, "start_y": 300, "end_x": 600, "end_y": 350, "duration": 0.1, "button": "middle"});
    assert_eq!(done(&house, id, "drag", drag.clone()).await, told("drag", drag));
    let presses = seen(&house, id, "ButtonPress", "(?<=button )[0-9]", 13).await;
    assert_eq!(presses, ["1", "3", "2", "1", "1", "5", "5", "4", "4", "4", "6", "7", "2"].map(str::to_owned));

    // The corners are inside, 0 included.
    for (x, y) in [(0, 0), (1279, 719), (0, 719), (640, 360)] {
        assert_eq!(
            done(&house, id, "move", json!({"x": x, "y": y})).await,
            told("move", json!({"x": x, "y": y}))
        );
        let place =
            house.bash(id, "DISPLAY=:99 xdotool getmouselocation --shell | head -n2 | tr '\\n' ' '").await;
        assert_eq!(place, format!("X={x} Y={y} "));
    }
    for key in ["Enter", "Return", "ctrl+c", "Page_Up", "space", "F5", "CTRL+Shift+a"] {
        assert_eq!(
            done(&house, id, "key", json!({ "key": key })).await,
            told("key_press", json!({ "key": key }))
        );
    }
    let keys = seen(&house, id, "KeyPress", "(?<=, )[A-Za-z_0-9]+(?=\\), same_screen)", 10).await;
    let expected =
        ["Return", "Return", "Control_L", "c", "Prior", "space", "F5", "Control_L", "Shift_L", "A"];
    assert_eq!(keys, expected.map(str::to_owned));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_commands_and_waits_answer_as_the_clients_read_them() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let made = house.record(&id).await;
    let id = id.as_str();
    let editor = "export DISPLAY=:99; (xterm -e 'cat >/root/typed' >/dev/null 2>&1 &); \
        timeout 20 xdotool search --sync --onlyvisible --class xterm windowfocus --sync %@ && echo ready";
    assert!(house.bash(id, editor).await.ends_with("ready\n"));
    let text = "Grüße, 世界! ~/.config \"$HOME\" `x`";
    let typed = done(&house, id, "type", json!({"text": format!("{text}\n")})).await;
    assert_eq!(typed["action"], "type");
    let arrived = wait::until(Duration::from_secs(10), || async {
        (house.bash(id, "cat /root/typed").await == format!("{text}\n")).then_some(())
    });
    assert!(arrived.await.is_some(), "{:?}", house.bash(id, "cat /root/typed").await);
    done(&house, id, "type", json!({"text": ""})).await;

    let ran = done(&house, id, "bash", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    let expected = json!({"success": true, "action": "bash", "command": "echo out; echo err >&2; exit 3",
        "output": "out\nerr\n", "stdout": "out\n", "stderr": "err\n", "exit_code": 3, "timeout": false});
    assert_eq!(ran, expected);
    let environment = house.bash(id, "echo $DISPLAY $HOME $PWD; id -u").await;
    assert_eq!(environment, ":99 /root /root\n0\n");
    let late = house.act(id, "bash", json!({"command": "echo begun; sleep 60", "timeout": 3})).await;
    assert_eq!(
        (late.status, &late.body["success"], &late.body["exit_code"]),
        (200, &json!(false), &json!(124))
    );
    assert_eq!((&late.body["timeout"], &late.body["output"]), (&json!(true), &json!("begun\n")));

    let ran = done(&house, id, "exec", json!({"code": "print(6 * 7)"})).await;
    let expected = json!({"success": true, "action": "exec", "output": "42\n", "stdout": "42\n", "stderr": "",
        "timeout": false});
    assert_eq!(ran, expected);
    let failed = house.act(id, "exec", json!({"code": "raise ValueError('no')"})).await;
    assert_eq!((failed.status, &failed.body["success"]), (200, &json!(false)));
    assert_eq!((&failed.body["error"], &failed.body["error_type"]), (&json!("no"), &json!("ValueError")));
    let late = house.act(id, "exec", json!({"code": "import time; time.sleep(60)", "timeout": 1})).await;
    assert_eq!(
        (late.status, &late.body["timeout"], &late.body["success"]),
        (200, &json!(true), &json!(false))
    );

    for body in [json!({"seconds": 0.2}), json!({"duration": 0.2}), json!({"seconds": 0.2, "duration": 60})] {
        let waited = house.act(id, "wait", body.clone()).await;
        assert_eq!((waited.status, &waited.body["action"]), (200, &json!("wait")), "{body}");
        assert_eq!(waited.body["details"], json!({"seconds": 0.2}));
        assert!((0.2..5.0).contains(&waited.took.as_secs_f64()), "{body}: {:?}", waited.took);
    }
    // By the instance handle, and without a media type, as some clients send.
    let path = format!("/computers/{}/bash", made["instance_id"].as_str().unwrap());
    let bare = house.request(reqwest::Method::POST, &path).body(r#"{"command":"echo bare"}"#);
    assert_eq!(crate::harness::agent::answered(bare).await.body["output"], "bare\n");
}
