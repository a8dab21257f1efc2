//! Completions: plain and streamed answers, threads, bounds, confirmations.

use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{MODEL, Scene, click, command, computer, events, pictures};
use crate::harness::models::Turn;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_clicks_runs_a_command_and_answers() {
    let turns = vec![
        Turn::text("I click. ")
            .then_call("computer", &json!({"action": "left_click", "coordinate": [10, 20]})),
        command("ls"),
        Turn::text("It is done.").tokens(200, 20).cached(50),
    ];
    let scene = Scene::new(turns).await;
    let request = scene.controller.request(Method::POST, "/v1/chat/completions");
    let response = request.json(&scene.body("click it", json!({}))).send().await.expect("an answer");
    let headers = response.headers().clone();
    assert!(headers.contains_key("x-request-id"));
    let thread = headers["x-thread-id"].to_str().expect("text").to_owned();
    let body: Value = response.json().await.expect("JSON");
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!(MODEL)));
    assert!(body["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")) && body["created"].is_i64());
    let choice = json!({"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "I click. \n\nIt is done."}});
    assert_eq!(body["choices"], json!([choice]));
    let usage = json!({"prompt_tokens": 450, "completion_tokens": 40, "total_tokens": 490,
        "prompt_tokens_details": {"cached_tokens": 50}});
    assert_eq!(body["usage"], usage);
    // 440 tokens at a dollar for a million; cached ones are free.
    let run = json!({"thread_id": thread, "steps": 2, "cost_cents": 0.044, "ended": "done"});
    assert_eq!(body["orgo"], run);

    let batches = scene.agent.batches();
    assert_eq!(batches.len(), 1, "one round trip for the click and the settled screen");
    let act = &batches[0]["actions"][0];
    assert_eq!((&act["action"], &act["x"], &act["y"]), (&json!("click"), &json!(10.0), &json!(20.0)));
    assert_eq!((&act["frame"], &act["refuse_stale"]), (&json!("frame-0"), &json!(true)));
    assert!(act["settle"]["screenshot"]["max_pixels"] == 1280 * 800, "{act}");
    assert_eq!(scene.agent.commands()[0]["command"], "ls");

    let first = &scene.models.requests()[0].body;
    assert_eq!(pictures(first["messages"].as_array().expect("messages")), 1, "the screen at the beginning");
    let tools: Vec<&Value> = first["tools"].as_array().expect("tools").iter().collect();
    assert_eq!(tools.len(), 2, "{tools:?}");
    let last = Value::from(scene.last_messages()).to_string();
    assert!(last.contains("[exit code 0]") && last.contains("hi"), "{last}");

    let thread = scene.until_run(&thread, "done").await;
    let texts: Vec<&Value> = thread["messages"].as_array().expect("messages").iter().collect();
    assert_eq!(texts.len(), 3, "the user's, and two of the model: {texts:?}");
    let steps = scene.steps(thread["remoteId"].as_str().expect("an id")).await;
    assert_eq!(steps.len(), 2);
    assert_eq!((&steps[0]["text"], &steps[0]["call"]["name"]), (&json!("I click. "), &json!("computer")));
    assert!(steps[0]["screenshot"].is_string() && steps[1]["screenshot"].is_null(), "{steps:?}");
    assert_eq!(steps[0]["usage"]["input_tokens"], 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_run_sends_the_text_and_then_what_was_done() {
    let turns = vec![command("ls"), Turn::text("It is done.")];
    let scene = Scene::new(turns).await;
    let (response, thread) = scene.stream("list", json!({"model": MODEL})).await;
    let events = events(response).await;
    let (done, chunks) = events.split_last().expect("events");
    assert_eq!(*done, json!("[DONE]"));
    let (last, texts) = chunks.split_last().expect("chunks");
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["object"] == "chat.completion.chunk")
    );
    assert_eq!(texts[0]["choices"][0]["delta"], json!({"role": "assistant"}));
    assert!(texts.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
    let text: String =
        texts.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "It is done.");
    assert_eq!(last["choices"], json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]));
    assert_eq!(last["usage"]["total_tokens"], 220);
    assert_eq!((&last["orgo"]["thread_id"], &last["orgo"]["steps"]), (&json!(thread), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claude_model_looks_at_a_part_of_the_screen() {
    let zoom = computer(json!({"action": "zoom", "region": [10, 20, 110, 70]}));
    let scene = Scene::new(vec![zoom, Turn::text("It says 7.")]).await;
    let body = scene.body("read it", json!({"model": "claude-sonnet-4-6"}));
    let request = scene.controller.request(Method::POST, "/v1/chat/completions");
    let answer = request.json(&body).header("x-anthropic-key", "sk-ant-own").send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let sent = scene.models.requests();
    let tool = &sent[0].body["tools"][0];
    assert_eq!((&tool["type"], &tool["enable_zoom"]), (&json!("computer_20251124"), &json!(true)));
    let act = &scene.agent.batches()[0]["actions"][0];
    let area = json!([act["x"], act["y"], act["width"], act["height"]]);
    assert_eq!((&act["action"], area), (&json!("zoom"), json!([10.0, 20.0, 100.0, 50.0])), "{act}");
    assert_eq!(act["frame"], "frame-0", "pixels of the picture that the model saw");
    let last = sent[1].body["messages"].as_array().and_then(|all| all.iter().next_back()).expect("a message");
    assert_eq!(last["content"][0]["type"], "tool_result", "{last}");
    assert!(last["content"][0]["content"].to_string().contains("\"image\""), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_is_asked_for_and_kept_out_of_the_answer() {
    let turn = || Turn::text("").then_thinking("It is simple.").then_text("Yes.");
    let scene = Scene::new(vec![turn(), turn()]).await;
    let answer = scene.ask("is it?", json!({"reasoning_effort": "high"})).await;
    assert_eq!(answer.body["choices"][0]["message"]["content"], "Yes.", "{}", answer.body);
    assert_eq!(scene.ask("is it?", json!({})).await.status, 200);
    let efforts: Vec<Value> =
        scene.models.requests().iter().map(|request| request.body["reasoning_effort"].clone()).collect();
    assert_eq!(efforts, [json!("high"), Value::Null], "only if the request says so");
    let thread = answer.body["orgo"]["thread_id"].as_str().expect("an id");
    let export = scene.controller.request(Method::GET, &format!("/chat/threads/{thread}/export"));
    let lines = export.send().await.expect("an answer").text().await.expect("a text");
    assert!(lines.contains("It is simple."), "it is stored: {lines}");
    assert!(!scene.thread(thread).await["messages"].to_string().contains("simple"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_continued_with_its_history() {
    let scene = Scene::new(vec![click(), Turn::text("First."), Turn::text("Second.")]).await;
    let first = scene.ask("one", json!({})).await;
    let thread = first.body["orgo"]["thread_id"].clone();
    let second = scene.ask("two", json!({"thread_id": thread})).await;
    assert_eq!((second.status, &second.body["orgo"]["thread_id"]), (200, &thread), "{}", second.body);
    let roles: Vec<Value> = scene.last_messages().iter().map(|message| message["role"].clone()).collect();
    // The picture of a result is a message of the user in this API.
    let without_users: Vec<&Value> = roles.iter().filter(|role| *role != "user").collect();
    assert_eq!(without_users, ["system", "assistant", "tool", "assistant"], "{roles:?}");
    let sent = Value::from(scene.last_messages()).to_string();
    assert!(
        sent.contains("First.") && sent.contains("two") && sent.contains("A picture was removed"),
        "{sent}"
    );
    assert_eq!(pictures(&scene.last_messages()), 1, "only the screen now");
    for (id, status) in [("thr_00000000000000000000000000000000", 404), ("none", 404)] {
        let refused = scene.ask("three", json!({"thread_id": id})).await;
        assert_eq!((refused.status, &refused.body["error"]["type"]), (status, &json!("not_found_error")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_newest_screenshots_are_sent() {
    let turns = (0..5).map(|_| click()).chain([Turn::text("Done.")]).collect();
    let scene = Scene::new(turns).await;
    assert_eq!(scene.ask("click", json!({})).await.body["orgo"]["steps"], 5);
    let counts: Vec<usize> = scene
        .models
        .requests()
        .iter()
        .map(|request| pictures(request.body["messages"].as_array().expect("messages")))
        .collect();
    assert_eq!(counts, [1, 2, 3, 3, 3, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_at_its_bounds() {
    let two = || command("one").then_call("bash", &json!({"command": "two"}));
    for (turns, fields, finish, ended, steps) in [
        (vec![two()], json!({"max_steps": 1}), "length", "max_steps", 1),
        (vec![command("one"), command("two")], json!({"max_cost_cents": 0.011}), "length", "max_cost", 1),
        (vec![Turn::text("cut").stop("length")], json!({"max_tokens": 5}), "length", "max_tokens", 0),
        (vec![Turn::text("no").stop("content_filter")], json!({}), "content_filter", "refused", 0),
    ] {
        let scene = Scene::new(turns).await;
        let answer = scene.ask("go", fields).await;
        let (choice, run) = (&answer.body["choices"][0], &answer.body["orgo"]);
        assert_eq!((answer.status, &choice["finish_reason"]), (200, &json!(finish)), "{}", answer.body);
        assert_eq!((&run["ended"], &run["steps"]), (&json!(ended), &json!(steps)), "{}", answer.body);
        assert_eq!(scene.agent.commands().len(), steps);
        // The conversation stays whole, so the thread can be continued.
        scene.models.push(Turn::text("Further."));
        let further = scene.ask("on", json!({"thread_id": run["thread_id"]})).await;
        assert_eq!(further.status, 200, "{}", further.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listed_call_waits_to_be_confirmed() {
    let turns = || vec![click().then_call("bash", &json!({"command": "rm x"})), Turn::text("Done.")];
    let scene = Scene::new(turns()).await;
    let asked = scene.ask("go", json!({"confirm": ["bash"]})).await;
    let run = asked.body["orgo"].clone();
    assert_eq!(
        (&run["ended"], &run["pending"]["name"]),
        (&json!("confirm"), &json!("bash")),
        "{}",
        asked.body
    );
    assert_eq!(run["pending"]["input"], json!({"command": "rm x"}));
    assert_eq!((scene.agent.batches().len(), scene.agent.commands().len()), (1, 0));
    let approval = json!({"computer_id": scene.computer, "thread_id": run["thread_id"], "approve": true});
    let approved = scene.controller.post("/v1/chat/completions", approval.clone()).await;
    assert_eq!((approved.status, &approved.body["orgo"]["steps"]), (200, &json!(1)), "{}", approved.body);
    assert_eq!(scene.agent.commands()[0]["command"], "rm x");
    let again = scene.controller.post("/v1/chat/completions", approval).await;
    assert_eq!(again.status, 409, "{}", again.body);

    // Without the confirmation the model learns that it was not executed. A name of an action confirms too.
    let scene = Scene::new(vec![click(), Turn::text("Then not.")]).await;
    let asked = scene.ask("go", json!({"confirm": ["left_click"]})).await;
    let thread = &asked.body["orgo"]["thread_id"];
    let refused = scene.ask("do not", json!({"thread_id": thread})).await;
    assert_eq!((refused.status, scene.agent.batches().len()), (200, 0), "{}", refused.body);
    assert!(Value::from(scene.last_messages()).to_string().contains("not allowed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_uses_only_the_allowed_tools() {
    let scene = Scene::new(vec![command("ls"), Turn::text("I cannot.")]).await;
    let answer = scene.ask("list", json!({"tools": ["computer"]})).await;
    assert_eq!((answer.status, scene.agent.commands().len()), (200, 0), "{}", answer.body);
    let sent = &scene.models.requests()[1].body;
    assert!(sent["messages"].to_string().contains("There is no tool bash"), "{}", sent["messages"]);
    assert_eq!(sent["tools"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_on_a_changed_screen_is_refused_once_and_the_model_looks_again() {
    let both = click().then_call("computer", &json!({"action": "type", "text": "x"}));
    let scene = Scene::new(vec![both, click(), Turn::text("Done.")]).await;
    scene.agent.fail_next("stale_frame");
    let answer = scene.ask("click", json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let batches = scene.agent.batches();
    assert_eq!(batches.len(), 2, "what follows the refused click is not typed: {batches:?}");
    let stale = |batch: &Value| batch["actions"][0]["refuse_stale"].clone();
    assert_eq!((stale(&batches[0]), stale(&batches[1])), (json!(true), Value::Null), "{batches:?}");
    let seen = scene.models.requests()[1].body["messages"].clone();
    assert!(seen.to_string().contains("has changed at this place"), "{seen}");
    assert_eq!(pictures(seen.as_array().expect("messages")), 2, "with a new picture");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_typed_and_the_model_never_sees_it() {
    let typed = computer(json!({"action": "type", "text": "{{secret:LOGIN}}"}));
    let missing = computer(json!({"action": "type", "text": "{{secret:NONE}}"}));
    let scene = Scene::new(vec![typed, missing, Turn::text("Done.")]).await;
    let secret = json!({"value": "hunter2", "workspace_id": scene.home});
    let set = scene.controller.request(Method::PUT, "/secrets/LOGIN").json(&secret);
    assert_eq!(set.send().await.expect("an answer").status(), 200);
    let answer = scene.ask("log in", json!({})).await;
    assert_eq!((answer.status, &answer.body["orgo"]["steps"]), (200, &json!(2)), "{}", answer.body);
    let batches = scene.agent.batches();
    assert_eq!(batches.len(), 1, "a text with an unknown secret is not typed");
    let act = &batches[0]["actions"][0];
    assert_eq!((&act["text"], &act["confidential"]), (&json!("hunter2"), &json!(true)));
    let thread = answer.body["orgo"]["thread_id"].as_str().expect("an id");
    let steps = Value::from(scene.steps(thread).await).to_string();
    for shown in [steps, Value::from(scene.last_messages()).to_string()] {
        assert!(shown.contains("{{secret:LOGIN}}") && !shown.contains("hunter2"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed() {
    let scene = Scene::new(Vec::new()).await;
    let list = scene.controller.get("/v1/models").await;
    assert_eq!((list.status, &list.body["object"]), (200, &json!("list")));
    let known =
        list.body["data"].as_array().expect("models").iter().any(|model| {
            *model == json!({"id": MODEL, "object": "model", "created": 0, "owned_by": "hotdesk"})
        });
    assert!(known, "{}", list.body);
    let one = scene.controller.get("/v1/models/claude-sonnet-4-6").await;
    assert_eq!((one.status, &one.body["id"]), (200, &json!("claude-sonnet-4.6")));
    assert_eq!(scene.controller.get("/v1/models/none").await.status, 404);
}
