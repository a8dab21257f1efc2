//! Access to threads: that of their computer.

use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::json;

use super::Scene;
use crate::harness::agent::fetch_json;

#[tokio::test(flavor = "multi_thread")]
async fn viewers_read_and_strangers_learn_nothing() {
    let scene = Scene::new().await;
    scene.play().await;
    let controller = &scene.controller;
    let (viewer, viewer_key) = controller.account("viewer@localhost").await;
    let (_, stranger_key) = controller.account("stranger@localhost").await;
    let store = controller.store().await;
    let home = scene.home.parse().expect("an id");
    store.set_member(home, viewer, Role::Viewer).await.expect("a member");
    let list = format!("/chat/threads?desktopId={}", scene.computer);
    let reads = [list.clone(), scene.path("")];
    let reads_of_files = [scene.path("/steps"), scene.path("/export")];
    for path in &reads {
        let seen = fetch_json(controller.request_with(&viewer_key, Method::GET, path)).await;
        assert_eq!(seen.status, 200, "{path}: {}", seen.body);
    }
    // Steps have output of commands, as files have.
    for path in &reads_of_files {
        let refused = fetch_json(controller.request_with(&viewer_key, Method::GET, path)).await;
        let error = refused.body["error"].as_str().unwrap_or_default();
        assert!(refused.status == 403 && error.contains("viewers_read_files"), "{path}: {}", refused.body);
    }
    let workspace = format!("/workspaces/{}", scene.home);
    let opened = controller.patch(&workspace, json!({"viewers_read_files": true})).await;
    assert_eq!(opened.status, 200, "{}", opened.body);
    for path in &reads_of_files {
        let seen = controller.request_with(&viewer_key, Method::GET, path).send().await.expect("an answer");
        assert_eq!(seen.status(), 200, "{path}");
    }
    for path in reads.iter().chain(&reads_of_files) {
        let refused = fetch_json(controller.request_with(&stranger_key, Method::GET, path)).await;
        assert_eq!((refused.status, &refused.body["error"]), (403, &json!("Access denied")), "{path}");
    }
    for (method, path, body) in [
        (Method::POST, "/chat/threads".to_owned(), json!({"desktopId": scene.computer})),
        (Method::PATCH, scene.path(""), json!({"title": "t"})),
        (Method::POST, scene.path("/title"), json!({})),
        (Method::POST, scene.path("/stop"), json!({})),
        (Method::DELETE, scene.path(""), json!({})),
    ] {
        let ask = |key| fetch_json(controller.request_with(key, method.clone(), &path).json(&body));
        let refused = ask(&viewer_key).await;
        let code = json!("workspace_read_only");
        assert_eq!((refused.status, &refused.body["code"]), (403, &code), "{method} {path}");
        let refused = ask(&stranger_key).await;
        assert_eq!(
            (refused.status, &refused.body["error"]),
            (403, &json!("Access denied")),
            "{method} {path}"
        );
    }
    assert_eq!(controller.get(&scene.path("")).await.body["title"], json!(null), "nothing changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_stays_when_the_member_who_began_it_leaves() {
    let scene = Scene::new().await;
    let controller = &scene.controller;
    let (member, key) = controller.account("member@localhost").await;
    let store = controller.store().await;
    store.set_member(scene.home.parse().expect("an id"), member, Role::Member).await.expect("a member");
    let request = controller.request_with(&key, Method::POST, "/chat/threads");
    let created = fetch_json(request.json(&json!({"desktopId": scene.computer}))).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let path = format!("/chat/threads/{}", created.body["remoteId"].as_str().expect("an id"));
    assert_eq!(controller.get(&path).await.body["account_id"], json!(member.to_string()));
    let members = format!("/workspaces/{}/members", scene.home);
    let removed = controller.request(Method::DELETE, &members).json(&json!({"memberId": member.to_string()}));
    assert_eq!(fetch_json(removed).await.status, 200);
    let refused = fetch_json(controller.request_with(&key, Method::GET, &path)).await;
    assert_eq!((refused.status, &refused.body["error"]), (403, &json!("Access denied")));
    assert_eq!(controller.get(&path).await.status, 200);
}
