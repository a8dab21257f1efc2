//! Does the log tell who signed in, who tried to, and what programs were let in, without a word that was typed?

use hotdesk::domain::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::device::{decide, start, text};
use super::loss::members;
use super::members::somebody;
use crate::cli::person::Person;
use crate::harness::agent::answered;
use crate::harness::browser::{Browser, PASSWORD, person};
use crate::harness::simulation::Simulation;

/// The lines about an action that a key reads, the oldest first.
async fn acts(house: &Simulation, key: &str) -> Vec<Value> {
    let request = house.request_with(key, Method::GET, "/audit?limit=500");
    let log = answered(request).await;
    let lines = log.body["entries"].as_array().expect("entries").iter().rev();
    lines.filter(|line| line["action"].is_string()).cloned().collect()
}

/// Action and result of each.
fn told(acts: &[Value]) -> Vec<(&str, &str)> {
    acts.iter().map(|line| (text(line, "action"), text(line, "result"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_of_sign_ins_and_of_tries_and_nothing_that_was_typed() {
    let house = Simulation::boot().await;
    let store = house.store().await;
    let ada = person(&store, "ada@x.example").await;
    let key = house.key_of(ada.id, None).await;
    let anybody = Browser::new(&house.base);
    for email in ["Ada@x.example ", "canary@y.example"] {
        let tried = anybody.send("/sign-in", &[("email", email), ("password", "canary-typed")]).await;
        assert_eq!(tried.status, 401);
    }
    let here = Browser::signed_in(&house.base, "ada@x.example").await;
    let change = async |current: &str| {
        here.post("/settings/password", &[("current", current), ("password", "canary-new-password")]).await
    };
    assert_eq!(change("canary-typed").await.status, 403);
    assert_eq!(change(PASSWORD).await.status, 303);
    assert_eq!(here.post("/sign-out", &[]).await.status, 303);

    // Of whom somebody tried to sign in as, that person learns; of other addresses nothing is kept.
    let hers = acts(&house, &key).await;
    let expected = [
        ("sign_in", "refused"),
        ("sign_in", "done"),
        ("password_change", "refused"),
        ("password_change", "done"),
        ("sign_out", "done"),
    ];
    assert_eq!(told(&hers), expected);
    let id = json!(ada.id.to_string());
    assert_eq!(
        (&hers[0]["account_id"], &hers[0]["target_id"], &hers[0]["source"]),
        (&Value::Null, &id, &json!("127.0.0.1"))
    );
    for line in &hers[1..] {
        assert_eq!((&line["account_id"], &line["credential"]), (&id, &json!("session")), "{line}");
    }
    let operators = acts(&house, house.key()).await;
    assert_eq!(told(&operators), [("sign_in", "refused"); 2]);
    assert_eq!(operators[1]["target_id"], Value::Null);
    for log in [&hers, &operators] {
        assert!(!json!(log).to_string().contains("canary"), "{log:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_which_programs_a_person_let_in() {
    let house = Simulation::boot().await;
    let ada = person(&house.store().await, "ada@x.example").await;
    let key = house.key_of(ada.id, None).await;
    let browser = Browser::signed_in(&house.base, "ada@x.example").await;
    let mut codes = Vec::new();
    for decision in ["approve", "deny"] {
        let started = start(&house).await;
        let code = text(&started, "user_code").to_owned();
        assert_eq!(decide(&browser, &code, decision).await, 200);
        codes.push(code);
    }
    let hers = acts(&house, &key).await;
    assert_eq!(told(&hers), [("sign_in", "done"), ("device_approved", "done"), ("device_denied", "done")]);
    let keys = answered(house.request_with(&key, Method::GET, "/keys")).await;
    let made = keys.body["keys"].as_array().expect("keys").iter().find(|it| it["name"] != "test");
    assert_eq!(hers[1]["target_id"], made.expect("the program's key")["id"]);
    assert_eq!(hers[2]["target_id"], Value::Null);
    for line in &hers[1..] {
        assert_eq!(
            (&line["client"], &line["credential"]),
            (&json!("bops <b>CLI</b>"), &json!("session")),
            "{line}"
        );
    }
    for code in &codes {
        assert!(!json!(hers).to_string().contains(code.as_str()), "{hers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_which_member_was_changed_and_taken_out_and_by_whom() {
    let house = Simulation::boot().await;
    let home = house.workspace("home").await;
    let (_, member) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    let (admin, _) = somebody(&house, "boss@x.example", &home, Some(Role::Admin)).await;
    let viewer = json!({"memberId": member, "role": "viewer"});
    assert_eq!(members(&admin, Method::PATCH, &home, viewer).await.status, 200);
    let browser = Browser::signed_in(&house.base, "boss@x.example").await;
    let page = format!("/settings/workspaces/{home}/remove");
    assert_eq!(browser.post(&page, &[("member", &member)]).await.status, 303);
    let log = house.get(&format!("/audit?workspace_id={home}")).await.body;
    for (line, (credential, route)) in
        [("session", "/settings/workspaces/{id}/remove"), ("key", "/workspaces/{id}/members")]
            .into_iter()
            .enumerate()
    {
        let line = &log["entries"][line];
        assert_eq!((text(line, "credential"), text(line, "route")), (credential, route), "{line}");
        assert_eq!((text(line, "target_id"), text(line, "account_email")), (&*member, "boss@x.example"));
    }
    // Somebody at a shell reads who it was, and no id of a browser's session.
    let shown =
        Person::knowing(&house.base, house.key()).runs(&["audit", "--workspace", "home"]).await.well();
    let removed = shown.lines().find(|line| line.contains("/remove")).expect("a line");
    assert!(removed.contains("boss@x.example"), "{shown}");
}
