//! Audit log of sign-ins, attempts and device authorizations; it contains no typed text.

use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::device::{decide, start, text};
use super::loss::members;
use super::members::add_member;
use crate::cli::person::Shell;
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, PASSWORD, person};
use crate::harness::simulation::Simulation;

/// The entries about an action in the log that a key can read, oldest first.
async fn action_entries(controller: &Simulation, key: &str) -> Vec<Value> {
    let request = controller.request_with(key, Method::GET, "/audit?limit=500");
    let log = fetch_json(request).await;
    let lines = log.body["entries"].as_array().expect("entries").iter().rev();
    lines.filter(|line| line["action"].is_string()).cloned().collect()
}

/// Action and result of each entry.
fn action_results(action_entries: &[Value]) -> Vec<(&str, &str)> {
    action_entries.iter().map(|line| (text(line, "action"), text(line, "result"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_of_sign_ins_and_of_tries_and_nothing_that_was_typed() {
    let controller = Simulation::boot().await;
    let store = controller.store().await;
    let ada = person(&store, "ada@x.example").await;
    let key = controller.key_of(ada.id, None).await;
    let anybody = Browser::new(&controller.base);
    for email in ["Ada@x.example ", "canary@y.example"] {
        let tried = anybody.send("/sign-in", &[("email", email), ("password", "canary-typed")]).await;
        assert_eq!(tried.status, 401);
    }
    let here = Browser::signed_in(&controller.base, "ada@x.example").await;
    let change = async |current: &str| {
        here.post("/settings/password", &[("current", current), ("password", "canary-new-password")]).await
    };
    assert_eq!(change("canary-typed").await.status, 403);
    assert_eq!(change(PASSWORD).await.status, 303);
    assert_eq!(here.post("/sign-out", &[]).await.status, 303);

    // Ada's log has the attempt to sign in as her; the attempt with an unknown address is only in the
    // operator's log.
    let ada_entries = action_entries(&controller, &key).await;
    let expected = [
        ("sign_in", "refused"),
        ("sign_in", "done"),
        ("password_change", "refused"),
        ("password_change", "done"),
        ("sign_out", "done"),
    ];
    assert_eq!(action_results(&ada_entries), expected);
    let id = json!(ada.id.to_string());
    assert_eq!(
        (&ada_entries[0]["account_id"], &ada_entries[0]["target_id"], &ada_entries[0]["source"]),
        (&Value::Null, &id, &json!("127.0.0.1"))
    );
    for line in &ada_entries[1..] {
        assert_eq!((&line["account_id"], &line["credential"]), (&id, &json!("session")), "{line}");
    }
    let operator_entries = action_entries(&controller, controller.key()).await;
    assert_eq!(action_results(&operator_entries), [("sign_in", "refused"); 2]);
    assert_eq!(operator_entries[1]["target_id"], Value::Null);
    for log in [&ada_entries, &operator_entries] {
        assert!(!json!(log).to_string().contains("canary"), "{log:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_which_programs_a_person_let_in() {
    let controller = Simulation::boot().await;
    let ada = person(&controller.store().await, "ada@x.example").await;
    let key = controller.key_of(ada.id, None).await;
    let browser = Browser::signed_in(&controller.base, "ada@x.example").await;
    let mut codes = Vec::new();
    for decision in ["approve", "deny"] {
        let started = start(&controller).await;
        let code = text(&started, "user_code").to_owned();
        assert_eq!(decide(&browser, &code, decision).await, 200);
        codes.push(code);
    }
    let ada_entries = action_entries(&controller, &key).await;
    assert_eq!(
        action_results(&ada_entries),
        [("sign_in", "done"), ("device_approved", "done"), ("device_denied", "done")]
    );
    let keys = fetch_json(controller.request_with(&key, Method::GET, "/keys")).await;
    let device_key = keys.body["keys"].as_array().expect("keys").iter().find(|it| it["name"] != "test");
    assert_eq!(ada_entries[1]["target_id"], device_key.expect("the program's key")["id"]);
    assert_eq!(ada_entries[2]["target_id"], Value::Null);
    for line in &ada_entries[1..] {
        assert_eq!(
            (&line["client"], &line["credential"]),
            (&json!("bops <b>CLI</b>"), &json!("session")),
            "{line}"
        );
    }
    for code in &codes {
        assert!(!json!(ada_entries).to_string().contains(code.as_str()), "{ada_entries:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_which_member_was_changed_and_taken_out_and_by_whom() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let (_, member) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    let (admin, _) = add_member(&controller, "boss@x.example", &home, Some(Role::Admin)).await;
    let viewer = json!({"memberId": member, "role": "viewer"});
    assert_eq!(members(&admin, Method::PATCH, &home, viewer).await.status, 200);
    let browser = Browser::signed_in(&controller.base, "boss@x.example").await;
    let page = format!("/settings/workspaces/{home}/remove");
    assert_eq!(browser.post(&page, &[("member", &member)]).await.status, 303);
    let log = controller.get(&format!("/audit?workspace_id={home}")).await.body;
    for (line, (credential, route)) in
        [("session", "/settings/workspaces/{id}/remove"), ("key", "/workspaces/{id}/members")]
            .into_iter()
            .enumerate()
    {
        let line = &log["entries"][line];
        assert_eq!((text(line, "credential"), text(line, "route")), (credential, route), "{line}");
        assert_eq!((text(line, "target_id"), text(line, "account_email")), (&*member, "boss@x.example"));
    }
    // The command-line client shows the person's address, and no session id.
    let output = Shell::with_key(&controller.base, controller.key())
        .run(&["audit", "--workspace", "home"])
        .await
        .expect_success();
    let removed = output.lines().find(|line| line.contains("/remove")).expect("a line");
    assert!(removed.contains("boss@x.example"), "{output}");
}
