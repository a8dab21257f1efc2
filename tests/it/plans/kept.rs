//! Does a loop that makes rows or bytes end at its own account's bound, however many make them at once? (threats.md T20, T23)

use futures_util::future::join_all;
use hotdesk::base::ids::AccountId;
use hotdesk::controller::config::{Config, Limits};
use hotdesk::domain::access::Role;
use hotdesk::domain::api_key::MAX_CLIENT_KEYS;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
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

/// Of some answers the only one that has this status; the others say that the plan gives no more.
fn winner<'a>(answers: &'a [Answered], status: u16, field: &str, most: u32) -> &'a Answered {
    let won: Vec<&Answered> = answers.iter().filter(|answer| answer.status == status).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    for lost in answers.iter().filter(|answer| answer.status != status) {
        assert_eq!((lost.status, &lost.body["code"]), (403, &json!("PLAN_LIMIT")), "{}", lost.body);
        assert_eq!(lost.body[field], most, "{}", lost.body);
    }
    won[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_workspaces_for_the_last_place_one_is_made() {
    let house = Simulation::boot_configured(config()).await;
    // What somebody else let the account into is that one's, and a client's workspace is the client.
    let (_, other) = house.account("other@example.org").await;
    let body = json!({"name": "theirs"});
    let theirs = answered(house.request_with(&other, Method::POST, "/workspaces").json(&body)).await;
    let store = house.store().await;
    let operator = store.operator().await.expect("the operator");
    let shared = id_of(&theirs.body).parse().expect("an id");
    store.set_member(shared, operator, Role::Admin).await.expect("a member");
    house.made("/v1/accounts", json!({"external_id": "acme"})).await;
    for name in ["one", "two"] {
        house.workspace(name).await;
    }
    let answers = join_all((0..50).map(|number| {
        let house = &house;
        async move { house.post("/workspaces", json!({"name": format!("race {number}")})).await }
    }))
    .await;
    let won = winner(&answers, 201, "max_workspaces", 3);
    let listed = house.get("/workspaces").await.body;
    assert_eq!(listed["workspaces"].as_array().map(Vec::len), Some(5), "three, the client's and the other's");
    assert_eq!(house.delete(&format!("/workspaces/{}", id_of(&won.body))).await.status, 200);
    house.workspace("in its place").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_clients_for_the_last_place_one_is_made() {
    let house = Simulation::boot_configured(config()).await;
    let first = house.made("/v1/accounts", json!({"external_id": "first"})).await;
    let answers = join_all((0..50).map(|number| {
        let house = &house;
        async move { house.post("/v1/accounts", json!({"external_id": format!("race {number}")})).await }
    }))
    .await;
    winner(&answers, 201, "max_clients", 2);
    assert_eq!(house.get("/clients").await.body["clients"].as_array().map(Vec::len), Some(2));
    let workspaces = house.get("/workspaces").await.body;
    assert_eq!(workspaces["workspaces"].as_array().map(Vec::len), Some(2), "the others left nothing");
    // A removed one that used nothing leaves no row either.
    let path = format!("/clients/{}", id_of(&first));
    assert_eq!(house.delete(&path).await.status, 200);
    assert_eq!(house.get(&format!("{path}/usage")).await.status, 404);
    house.made("/v1/accounts", json!({"external_id": "first"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_s_keys_are_not_its_operator_s() {
    let house = Simulation::boot_configured(config()).await;
    let client = house.made("/v1/accounts", json!({"external_id": "acme"})).await;
    let key = client["key"].as_str().expect("a key");
    let mint = || {
        let body = json!({"name": "more", "workspace_id": client["workspace_id"]});
        answered(house.request_with(key, Method::POST, "/keys").json(&body))
    };
    for _ in 1..MAX_CLIENT_KEYS {
        let made = mint().await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    let refused = mint().await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("KEY_LIMIT")), "{}", refused.body);
    house.made("/keys", json!({"name": "the operator's"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_and_invitations_of_a_workspace_are_bounded_together() {
    let house = Simulation::boot_configured(config()).await;
    let home = house.workspace("home").await;
    let invite = async |email: String| {
        let body = json!({"email": email, "permission": "viewer"});
        house.post(&format!("/workspaces/{home}/invite"), body).await
    };
    let (member, _) = house.account("member@example.org").await;
    let store = house.store().await;
    store.set_member(home.parse().expect("an id"), member, Role::Member).await.expect("a member");
    let answers = join_all((0..50).map(|number| invite(format!("{number}@example.org")))).await;
    winner(&answers, 200, "max_people", 2);
    let listed = house.get(&format!("/workspaces/{home}/members")).await.body;
    let asked = listed["invites"][0]["email"].as_str().expect("an address").to_owned();
    assert_eq!(invite(asked).await.status, 200, "another in the place of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_invitations_makes_no_more_accounts_than_its_beginning_may() {
    let house = Simulation::boot_configured(config()).await;
    let home = house.workspace("home").await;
    let link = |invited: &Value| invited["token"].as_str().expect("a token").to_owned();
    let mut tokens = Vec::new();
    for email in ["ada@x.example", "bob@x.example"] {
        let body = json!({"email": email, "permission": "admin"});
        let invited = house.post(&format!("/workspaces/{home}/invite"), body).await;
        assert_eq!(invited.status, 200, "{}", invited.body);
        tokens.push(link(&invited.body));
    }
    let come = async |token: &str| {
        let browser = Browser::new(&house.base);
        let fields = [("token", token), ("full_name", "N"), ("password", "a long enough one")];
        browser.send("/invitation/account", &fields).await
    };
    let first = come(&tokens[0]).await;
    assert_eq!(first.status, 303, "{}", first.text);
    let second = come(&tokens[1]).await;
    assert_eq!(second.status, 403, "{}", second.text);
    let store = house.store().await;
    assert!(store.account_of("bob@x.example").await.expect("the store").is_none(), "nothing of it is left");
    // Who came invites into a workspace of its own: that counts where the chain begins.
    let ada: AccountId = store.account_of("ada@x.example").await.expect("the store").expect("she came").id;
    let key = house.key_of(ada, None).await;
    let own =
        answered(house.request_with(&key, Method::POST, "/workspaces").json(&json!({"name": "own"}))).await;
    let body = json!({"email": "cy@x.example", "permission": "admin"});
    let path = format!("/workspaces/{}/invite", id_of(&own.body));
    let invite =
        async |body: &Value| answered(house.request_with(&key, Method::POST, &path).json(body)).await;
    let refused = invite(&body).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("PLAN_LIMIT")), "{}", refused.body);
    assert_eq!(refused.body["max_brought_accounts"], 1, "{}", refused.body);
    // Who has an account does not come by it.
    house.account("cy@x.example").await;
    let invited = invite(&body).await;
    assert_eq!(invited.status, 200, "{}", invited.body);
}

async fn upload(house: &Simulation, workspace: &str, name: String) -> Answered {
    let form =
        Form::new().text("projectId", workspace.to_owned()).part("file", Part::text("hi").file_name(name));
    answered(house.request(Method::POST, "/files/upload").multipart(form)).await
}

/// Blobs that lie in the data folder.
fn blobs(house: &Simulation) -> usize {
    names_in(&house.store_file().with_file_name("blobs/files")).len()
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_uploads_for_the_last_place_one_is_stored() {
    let house = Simulation::boot_configured(config()).await;
    let (home, away) = (house.workspace("home").await, house.workspace("away").await);
    for name in ["one", "two"] {
        assert_eq!(upload(&house, &home, name.to_owned()).await.status, 200);
    }
    // The place is the account's, whichever workspace it is for.
    let answers = join_all((0..50).map(|number| {
        let workspace = if number % 2 == 0 { &home } else { &away };
        upload(&house, workspace, format!("race {number}"))
    }))
    .await;
    // An account stores so many at once and no more: those come again.
    let tried: Vec<Answered> = answers.into_iter().filter(|answer| answer.status != 429).collect();
    let won = winner(&tried, 200, "max_files", 3);
    assert_eq!(blobs(&house), 3, "the others left no bytes");
    let file = won.body["file"]["id"].as_str().expect("an id");
    assert_eq!(house.delete(&format!("/files/delete?id={file}")).await.status, 200);
    // One byte of the GB is left.
    house.sql(&format!("UPDATE files SET size_bytes = {} WHERE filename = 'one'", (1 << 30) - 3)).await;
    let full = upload(&house, &home, "two bytes".to_owned()).await;
    assert_eq!((full.status, &full.body["code"]), (403, &json!("PLAN_LIMIT")), "{}", full.body);
    assert_eq!((&full.body["max_files_gb"], blobs(&house)), (&json!(1), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_of_a_hundred_sign_ins_makes_room() {
    let house = Simulation::boot().await;
    let (account, _) = house.account("often@example.org").await;
    let store = house.store().await;
    for number in 0..101 {
        store.add_session(account, &format!("digest {number}"), i64::MAX).await.expect("a session");
        // Each a moment after the one before.
        house.sql("UPDATE sessions SET created_at = created_at - 1").await;
    }
    let is_there =
        async |number: u32| store.session(&format!("digest {number}")).await.expect("read").is_some();
    assert_eq!([is_there(0).await, is_there(1).await, is_there(100).await], [false, true, true]);
}
