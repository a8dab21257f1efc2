//! Control of a real computer's screen through the controller, its command line, its events and its copies.

use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::person::Shell;
use crate::events::source::{JsonMessages, subscribe};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::socket::Client;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_takes_the_screen_from_another_key() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let made = controller.create("/keys", json!({"name": "other"})).await;
    let (other, other_id) = (made["key"].as_str().expect("a key").to_owned(), id_of(&made));
    let control = format!("/computers/{id}/screens/default/control");
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone();
    let password = password.as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    let mut events = Client::open(controller.address(), &path, &[]).await.expect("accepted");
    subscribe(&mut events, "subscribe", &["control_changed"]).await;
    let ask = async |key: &str, method: Method, path: &str, body: Value| {
        fetch_json(controller.request_with(key, method, path).json(&body)).await
    };

    let taken = ask(&other, Method::POST, &control, json!({"seconds": 600, "note": "mine"})).await;
    let holder = json!({"kind": "key", "id": other_id});
    assert_eq!((taken.status, &taken.body["holder"]), (200, &holder), "{}", taken.body);
    let event = events.next_json().await["event"].take();
    assert_eq!(
        event["data"],
        json!({"screen": "default", "holder": format!("key:{other_id}"), "note": "mine"})
    );
    for (method, path, body) in [
        (Method::POST, "click", json!({"x": 5, "y": 6})),
        (Method::POST, "actions", json!([{"action": "click", "x": 5, "y": 6}])),
        (Method::PUT, "clipboard", json!({"text": "x"})),
        (Method::PATCH, "screens/default", json!({"width": 800, "height": 600})),
        (Method::POST, "screens/default/control", json!({})),
    ] {
        let path = format!("/computers/{id}/{path}");
        let refused = ask(controller.key(), method.clone(), &path, body.clone()).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (409, &json!("control_held")),
            "{path}: {}",
            refused.body
        );
        assert_eq!(
            (&refused.body["holder"], &refused.body["expires_at"]),
            (&holder, &taken.body["expires_at"])
        );
        if path.ends_with("/screens/default") || path.ends_with("/control") {
            continue;
        }
        let done = ask(&other, method, &path, body).await;
        assert_eq!(done.status, 200, "{path}: {}", done.body);
    }
    let proxy = format!("/desktops/{id}/proxy/click");
    let proxied = ask(controller.key(), Method::POST, &proxy, json!({"x": 1, "y": 1})).await;
    assert_eq!(proxied.body["holder"], holder);

    // The owner of the workspace may end it, and says so.
    let back = format!("{control}/hand_back");
    let refused = ask(controller.key(), Method::POST, &back, json!({})).await;
    assert_eq!((refused.status, &refused.body["holder"]), (409, &holder));
    let forced =
        ask(controller.key(), Method::POST, &format!("{back}?force=true"), json!({"note": "enough"})).await;
    assert_eq!((forced.status, &forced.body["holder"]), (200, &Value::Null), "{}", forced.body);
    assert_eq!(events.next_json().await["event"]["data"], json!({"screen": "default", "note": "enough"}));
    let seen = ask(&other, Method::GET, &format!("{control}?after=0&wait_seconds=30"), json!({})).await;
    assert_eq!((seen.status, &seen.body["last_hand_back"]["note"]), (200, &json!("enough")));

    // Or takes it in one step.
    let taken = ask(&other, Method::POST, &control, json!({"seconds": 600})).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let over = format!("{control}?force=true");
    let forced = ask(controller.key(), Method::POST, &over, json!({"note": "my turn"})).await;
    assert_eq!((forced.status, &forced.body["note"]), (200, &json!("my turn")), "{}", forced.body);
    assert_ne!(forced.body["holder"], holder);
    let click = format!("/computers/{id}/click");
    let refused = ask(&other, Method::POST, &click, json!({"x": 5, "y": 6})).await;
    assert_eq!((refused.status, &refused.body["holder"]), (409, &forced.body["holder"]));
    let done = ask(controller.key(), Method::POST, &click, json!({"x": 5, "y": 6})).await;
    assert_eq!(done.status, 200, "{}", done.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_takes_and_hands_back() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let shown = shell.run(&["control", "show", "one"]).await.expect_success();
    assert_eq!(shown, "Nobody controls default.\n");
    let taken =
        shell.run(&["control", "take", "one", "--seconds", "10m", "--note", "I look"]).await.expect_success();
    assert!(taken.starts_with("key ") && taken.ends_with(": I look\n"), "{taken}");
    let taken =
        shell.run(&["control", "take", "one", "--force", "--note", "I look on"]).await.expect_success();
    assert!(taken.ends_with(": I look on\n"), "{taken}");
    let back = shell.run(&["control", "hand-back", "one", "--note", "Done."]).await.expect_success();
    assert!(
        back.starts_with("Nobody controls default.\nLast handed back at ") && back.contains(": Done."),
        "{back}"
    );
    let help = json!({"message": "a code", "seconds": 600});
    let asked = controller.act(&id, "screens/default/control/help", help).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    let shown = shell.run(&["control", "show", "one", "--screen", "default"]).await.expect_success();
    assert!(shown.contains("asks for help until") && shown.contains(": a code\n"), "{shown}");
    let answered = shell.run(&["control", "answer", "one", "--note", "1234", "--json"]).await.json();
    assert_eq!(answered["last_hand_back"]["note"], "1234");
    shell.run(&["control", "take", "one", "--seconds", "2h"]).await.expect_failure(1, &["request"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_computer_is_free() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    let control = |id: &str| format!("/computers/{id}/screens/default/control");
    let taken = controller.post(&control(&id), json!({"seconds": 3600, "note": "private"})).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let forked = controller.act(&id, "fork", json!({})).await;
    assert_eq!(forked.status, 201, "{}", forked.body);
    let copy = id_of(&forked.body);
    controller.until_status(&copy, "running").await;
    let free = controller.get(&control(&copy)).await;
    assert_eq!((free.status, &free.body["holder"], &free.body["note"]), (200, &Value::Null, &Value::Null));
    assert_eq!(controller.get(&control(&id)).await.body["holder"], taken.body["holder"]);
}
