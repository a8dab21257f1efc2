//! Limits of rows and bytes per account, with many requests at once: T20, T23 (docs/security.md).

use futures_util::future::join_all;
use hotdesk::base::ids::AccountId;
use hotdesk::base::time::UnixMillis;
use hotdesk::controller::config::{Config, Limits};
use hotdesk::domain::identity::access::Role;
use hotdesk::domain::identity::api_key::MAX_CLIENT_KEYS;
use hotdesk::store::identity::sign_in::sessions::NewSession;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::browser::Browser;
use crate::harness::caller::id_of;
use crate::harness::host::names_in;
use crate::harness::simulation::Simulation;

fn config() -> Config {
    let limits = Limits {
        max_workspaces: 3,
        max_clients: 2,
        max_people: 2,
        max_brought_accounts: 1,
        max_files: 3,
        max_files_gb: 1,
        ..Limits::default()
    };
    Config { limits, ..Config::default() }
}

/// The only response with `status`; all others must be plan limits.
fn winner<'a>(answers: &'a [HttpAnswer], status: u16, field: &str, most: u32) -> &'a HttpAnswer {
    let won: Vec<&HttpAnswer> = answers.iter().filter(|answer| answer.status == status).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    for lost in answers.iter().filter(|answer| answer.status != status) {
        assert_eq!((lost.status, &lost.body["code"]), (403, &json!("PLAN_LIMIT")), "{}", lost.body);
        assert_eq!(lost.body[field], most, "{}", lost.body);
    }
    won[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_workspaces_for_the_last_place_one_is_made() {
    let controller = Simulation::boot_configured(config()).await;
    // Shared workspaces count for their owner, and a client's workspace counts as the client.
    let (_, other) = controller.account("other@example.org").await;
    let body = json!({"name": "theirs"});
    let shared_workspace =
        fetch_json(controller.request_with(&other, Method::POST, "/workspaces").json(&body)).await;
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let shared = id_of(&shared_workspace.body).parse().expect("an id");
    store.set_member(shared, operator, Role::Admin).await.expect("a member");
    controller.create("/v1/accounts", json!({"external_id": "acme"})).await;
    for name in ["one", "two"] {
        controller.workspace(name).await;
    }
    let answers = join_all((0..50).map(|number| {
        let controller = &controller;
        async move { controller.post("/workspaces", json!({"name": format!("race {number}")})).await }
    }))
    .await;
    let won = winner(&answers, 201, "max_workspaces", 3);
    let listed = controller.get("/workspaces").await.body;
    assert_eq!(
        listed["workspaces"].as_array().map(Vec::len),
        Some(5),
        "three own workspaces, the client's and the shared one"
    );
    assert_eq!(controller.delete(&format!("/workspaces/{}", id_of(&won.body))).await.status, 200);
    controller.workspace("replacement").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_clients_for_the_last_place_one_is_made() {
    let controller = Simulation::boot_configured(config()).await;
    let first = controller.create("/v1/accounts", json!({"external_id": "first"})).await;
    let answers =
        join_all(
            (0..50).map(|number| {
                let controller = &controller;
                async move {
                    controller.post("/v1/accounts", json!({"external_id": format!("race {number}")})).await
                }
            }),
        )
        .await;
    winner(&answers, 201, "max_clients", 2);
    assert_eq!(controller.get("/clients").await.body["clients"].as_array().map(Vec::len), Some(2));
    let workspaces = controller.get("/workspaces").await.body;
    assert_eq!(
        workspaces["workspaces"].as_array().map(Vec::len),
        Some(2),
        "refused clients must leave no workspace"
    );
    // A removed client without usage leaves no row.
    let path = format!("/clients/{}", id_of(&first));
    assert_eq!(controller.delete(&path).await.status, 200);
    assert_eq!(controller.get(&format!("{path}/usage")).await.status, 404);
    controller.create("/v1/accounts", json!({"external_id": "first"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_s_keys_are_not_its_operator_s() {
    let controller = Simulation::boot_configured(config()).await;
    let client = controller.create("/v1/accounts", json!({"external_id": "acme"})).await;
    let key = client["key"].as_str().expect("a key");
    let mint = || {
        let body = json!({"name": "more", "workspace_id": client["workspace_id"]});
        fetch_json(controller.request_with(key, Method::POST, "/keys").json(&body))
    };
    for _ in 1..MAX_CLIENT_KEYS {
        let created = mint().await;
        assert_eq!(created.status, 201, "{}", created.body);
    }
    let refused = mint().await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("KEY_LIMIT")), "{}", refused.body);
    controller.create("/keys", json!({"name": "the operator's"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_and_invitations_of_a_workspace_are_bounded_together() {
    let controller = Simulation::boot_configured(config()).await;
    let home = controller.workspace("home").await;
    let invite = async |email: String| {
        let body = json!({"email": email, "permission": "viewer"});
        controller.post(&format!("/workspaces/{home}/invite"), body).await
    };
    let (member, _) = controller.account("member@example.org").await;
    let store = controller.store().await;
    store.set_member(home.parse().expect("an id"), member, Role::Member).await.expect("a member");
    let answers = join_all((0..50).map(|number| invite(format!("{number}@example.org")))).await;
    winner(&answers, 200, "max_people", 2);
    let listed = controller.get(&format!("/workspaces/{home}/members")).await.body;
    let email = listed["invites"][0]["email"].as_str().expect("an address").to_owned();
    assert_eq!(invite(email).await.status, 200, "a new invitation replaces one for the same address");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_invitations_makes_no_more_accounts_than_its_beginning_may() {
    let controller = Simulation::boot_configured(config()).await;
    let home = controller.workspace("home").await;
    let link = |invited: &Value| invited["token"].as_str().expect("a token").to_owned();
    let mut tokens = Vec::new();
    for email in ["ada@x.example", "bob@x.example"] {
        let body = json!({"email": email, "permission": "admin"});
        let invited = controller.post(&format!("/workspaces/{home}/invite"), body).await;
        assert_eq!(invited.status, 200, "{}", invited.body);
        tokens.push(link(&invited.body));
    }
    let accept = async |token: &str| {
        let browser = Browser::new(&controller.base);
        let fields = [("token", token), ("full_name", "N"), ("password", "a long enough one")];
        browser.send("/invitation/account", &fields).await
    };
    let first = accept(&tokens[0]).await;
    assert_eq!(first.status, 303, "{}", first.text);
    let second = accept(&tokens[1]).await;
    assert_eq!(second.status, 403, "{}", second.text);
    let store = controller.store().await;
    assert!(
        store.account_of("bob@x.example").await.expect("the store").is_none(),
        "a refused account must leave no row"
    );
    // An invited person's invitations to their own workspace count for the account that invited them first.
    let ada: AccountId = store.account_of("ada@x.example").await.expect("the store").expect("an account").id;
    let key = controller.key_of(ada, None).await;
    let own =
        fetch_json(controller.request_with(&key, Method::POST, "/workspaces").json(&json!({"name": "own"})))
            .await;
    let body = json!({"email": "cy@x.example", "permission": "admin"});
    let path = format!("/workspaces/{}/invite", id_of(&own.body));
    let invite =
        async |body: &Value| fetch_json(controller.request_with(&key, Method::POST, &path).json(body)).await;
    let refused = invite(&body).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("PLAN_LIMIT")), "{}", refused.body);
    assert_eq!(refused.body["max_brought_accounts"], 1, "{}", refused.body);
    // An invitation of an existing account does not count.
    controller.account("cy@x.example").await;
    let invited = invite(&body).await;
    assert_eq!(invited.status, 200, "{}", invited.body);
}

async fn upload(controller: &Simulation, workspace: &str, name: String) -> HttpAnswer {
    let form =
        Form::new().text("projectId", workspace.to_owned()).part("file", Part::text("hi").file_name(name));
    fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await
}

/// Number of blobs in the data folder.
fn blobs(controller: &Simulation) -> usize {
    names_in(&controller.store_file().with_file_name("blobs/files")).len()
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_uploads_for_the_last_place_one_is_stored() {
    let controller = Simulation::boot_configured(config()).await;
    let (home, away) = (controller.workspace("home").await, controller.workspace("away").await);
    for name in ["one", "two"] {
        assert_eq!(upload(&controller, &home, name.to_owned()).await.status, 200);
    }
    // The limit is per account, whichever workspace a file is for.
    let answers = join_all((0..50).map(|number| {
        let workspace = if number % 2 == 0 { &home } else { &away };
        upload(&controller, workspace, format!("race {number}"))
    }))
    .await;
    // An account has a limit of parallel uploads; further ones answer 429 and do not count here.
    let accepted: Vec<HttpAnswer> = answers.into_iter().filter(|answer| answer.status != 429).collect();
    let won = winner(&accepted, 200, "max_files", 3);
    assert_eq!(blobs(&controller), 3, "refused uploads must leave no blob");
    let file = won.body["file"]["id"].as_str().expect("an id");
    assert_eq!(controller.delete(&format!("/files/delete?id={file}")).await.status, 200);
    // One byte of the GB remains.
    controller.sql(&format!("UPDATE files SET size_bytes = {} WHERE filename = 'one'", (1 << 30) - 3)).await;
    let full = upload(&controller, &home, "two bytes".to_owned()).await;
    assert_eq!((full.status, &full.body["code"]), (403, &json!("PLAN_LIMIT")), "{}", full.body);
    assert_eq!((&full.body["max_files_gb"], blobs(&controller)), (&json!(1), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_of_a_hundred_sign_ins_makes_room() {
    let controller = Simulation::boot().await;
    let (account, _) = controller.account("often@example.org").await;
    let store = controller.store().await;
    for number in 0..101 {
        let digest = format!("digest {number}");
        store.add_session(account, &NewSession::new(&digest, UnixMillis::MAX)).await.expect("a session");
        // Makes each session older than the next.
        controller.sql("UPDATE sessions SET created_at = created_at - 1").await;
    }
    let is_there =
        async |number: u32| store.session(&format!("digest {number}")).await.expect("read").is_some();
    assert_eq!([is_there(0).await, is_there(1).await, is_there(100).await], [false, true, true]);
}
