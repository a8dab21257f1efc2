//! Element actions: clicks, values and focus arrive at the program, and the answers are correct.

use hotdesk::base::wait;
use serde_json::json;

use super::stage::{Stage, TIMEOUT, has};
use crate::harness::capability::Capability;

#[tokio::test(flavor = "multi_thread")]
async fn a_click_is_a_real_one_and_its_effect_is_in_the_answer() {
    let Some(mut stage) = Stage::boot().await else { return };
    let program = stage.start("Clicks", 0).await;
    let save = stage.named("Save").await;
    let id = save["id"].as_str().expect("an id");
    let clicked = stage.click(id).await;
    assert_eq!((clicked.status, &clicked.body["success"]), (200, &json!(true)), "{}", clicked.body);
    assert_eq!((&clicked.body["action"], &clicked.body["element"]["id"]), (&json!("click"), &json!(id)));
    let middle = |at: &str, long: &str| save[at].as_i64().unwrap() + save[long].as_i64().unwrap() / 2;
    assert_eq!(
        (&clicked.body["x"], &clicked.body["y"]),
        (&json!(middle("x", "width")), &json!(middle("y", "height")))
    );
    program.wait_for_line("Save").await;
    let agree = stage.id("Agree").await;
    // The answer contains the change within a quarter of a second, which is short for a busy machine. Of five
    // clicks by pointer and five by action, one each must show its change.
    let mut observed = [false; 2];
    for _ in 0..5 {
        for (way, body) in [json!({}), json!({"method": "action"})].into_iter().enumerate() {
            let checked = way == 0;
            let answer = stage.act(&agree, "click", body).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            let element = &answer.body["element"];
            observed[way] |= element.is_object() && has(element, "checked") == checked;
            program.wait_for_line(&format!("Agree {}", if checked { "True" } else { "False" })).await;
            let change = wait::until(TIMEOUT, || async {
                (has(&stage.named("Agree").await, "checked") == checked).then_some(())
            });
            assert!(change.await.is_some(), "{}", stage.named("Agree").await);
        }
        if observed == [true; 2] {
            break;
        }
    }
    assert_eq!(observed, [true; 2], "the answer must contain the change");
    for (body, status) in [
        (json!({"method": "wish"}), 400),
        (json!({"button": "fourth"}), 400),
        (json!({"method": "action", "double": true}), 400),
    ] {
        assert_eq!(stage.act(id, "click", body.clone()).await.status, status, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_covered_window_comes_to_the_front_before_it_is_clicked() {
    let Some(mut stage) = Stage::boot().await else { return };
    let below = stage.start("Below", 0).await;
    let id = stage.id("Save").await;
    let above = stage.start("Above", 0).await;
    let cover =
        format!("DISPLAY={} xdotool search --name '^(Above|Below)$' windowmove --sync 50 50", stage.display);
    // Both windows have one position; the last started one is on top.
    if stage.agent.bash(&cover).await.body["exit_code"] != 0 {
        return Capability::X11.skip("xdotool is not installed");
    }
    let clicked = stage.click(&id).await;
    assert_eq!((clicked.status, &clicked.body["success"]), (200, &json!(true)), "{}", clicked.body);
    below.wait_for_line("Save").await;
    drop(above);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_set_and_read_back() {
    let Some(mut stage) = Stage::boot().await else { return };
    let program = stage.start("Values", 0).await;
    let (name, volume, password) =
        (stage.id("Name").await, stage.id("Volume").await, stage.id("Password").await);
    for text in ["Grüße, 世界 😀", "", "plain"] {
        let set = stage.act(&name, "set_value", json!({"value": text})).await;
        assert_eq!((set.status, &set.body["success"]), (200, &json!(true)), "{}", set.body);
        assert_eq!(set.body["element"]["text"], json!(text));
        program.wait_for_line(format!("Name {text}").trim()).await;
    }
    for (value, expected) in [(json!(42), 42.0), (json!("7.5"), 7.5)] {
        let set = stage.act(&volume, "set_value", json!({"value": value})).await;
        let now = set.body["element"]["value"].as_f64().expect("a number");
        assert_eq!(set.body["success"], json!((now - expected).abs() < 1e-6), "{}", set.body);
    }
    program.wait_for_line("Volume 42.0").await;
    // A number out of range is not set as requested, and the answer reports that.
    let beyond_range = stage.act(&volume, "set_value", json!({"value": 1000})).await;
    assert_eq!(
        (beyond_range.status, &beyond_range.body["success"]),
        (200, &json!(false)),
        "{}",
        beyond_range.body
    );
    assert!(
        beyond_range.body["reason"].is_string() && beyond_range.body["element"]["value"] == json!(100),
        "{}",
        beyond_range.body
    );
    let set = stage.act(&password, "set_value", json!({"value": "hunter2"})).await;
    assert_eq!((&set.body["success"], set.body["element"].get("text")), (&json!(true), None), "{}", set.body);
    let fixed = stage.id("Fixed").await;
    let set = stage.act(&fixed, "set_value", json!({"value": "other"})).await;
    let now = &set.body["element"]["text"];
    assert!(set.body["success"] == json!(now == "other") || now.is_null(), "{}", set.body);
    let label = stage.id("A label").await;
    let refused = stage.act(&label, "set_value", json!({"value": "x"})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("element_not_settable")),
        "{}",
        refused.body
    );
    assert_eq!(stage.act(&volume, "set_value", json!({"value": "loud"})).await.status, 400);
    assert_eq!(stage.act(&volume, "set_value", json!({})).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_focus_goes_where_it_was_sent_and_typing_follows() {
    let Some(mut stage) = Stage::boot().await else { return };
    let program = stage.start("Focus", 0).await;
    let _other = stage.start("Other", 0).await;
    let id = stage.whole("window=focus&name=name").await["elements"][0]["id"].clone();
    let focused = stage.act(id.as_str().expect("an id"), "focus", json!({})).await;
    assert_eq!((focused.status, &focused.body["success"]), (200, &json!(true)), "{}", focused.body);
    assert!(has(&focused.body["element"], "focused"), "{}", focused.body);
    assert_eq!(stage.agent.post("/type", json!({"text": "new"})).await.status, 200);
    program.wait_for_line("Name new").await;
    let label = stage.whole("window=focus&name=a%20label").await["elements"][0]["id"].clone();
    let refused = stage.act(label.as_str().expect("an id"), "focus", json!({})).await;
    let element = &refused.body["element"];
    assert_eq!(refused.body["success"], json!(has(element, "focused")), "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_that_is_gone_or_never_was_is_not_found() {
    let Some(mut stage) = Stage::boot().await else { return };
    let program = stage.start("Gone", 0).await;
    let (save, removed_element) = (stage.id("Save").await, stage.id("Remove me").await);
    let removed = stage.click(&removed_element).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    // The program may need more time to remove the element than the answer to a click waits.
    let disappeared = wait::until(TIMEOUT, || async {
        (stage.act(&removed_element, "focus", json!({})).await.status == 404).then_some(())
    });
    assert!(disappeared.await.is_some(), "{}", removed.body);
    for (id, action) in
        [(&removed_element, "click"), (&removed_element, "focus"), (&"e-000000000000".to_owned(), "click")]
    {
        let answer = stage.act(id, action, json!({})).await;
        assert_eq!((answer.status, &answer.body["code"]), (404, &json!("element_gone")), "{}", answer.body);
    }
    drop(program);
    let gone = wait::until(TIMEOUT, || async {
        let answer = stage.act(&save, "set_value", json!({"value": "x"})).await;
        (answer.status == 404).then_some(answer.body)
    });
    assert_eq!(gone.await.expect("an end")["code"], "element_gone");
    let empty = wait::until(TIMEOUT, || async {
        (stage.try_elements("include=all").await?["elements"] == json!([])).then_some(())
    });
    assert!(empty.await.is_some(), "{}", stage.elements("include=all").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_seen_is_not_clicked_blindly() {
    let Some(mut stage) = Stage::boot().await else { return };
    let program = stage.start("Scrolled", 60).await;
    let near = stage.id("Row 0").await;
    assert_eq!(stage.click(&near).await.status, 200);
    program.wait_for_line("Row 0").await;
    let far = stage.id("Row 59").await;
    let answer = stage.click(&far).await;
    // A toolkit that supports scrolling scrolls; otherwise the answer is an error.
    if answer.status == 200 {
        program.wait_for_line("Row 59").await;
    } else {
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (409, &json!("element_not_visible")),
            "{}",
            answer.body
        );
        let done = stage.act(&far, "click", json!({"method": "action"})).await;
        // A program that a busy machine holds up answers too late, which the result says. It acts all the same.
        let late = done.body["reason"] == "the program did not answer in time";
        assert_eq!((done.status, &done.body["success"]), (200, &json!(!late)), "{}", done.body);
        program.wait_for_line("Row 59").await;
    }
}
