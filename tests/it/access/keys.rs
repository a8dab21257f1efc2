//! Key creation, one-time display, listing, parallel use and deletion.
//!
//! A5, A6, A12 and A14 (docs/authentication-rules.md).

use hotdesk::base::ids::WorkspaceId;
use hotdesk::domain::identity::access::Role;
use hotdesk::domain::identity::api_key::{MAX_KEYS, well_formed};
use reqwest::Method;
use serde_json::{Value, json};

use super::cast::{add_account, add_key};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

async fn names(controller: &Simulation, key: &str, path: &str) -> Vec<String> {
    let listed = fetch_json(controller.request_with(key, Method::GET, path)).await;
    assert_eq!(listed.status, 200, "{}", listed.body);
    let keys = listed.body["keys"].as_array().expect("keys");
    keys.iter().map(|key| key["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_a_key_s_text_is_in_one_answer_only() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let created = controller.create("/keys", json!({"name": "  ci  ", "workspace_id": home})).await;
    let text = created["key"].as_str().expect("a key").to_owned();
    assert!(well_formed(&text) && created["api_key"] == text.as_str());
    assert_eq!(
        (
            &created["name"],
            &created["scope"],
            &created["workspace_id"],
            &created["prefix"],
            &created["last_used_at"]
        ),
        (&json!("ci"), &json!("workspace"), &json!(home), &json!("sk_live_"), &Value::Null)
    );
    assert_eq!(created["last_four"], text[text.len() - 4..]);
    assert_eq!(controller.get(&format!("/workspaces/{home}")).await.status, 200);
    let used = fetch_json(controller.request_with(&text, Method::GET, &format!("/workspaces/{home}"))).await;
    assert_eq!(used.status, 200, "{}", used.body);

    let listed = controller.get("/keys").await;
    assert!(!listed.body.to_string().contains(&text), "{}", listed.body);
    let keys = listed.body["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), 2, "{}", listed.body);
    assert_eq!((&keys[0]["scope"], &keys[0]["workspace_id"]), (&json!("account"), &Value::Null));
    let record = keys.iter().find(|key| key["id"] == created["id"]).expect("the new one");
    assert!(record["key"].is_null() && record["api_key"].is_null());
    assert!(record["last_used_at"].is_string(), "the key was used: {record}");

    let refused = [json!({}), json!({"name": ""}), json!({"name": "a\nb"}), json!({"name": "a".repeat(256)})];
    for body in refused {
        assert_eq!(controller.post("/keys", body.clone()).await.status, 400, "{body}");
    }
    let anonymous = uuid::Uuid::new_v4().to_string();
    assert_eq!(controller.post("/keys", json!({"name": "x", "workspace_id": anonymous})).await.status, 404);
    for id in [anonymous.as_str(), "nonsense"] {
        let gone = controller.delete(&format!("/keys/{id}")).await;
        assert_eq!((gone.status, &gone.body["error"]), (404, &json!("Key not found")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_no_answer_to_a_key_is_kept_by_anybody() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let computer = controller.computer(&home, "desk").await;
    let body = json!({"name": "another"});
    for request in [
        controller.request(Method::POST, "/keys").json(&body),
        controller.request(Method::GET, "/keys"),
        controller.request(Method::GET, &format!("/computers/{computer}")),
        controller.request(Method::GET, &format!("/computers/{computer}/vnc-password")),
        controller.request(Method::POST, &format!("/computers/{computer}/stream-tickets")).json(&json!({})),
        controller.request(Method::GET, "/computers/nonsense"),
    ] {
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.headers()["cache-control"], "no-store", "{}", answer.url());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_two_keys_work_side_by_side_until_one_is_deleted() {
    let controller = Simulation::boot().await;
    let created = controller.create("/keys", json!({"name": "new"})).await;
    let new = created["key"].as_str().expect("a key");
    for key in [controller.key(), new] {
        assert_eq!(fetch_json(controller.request_with(key, Method::GET, "/workspaces")).await.status, 200);
    }
    let old = controller.get("/keys").await.body["keys"][0]["id"].as_str().expect("an id").to_owned();
    // A key may delete itself and receives the answer.
    let gone = controller.delete(&format!("/keys/{old}")).await;
    assert_eq!((gone.status, gone.body), (200, json!({"success": true})));
    let refused = controller.get("/workspaces").await;
    assert_eq!(refused.status, 401);
    assert!(refused.body["error"].as_str().expect("text").starts_with("Invalid API key"));
    assert_eq!(names(&controller, new, "/keys").await, ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_scoped_key_makes_sees_and_deletes_keys_of_its_workspace_only() {
    let controller = Simulation::boot().await;
    let (home, away) = (controller.workspace("home").await, controller.workspace("away").await);
    let key = async |name: &str, workspace: Option<&str>| {
        controller.create("/keys", json!({"name": name, "workspace_id": workspace})).await
    };
    let (wide, near, far) =
        (key("wide", None).await, key("near", Some(&home)).await, key("far", Some(&away)).await);
    let scoped = near["key"].as_str().expect("a key").to_owned();
    let ask = |method, path: &str| controller.request_with(&scoped, method, path);

    let minted = fetch_json(ask(Method::POST, "/keys").json(&json!({"name": "mine"}))).await;
    assert_eq!((minted.status, &minted.body["code"]), (403, &json!("workspace_scope_mismatch")));
    assert_eq!(minted.body["key_workspace_id"], home.as_str());
    let foreign = json!({"name": "mine", "workspace_id": away});
    let foreign = fetch_json(ask(Method::POST, "/keys").json(&foreign)).await;
    assert_eq!((foreign.status, &foreign.body["target_workspace_id"]), (403, &json!(away)));
    let own = json!({"name": "rotated", "workspace_id": home});
    assert_eq!(fetch_json(ask(Method::POST, "/keys").json(&own)).await.status, 201);

    assert_eq!(names(&controller, &scoped, "/keys").await, ["near", "rotated"]);
    let elsewhere = fetch_json(ask(Method::GET, &format!("/keys?workspace_id={away}"))).await;
    assert_eq!((elsewhere.status, &elsewhere.body["code"]), (403, &json!("workspace_scope_mismatch")));
    for other in [&wide, &far] {
        let refused = fetch_json(ask(Method::DELETE, &format!("/keys/{}", id_of(other)))).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!("workspace_scope_mismatch")));
    }
    assert_eq!(
        names(&controller, controller.key(), "/keys").await.len(),
        5,
        "the refused requests must have no effect"
    );
    assert_eq!(fetch_json(ask(Method::DELETE, &format!("/keys/{}", id_of(&near)))).await.status, 200);
    assert_eq!(fetch_json(ask(Method::GET, "/keys")).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_member_s_keys_are_its_own_and_the_workspace_s_admins_delete_them() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let store = controller.store().await;
    let workspace: WorkspaceId = home.parse().expect("an id");
    let (member, admin) =
        (add_account(&store, "member@example").await, add_account(&store, "admin@example").await);
    store.set_member(workspace, member, Role::Member).await.expect("a member");
    store.set_member(workspace, admin, Role::Admin).await.expect("an admin");
    let (member, admin) = (add_key(&store, member, None).await, add_key(&store, admin, None).await);
    let mint = |key: &str, name: &str| {
        let body = json!({"name": name, "workspace_id": home});
        fetch_json(controller.request_with(key, Method::POST, "/keys").json(&body))
    };
    let (theirs, owners) = (mint(&member, "member's").await, mint(controller.key(), "owner's").await);
    assert_eq!((theirs.status, owners.status), (201, 201), "{} {}", theirs.body, owners.body);

    let path = format!("/keys?workspace_id={home}");
    assert_eq!(names(&controller, &member, &path).await, ["member's"]);
    assert_eq!(names(&controller, &admin, &path).await, ["member's", "owner's"]);
    let delete = |key: &str, created: &Value| {
        fetch_json(controller.request_with(key, Method::DELETE, &format!("/keys/{}", id_of(created))))
    };
    let refused = delete(&member, &owners.body).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!(delete(&admin, &theirs.body).await.status, 200);
    // A viewer may not create keys but may delete its own.
    let created = mint(&member, "before").await;
    let account = store.keys_to(workspace).await.expect("keys").pop().expect("the last").account;
    store.set_member(workspace, account, Role::Viewer).await.expect("a viewer");
    assert_eq!(mint(&member, "after").await.body["code"], "workspace_read_only");
    assert_eq!(delete(&member, &created.body).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_has_so_many_keys_and_another_its_own() {
    let controller = Simulation::boot().await;
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    for _ in 1..MAX_KEYS {
        add_key(&store, operator, None).await;
    }
    let refused = controller.post("/keys", json!({"name": "one more"})).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("KEY_LIMIT")), "{}", refused.body);
    let other = add_key(&store, add_account(&store, "other@example").await, None).await;
    let created = controller.request_with(&other, Method::POST, "/keys").json(&json!({"name": "one more"}));
    assert_eq!(fetch_json(created).await.status, 201);
    let own = controller.get("/keys").await.body["keys"][1]["id"].as_str().expect("an id").to_owned();
    assert_eq!(controller.delete(&format!("/keys/{own}")).await.status, 200);
    assert_eq!(controller.post("/keys", json!({"name": "one more"})).await.status, 201);
}
