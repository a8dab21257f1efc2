//! Roles that may take, hand back and read the control of a screen, and what the controller tells the agent.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::browser::{Browser, person};
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// A screen that a person holds.
const OF_A_PERSON: &str = "of-a-person";

/// An agent whose answers say who acted, and by which route.
fn agent() -> Router {
    let echo = |route: &'static str| {
        async move |Path(screen): Path<String>, headers: HeaderMap| {
            let by = headers.get("x-hotdesk-actor").and_then(|by| by.to_str().ok()).unwrap_or("nobody");
            axum::Json(
                json!({"screen": screen, "revision": 1, "holder": null, "note": format!("{route} {by}")}),
            )
        }
    };
    Router::new()
        .route("/screens/{id}/control", get(echo("read")).post(echo("take")))
        .route("/screens/{id}/control/hand_back", post(echo("hand back")))
        .route("/screens/{id}/control/help", post(echo("ask")))
        .route("/screens/{id}/control/answer", post(echo("answer")))
        .route("/forced_hand_backs/{id}", post(echo("force")))
        .route("/forced_takes/{id}", post(take_over))
}

/// A forced take; a person holds the screen of this name.
async fn take_over(
    Path(screen): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let from_people = query.get("from_people").map(String::as_str);
    if screen == OF_A_PERSON && from_people != Some("true") {
        let held = json!({"error": "Somebody else (person) holds the screen", "code": "control_held",
            "request_id": "r"});
        return (StatusCode::CONFLICT, axum::Json(held)).into_response();
    }
    let by = headers.get("x-hotdesk-actor").and_then(|by| by.to_str().ok()).unwrap_or("nobody");
    let note = format!("overtake {} {by}", from_people.unwrap_or("?"));
    axum::Json(json!({"screen": screen, "revision": 1, "holder": null, "note": note})).into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_read_members_act_and_admins_force() {
    let controller = Simulation::boot_with(agent()).await;
    let workspace = controller.workspace("demo").await;
    let id = controller.computer(&workspace, "one").await;
    let control = format!("/computers/{id}/screens/default/control");
    let owner = id_of(&controller.create("/keys", json!({"name": "mine"})).await);
    let store = controller.store().await;
    let mut keys = vec![];
    for (email, role) in
        [("v@example.org", Role::Viewer), ("m@example.org", Role::Member), ("a@example.org", Role::Admin)]
    {
        let (account, key) = controller.account(email).await;
        store.set_member(workspace.parse().expect("an id"), account, role).await.expect("stored");
        keys.push((role, key));
    }
    let ask = async |key: &str, method: Method, path: &str, body: Value| -> HttpAnswer {
        fetch_json(controller.request_with(key, method, path).json(&body)).await
    };
    for (role, key) in &keys {
        let read = ask(key, Method::GET, &control, json!({})).await;
        assert_eq!(read.status, 200, "{role:?}: {}", read.body);
        assert!(
            read.body["note"].as_str().is_some_and(|note| note.starts_with("read key:")),
            "{}",
            read.body
        );
        for (more, body, route) in [
            ("", json!({}), "take key:"),
            ("/hand_back", json!({}), "hand back key:"),
            ("/hand_back?force=false", json!({}), "hand back key:"),
            ("/help", json!({"message": "x", "seconds": 1}), "ask key:"),
            ("/answer", json!({}), "answer key:"),
            ("/hand_back?force=true", json!({}), "force key:"),
            ("?force=false", json!({}), "take key:"),
            ("?force=true", json!({"note": "mine"}), "overtake true key:"),
        ] {
            let answer = ask(key, Method::POST, &format!("{control}{more}"), body).await;
            let needs_admin = more.ends_with("force=true");
            let is_allowed = *role >= if needs_admin { Role::Admin } else { Role::Member };
            assert_eq!(answer.status, if is_allowed { 200 } else { 403 }, "{role:?} {more}: {}", answer.body);
            let note = answer.body["note"].as_str().unwrap_or_default();
            assert_eq!(note.starts_with(route), is_allowed, "{role:?} {more}: {}", answer.body);
        }
    }
    // The proxy path names the same actor, whatever the client says, and reaches nothing forced.
    let (_, member) = &keys[1];
    let proxy = format!("/desktops/{id}/proxy");
    let path = format!("{proxy}/screens/default/control");
    let claimed = controller
        .request_with(member, Method::POST, &path)
        .header("x-hotdesk-actor", format!("key:{owner}"));
    let taken = fetch_json(claimed.json(&json!({}))).await;
    let note = taken.body["note"].as_str().expect("a note").to_owned();
    assert!(note.starts_with("take key:") && !note.contains(&owner), "{note}");
    let (_, admin) = &keys[2];
    for path in [
        "forced_hand_backs/default",
        "forced_takes/default?from_people=true",
        "screens/default/control/hand_back?force=true",
        "screens/default/control?force=true",
    ] {
        let answer = ask(admin, Method::POST, &format!("{proxy}/{path}"), json!({})).await;
        let note = answer.body["note"].as_str().unwrap_or_default();
        let is_forced = note.starts_with("force") || note.starts_with("overtake");
        assert!(!is_forced, "{path}: {} {}", answer.status, answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_acts_as_a_person() {
    let controller = Simulation::boot_with(agent()).await;
    let workspace = controller.workspace("demo").await;
    let id = controller.computer(&workspace, "one").await;
    let store = controller.store().await;
    let ada = person(&store, "ada@x.example").await.id;
    store.set_member(workspace.parse().expect("an id"), ada, Role::Admin).await.expect("stored");
    let token = Browser::signed_in(&controller.base, "ada@x.example").await.console_token().await;
    for base in [format!("/computers/{id}"), format!("/desktops/{id}/proxy")] {
        for (more, route) in [("", "take"), ("/hand_back", "hand back"), ("/answer", "answer")] {
            let path = format!("{base}/screens/default/control{more}");
            let answer =
                fetch_json(controller.request_with(&token, Method::POST, &path).json(&json!({}))).await;
            let expected = format!("{route} person:{ada}");
            assert_eq!((answer.status, &answer.body["note"]), (200, &json!(expected)), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_takes_a_screen_from_programs_and_an_admin_from_people() {
    let controller = Simulation::boot_with(agent()).await;
    let workspace = controller.workspace("demo").await;
    let id = controller.computer(&workspace, "one").await;
    let store = controller.store().await;
    for (email, role, from_program, from_person) in [
        ("v@x.example", Role::Viewer, None, 403),
        ("m@x.example", Role::Member, Some("overtake false"), 403),
        ("a@x.example", Role::Admin, Some("overtake true"), 200),
    ] {
        let account = person(&store, email).await.id;
        store.set_member(workspace.parse().expect("an id"), account, role).await.expect("stored");
        let token = Browser::signed_in(&controller.base, email).await.console_token().await;
        let ask = async |screen: &str| {
            let path = format!("/computers/{id}/screens/{screen}/control?force=true");
            fetch_json(controller.request_with(&token, Method::POST, &path).json(&json!({}))).await
        };
        let taken = ask("default").await;
        let expected = from_program.map(|note| json!(format!("{note} person:{account}")));
        assert_eq!(taken.body.get("note"), expected.as_ref(), "{role:?}: {}", taken.body);
        assert_eq!(taken.status, if expected.is_some() { 200 } else { 403 }, "{role:?}");
        let taken = ask(OF_A_PERSON).await;
        assert_eq!(taken.status, from_person, "{role:?}: {}", taken.body);
        if role == Role::Member {
            let why = taken.body["error"].as_str().unwrap_or_default();
            assert!(why.contains("a person has the screen") && why.contains("admin"), "{}", taken.body);
        }
    }
}
