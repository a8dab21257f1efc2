//! Threads of all computers, with their tokens and costs.

use std::collections::BTreeSet;

use hotdesk::domain::desktop::thread::RunOutcome;
use hotdesk::domain::identity::access::Role;
use hotdesk::store::fleet::threads::ThreadCosts;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Scene, id};
use crate::harness::agent::fetch_json;

/// The ids of the threads that a key sees with this query.
async fn seen_by(scene: &Scene, key: &str, query: &str) -> BTreeSet<String> {
    let path = format!("/threads{query}");
    let answer = fetch_json(scene.controller.request_with(key, Method::GET, &path)).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    ids(&answer.body)
}

fn ids(page: &Value) -> BTreeSet<String> {
    let threads = page["threads"].as_array().expect("threads");
    threads.iter().map(|thread| thread["id"].as_str().expect("an id").to_owned()).collect()
}

async fn thread(scene: &Scene, computer: &str) -> String {
    let created = scene.controller.create("/chat/threads", json!({"desktopId": computer})).await;
    created["remoteId"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_of_all_computers_have_their_costs_and_filters() {
    let scene = Scene::new().await;
    let controller = &scene.controller;
    let away = controller.workspace("away").await;
    let other = controller.computer(&away, "other").await;
    let (archived, elsewhere) = (thread(&scene, &scene.computer).await, thread(&scene, &other).await);
    let changed = controller.patch(&format!("/chat/threads/{archived}"), json!({"archive": true})).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    scene.play().await;
    let store = controller.store().await;
    let costs =
        ThreadCosts { input_tokens: 7, output_tokens: 3, cost_microcents: 42, ..ThreadCosts::default() };
    store.add_costs(id(&scene.thread), &costs).await.expect("costs");
    store.end_run(id(&scene.thread), &RunOutcome::Done).await.expect("an end");
    let own = scene.thread.clone();
    for (query, expected) in [
        (String::new(), vec![&own, &archived, &elsewhere]),
        (format!("?workspace_id={}", scene.home), vec![&own, &archived]),
        (format!("?workspace_id={away}"), vec![&elsewhere]),
        (format!("?computer_id={other}"), vec![&elsewhere]),
        (format!("?computer_id={other}&workspace_id={}", scene.home), vec![]),
        ("?status=archived".to_owned(), vec![&archived]),
        ("?status=active&cursor=&run=".to_owned(), vec![&own, &elsewhere]),
        ("?run=done".to_owned(), vec![&own]),
        ("?run=running".to_owned(), vec![]),
    ] {
        let expected: BTreeSet<String> = expected.into_iter().cloned().collect();
        assert_eq!(seen_by(&scene, controller.key(), &query).await, expected, "{query}");
    }
    let listed = controller.get("/threads?run=done").await.body;
    let listed = &listed["threads"][0];
    let usage =
        json!({"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 0, "cache_write_tokens": 0});
    assert_eq!((&listed["usage"], &listed["cost_microcents"]), (&usage, &json!(42)), "{listed}");
    assert_eq!((&listed["computer_id"], &listed["status"]), (&json!(scene.computer), &json!("active")));
    assert_eq!(listed["messages"][0]["content"], "List the files.\nAll of them.");
    // The list of one computer has the same.
    let one = scene.list().await.into_iter().find(|it| it["id"] == json!(own)).expect("the thread");
    assert_eq!((&one["usage"], &one["computer_id"]), (&usage, &json!(scene.computer)));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_every_thread_once_and_are_bounded() {
    let scene = Scene::new().await;
    let mut made = BTreeSet::from([scene.thread.clone()]);
    for _ in 0..4 {
        made.insert(thread(&scene, &scene.computer).await);
    }
    let (mut listed, mut pages, mut query) = (BTreeSet::new(), 0, "?limit=2".to_owned());
    loop {
        let page = scene.controller.get(&format!("/threads{query}")).await;
        assert_eq!(page.status, 200, "{}", page.body);
        for thread in ids(&page.body) {
            assert!(listed.insert(thread.clone()), "{thread} is listed twice");
        }
        pages += 1;
        let Some(cursor) = page.body["next_cursor"].as_str() else { break };
        query = format!("?limit=2&cursor={cursor}");
    }
    assert_eq!((pages, &listed), (3, &made));
    for bad in ["limit=0", "limit=101", "cursor=x", "cursor=1-thr_1", "status=gone", "run=sleeping"] {
        let refused = scene.controller.get(&format!("/threads?{bad}")).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sees_the_threads_that_it_reaches() {
    let scene = Scene::new().await;
    let controller = &scene.controller;
    let away = controller.workspace("away").await;
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let scoped = controller.key_of(operator, Some(&away)).await;
    let (viewer, viewer_key) = controller.account("viewer@localhost").await;
    let (_, stranger_key) = controller.account("stranger@localhost").await;
    store.set_member(scene.home.parse().expect("an id"), viewer, Role::Viewer).await.expect("a member");
    let own = BTreeSet::from([scene.thread.clone()]);
    for (key, expected) in [
        (controller.key(), own.clone()),
        (&viewer_key, own),
        (&scoped, BTreeSet::new()),
        (&stranger_key, BTreeSet::new()),
    ] {
        assert_eq!(seen_by(&scene, key, "").await, expected);
    }
    for query in [format!("workspace_id={}", scene.home), format!("computer_id={}", scene.computer)] {
        for key in [&scoped, &stranger_key] {
            let request = controller.request_with(key, Method::GET, &format!("/threads?{query}"));
            assert_eq!(fetch_json(request).await.status, 403, "{query}");
        }
    }
}
