//! Chat threads: routes, access, recovery and removal (docs/api/threads.md). Runs are played by writing to
//! the store.

mod access;
mod overview;
mod recovery;

use std::path::Path;
use std::time::Duration;

use hotdesk::base::ids::ThreadId;
use hotdesk::base::wait;
use hotdesk::domain::desktop::thread::{MAX_PICTURES, RunOutcome};
use hotdesk::store::Store;
use hotdesk::store::fleet::threads::NewThreadStep;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

/// Longest time until a removed computer's blobs are gone, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes that look like a PNG to the links of stored pictures.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A controller with a computer and one thread.
pub struct Scene {
    controller: Simulation,
    home: String,
    computer: String,
    thread: String,
}

impl Scene {
    async fn new() -> Self {
        let controller = Simulation::boot().await;
        let home = controller.workspace("home").await;
        let computer = controller.computer(&home, "desk").await;
        let created = controller.create("/chat/threads", json!({"desktopId": computer})).await;
        let thread = created["remoteId"].as_str().expect("an id").to_owned();
        Self { controller, home, computer, thread }
    }

    fn path(&self, rest: &str) -> String {
        format!("/chat/threads/{}{rest}", self.thread)
    }

    async fn list(&self) -> Vec<Value> {
        let listed = self.controller.get(&format!("/chat/threads?desktopId={}", self.computer)).await;
        assert_eq!(listed.status, 200, "{}", listed.body);
        listed.body["threads"].as_array().expect("threads").clone()
    }

    /// Plays the beginning of a run: a task, a call, its step with a picture, and the result. Returns the
    /// picture.
    async fn play(&self) -> Uuid {
        play(&self.controller.store().await, &self.controller.data_dir(), &self.thread).await
    }

    fn has_picture(&self, picture: Uuid) -> bool {
        self.controller.data_dir().join("blobs/step-pictures").join(picture.to_string()).exists()
    }

    /// The lines of the export.
    async fn export(&self) -> Vec<Value> {
        let request = self.controller.request(Method::GET, &self.path("/export"));
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        let text = response.text().await.expect("a text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

pub fn id(thread: &str) -> ThreadId {
    thread.parse().expect("an id")
}

/// See [`Scene::play`].
pub async fn play(store: &Store, data_dir: &Path, thread: &str) -> Uuid {
    let picture = Uuid::new_v4();
    let folder = data_dir.join("blobs/step-pictures");
    std::fs::write(folder.join(picture.to_string()), PICTURE).expect("a blob");
    let call = json!({"id": "call_1", "name": "bash", "input": {"command": "ls"}});
    let text = |role: &str, text: &str| json!({"role": role, "content": [{"type": "text", "text": text}]});
    let mut calls = text("assistant", "I look.");
    let mut part = call.clone();
    part["type"] = json!("tool_call");
    calls["content"].as_array_mut().expect("parts").push(part);
    let result = json!({"role": "user", "content": [
        {"type": "tool_result", "call": "call_1", "text": "poem.txt", "is_error": false}]});
    for message in [text("user", "List the files.\nAll of them."), calls] {
        store.append_message(id(thread), &message.to_string()).await.expect("a message");
    }
    let step = NewThreadStep {
        tool_call: call.to_string(),
        text: Some("I look.".to_owned()),
        result: "poem.txt".to_owned(),
        action: Some(json!({"action": "bash"}).to_string()),
        usage:
            json!({"input_tokens": 7, "output_tokens": 2, "cache_read_tokens": 1, "cache_write_tokens": 0})
                .to_string(),
        cost_microcents: 42,
        took_ms: 5,
        picture: Some((picture, PICTURE.len() as i64)),
        ..NewThreadStep::default()
    };
    store.add_thread_step(id(thread), &step).await.expect("a step");
    store.append_message(id(thread), &result.to_string()).await.expect("a message");
    picture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_created_listed_changed_and_removed() {
    let scene = Scene::new().await;
    let controller = &scene.controller;
    let named = json!({"desktopId": scene.computer, "localId": "local-1"});
    let other = controller.create("/chat/threads", named).await;
    assert_eq!(other["externalId"], "local-1");
    assert!(other["remoteId"].as_str().is_some_and(|id| id.starts_with("thr_")), "{other}");
    let changed = controller.patch(&scene.path(""), json!({"title": " Poem "})).await;
    let expected = json!({"remoteId": scene.thread, "status": "active", "title": "Poem"});
    assert_eq!((changed.status, &changed.body), (200, &expected));
    let listed = scene.list().await;
    let ids: Vec<&Value> = listed.iter().map(|thread| &thread["remoteId"]).collect();
    assert_eq!(ids, [&json!(scene.thread), &other["remoteId"]], "the last changed first");
    assert_eq!((&listed[0]["id"], &listed[0]["title"]), (&json!(scene.thread), &json!("Poem")));
    assert_eq!((&listed[0]["messages"], &listed[1]["title"]), (&json!([]), &Value::Null));
    assert!(listed[0]["updated_at"].is_string());
    // `archive` wins.
    for (body, status) in [
        (json!({"archive": true, "unarchive": true}), "archived"),
        (json!({}), "archived"),
        (json!({"unarchive": true}), "active"),
    ] {
        let changed = controller.patch(&scene.path(""), body).await;
        assert_eq!((changed.status, &changed.body["status"]), (200, &json!(status)), "{}", changed.body);
    }
    let messages = json!([
        {"role": "user", "content": "Hello", "id": "m1", "createdAt": "2026-01-01T00:00:00Z"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Hello"}, {"type": "text", "text": "you"}]}]);
    for messages in [messages.clone(), messages] {
        assert_eq!(controller.patch(&scene.path(""), json!({"messages": messages})).await.status, 200);
    }
    let read = controller.get(&scene.path("")).await;
    let expected =
        json!([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello\nyou"}]);
    assert_eq!((read.status, &read.body["messages"]), (200, &expected), "{}", read.body);
    assert_eq!((&read.body["run"], &read.body["computer_id"]), (&Value::Null, &json!(scene.computer)));
    assert_eq!(
        (&scene.list().await[0]["messages"], &scene.list().await[0]["message_count"]),
        (&expected, &json!(2))
    );
    let removed = controller.delete(&scene.path("")).await;
    assert_eq!((removed.status, &removed.body), (200, &json!({"success": true})));
    for answer in [controller.get(&scene.path("")).await, controller.delete(&scene.path("")).await] {
        assert_eq!((answer.status, &answer.body["error"]), (404, &json!("Thread not found")));
    }
    assert_eq!(scene.list().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_paths_lead_to_the_same_threads() {
    let scene = Scene::new().await;
    let controller = &scene.controller;
    let listed = controller.get(&format!("/v1/threads?computer_id={}", scene.computer)).await;
    assert_eq!((listed.status, &listed.body["threads"][0]["id"]), (200, &json!(scene.thread)));
    let path = format!("/v1/threads/{}", scene.thread);
    assert_eq!(controller.get(&path).await.body["remoteId"], scene.thread.as_str());
    assert_eq!(controller.delete(&path).await.status, 200);
    assert_eq!(controller.get(&path).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_without_a_run_is_stopped_already() {
    let scene = Scene::new().await;
    for path in [scene.path("/stop"), format!("/v1/threads/{}/stop", scene.thread)] {
        let stopped = fetch_json(scene.controller.request(Method::POST, &path)).await;
        let expected = json!({"remoteId": scene.thread, "stopped": false});
        assert_eq!((stopped.status, &stopped.body), (200, &expected), "{path}");
    }
    let unknown = format!("/chat/threads/{}/stop", ThreadId::random());
    assert_eq!(fetch_json(scene.controller.request(Method::POST, &unknown)).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused() {
    let scene = Scene::new().await;
    let controller = &scene.controller;
    let long = "x".repeat(256);
    for (method, path, body, status) in [
        (Method::GET, "/chat/threads".to_owned(), Value::Null, 400),
        (Method::GET, "/chat/threads?desktopId=none".to_owned(), Value::Null, 404),
        (Method::POST, "/chat/threads".to_owned(), json!({}), 400),
        (Method::POST, "/chat/threads".to_owned(), json!({"desktopId": Uuid::new_v4()}), 404),
        (
            Method::POST,
            "/chat/threads".to_owned(),
            json!({"desktopId": scene.computer, "localId": long}),
            400,
        ),
        (Method::GET, "/chat/threads/thr_1".to_owned(), Value::Null, 404),
        (Method::GET, format!("/chat/threads/{}", ThreadId::random()), Value::Null, 404),
        (Method::PATCH, scene.path(""), json!({"title": ""}), 400),
        (Method::PATCH, scene.path(""), json!({ "title": long }), 400),
        (Method::PATCH, scene.path(""), json!({"status": "archived"}), 400),
        (Method::PATCH, scene.path(""), json!({"messages": [{"role": "system", "content": "a"}]}), 400),
        (Method::PATCH, scene.path(""), json!({"messages": [{"role": "user", "content": ""}]}), 400),
        (
            Method::PATCH,
            scene.path(""),
            json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}),
            400,
        ),
        (
            Method::PATCH,
            scene.path(""),
            json!({"messages": [{"role": "user", "content": "x".repeat(1 << 20)}]}),
            400,
        ),
        (Method::POST, scene.path("/title"), json!({"messages": "a"}), 400),
        (Method::GET, scene.path("/steps?limit=0"), Value::Null, 400),
        (Method::GET, scene.path("/steps?limit=201"), Value::Null, 400),
        (Method::GET, scene.path("/steps?cursor=x"), Value::Null, 400),
    ] {
        let mut request = controller.request(method.clone(), &path);
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = fetch_json(request).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert!(answer.body["error"].is_string() && answer.body["request_id"].is_string(), "{}", answer.body);
    }
    let read = controller.get(&scene.path("")).await.body;
    assert_eq!((&read["title"], &read["messages"]), (&Value::Null, &json!([])), "nothing changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_made_of_the_first_messages() {
    let scene = Scene::new().await;
    let title = async |body: Value| {
        let request = scene.controller.request(Method::POST, &scene.path("/title")).json(&body);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{body}");
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        response.text().await.expect("a text")
    };
    assert_eq!(title(json!({})).await, "0:\"New thread\"\n");
    scene.play().await;
    assert_eq!(title(json!({})).await, "0:\"List the files.\"\n");
    let messages = json!([
        {"role": "assistant", "content": "I am here."},
        {"role": "user", "content": [
            {"type": "image", "image": "data:"}, {"type": "text", "text": "Say \"hi\""}]}]);
    assert_eq!(title(json!({ "messages": messages })).await, "0:\"Say \\\"hi\\\"\"\n");
    assert_eq!(scene.controller.get(&scene.path("")).await.body["title"], "Say \"hi\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_read_in_pages_with_links_to_their_pictures() {
    let scene = Scene::new().await;
    let picture = scene.play().await;
    let store = scene.controller.store().await;
    let plain = NewThreadStep {
        tool_call: json!({"id": "call_2", "name": "computer", "input": {}}).to_string(),
        usage:
            json!({"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0})
                .to_string(),
        is_error: true,
        ..NewThreadStep::default()
    };
    store.add_thread_step(id(&scene.thread), &plain).await.expect("a step");
    let first = scene.controller.get(&scene.path("/steps?limit=1")).await;
    assert_eq!((first.status, &first.body["next_cursor"]), (200, &json!("1")), "{}", first.body);
    let step = &first.body["steps"][0];
    assert_eq!((&step["call"]["name"], &step["result"]), (&json!("bash"), &json!("poem.txt")));
    assert_eq!((&step["usage"]["input_tokens"], &step["cost_microcents"]), (&json!(7), &json!(42)));
    assert_eq!((&step["action"]["action"], &step["effect"]), (&json!("bash"), &Value::Null));
    let link = step["screenshot"].as_str().expect("a link");
    let fetched = crate::harness::client().get(link).send().await.expect("an answer");
    assert_eq!(
        (fetched.status().as_u16(), &fetched.headers()["content-type"]),
        (200, &"image/png".parse().unwrap())
    );
    assert_eq!(fetched.bytes().await.expect("a picture"), PICTURE);
    let last = scene.controller.get(&scene.path("/steps?limit=1&cursor=1")).await;
    let step = &last.body["steps"][0];
    assert_eq!((&last.body["next_cursor"], &step["number"]), (&Value::Null, &json!(2)), "{}", last.body);
    assert_eq!((&step["screenshot"], &step["is_error"]), (&Value::Null, &json!(true)));
    // The picture goes with the thread, and so does what the link shows.
    assert!(scene.has_picture(picture));
    assert_eq!(scene.controller.delete(&scene.path("")).await.status, 200);
    assert!(!scene.has_picture(picture));
    let gone = crate::harness::client().get(link).send().await.expect("an answer");
    assert_eq!(gone.status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_every_message_and_step() {
    let scene = Scene::new().await;
    assert_eq!(scene.export().await.len(), 1);
    scene.play().await;
    let lines = scene.export().await;
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["thread", "message", "message", "message", "step"]);
    assert_eq!((&lines[0]["id"], &lines[0]["run"]), (&json!(scene.thread), &json!("running")));
    let call = json!({"type": "tool_call", "id": "call_1", "name": "bash", "input": {"command": "ls"}});
    assert_eq!((&lines[2]["role"], &lines[2]["content"][1]), (&json!("assistant"), &call));
    assert_eq!(lines[3]["content"][0]["text"], "poem.txt");
    assert_eq!((&lines[4]["number"], &lines[4]["call"]["id"]), (&json!(1), &json!("call_1")));
    // The messages of the thread are the texts.
    let messages = scene.controller.get(&scene.path("")).await.body["messages"].clone();
    let expected = json!([
        {"role": "user", "content": "List the files.\nAll of them."},
        {"role": "assistant", "content": "I look."}]);
    assert_eq!(messages, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_not_replaced_during_a_run() {
    let scene = Scene::new().await;
    scene.play().await;
    let replace = json!({"messages": [{"role": "user", "content": "a"}]});
    let refused = scene.controller.patch(&scene.path(""), replace.clone()).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("thread_running")), "{}", refused.body);
    assert_eq!(scene.controller.patch(&scene.path(""), json!({"title": "t"})).await.status, 200);
    let store = scene.controller.store().await;
    let failed = RunOutcome::Failed { message: "the model is overloaded".to_owned() };
    store.end_run(id(&scene.thread), &failed).await.expect("an end");
    let read = scene.controller.get(&scene.path("")).await.body;
    assert_eq!((&read["run"], &read["failure"]), (&json!("failed"), &json!("the model is overloaded")));
    assert_eq!(scene.controller.patch(&scene.path(""), replace).await.status, 200);
    let read = scene.controller.get(&scene.path("")).await.body;
    assert_eq!((read["messages"].as_array().map(Vec::len), &read["step_count"]), (Some(1), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_and_pictures_go_with_their_computer() {
    let scene = Scene::new().await;
    let picture = scene.play().await;
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.computer)).await.status, 200);
    scene.controller.until_status(&scene.computer, "none").await;
    assert_eq!(scene.controller.get(&scene.path("")).await.status, 404);
    // The blob is removed after the row.
    let removed = wait::until(TIMEOUT, || async { (!scene.has_picture(picture)).then_some(()) });
    assert!(removed.await.is_some(), "the picture stays");
    assert_eq!(scene.controller.delete(&format!("/workspaces/{}", scene.home)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_has_the_newest_pictures_after_a_restart_too() {
    let mut scene = Scene::new().await;
    let store = scene.controller.store().await;
    let mut pictures = Vec::new();
    for _ in 0..=MAX_PICTURES {
        pictures.push(play(&store, &scene.controller.data_dir(), &scene.thread).await);
    }
    // A step whose picture a power cut took.
    let lost = scene.controller.data_dir().join("blobs/step-pictures").join(pictures[1].to_string());
    std::fs::remove_file(lost).expect("the blob of a step");
    scene.controller.restart().await;
    let page = scene.controller.get(&scene.path("/steps?limit=200")).await.body;
    let with_picture: Vec<bool> =
        page["steps"].as_array().expect("steps").iter().map(|step| step["screenshot"].is_string()).collect();
    assert_eq!(with_picture.len(), MAX_PICTURES + 1);
    assert_eq!(with_picture[..3], [false, false, true], "one made room, one was lost");
    assert!(with_picture[2..].iter().all(|has| *has));
}
