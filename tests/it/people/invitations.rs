//! Invitations: they admit the invited address only, once, until they expire. docs/api/workspaces.md, T29
//! (docs/security.md).

use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::members::add_member;
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, PASSWORD, person};
use crate::harness::simulation::Simulation;

async fn invite(controller: &Simulation, workspace: &str, email: &str, role: &str) -> Value {
    let path = format!("/workspaces/{workspace}/invite");
    let answer = controller.request(Method::POST, &path).json(&json!({"email": email, "permission": role}));
    let answer = answer.send().await.expect("an answer");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    assert_eq!(answer.status(), 200);
    answer.json().await.expect("JSON")
}

/// Path and query of the invitation link.
fn link(invited: &Value) -> String {
    let url = invited["url"].as_str().expect("a link");
    url.split_once("/invitation")
        .map(|(_, query)| format!("/invitation{query}"))
        .expect("the invitation page")
}

async fn people(controller: &Simulation, workspace: &str) -> Value {
    controller.get(&format!("/workspaces/{workspace}/members")).await.body
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_an_account_joins_by_the_link_once() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home <b>").await;
    let store = controller.store().await;
    person(&store, "ada@x.example").await;
    person(&store, "eve@x.example").await;
    let invited = invite(&controller, &home, " Ada@X.example ", "viewer").await;
    assert_eq!(
        (&invited["invite"]["email"], &invited["invite"]["role"]),
        (&json!("ada@x.example"), &json!("viewer"))
    );
    let listed = people(&controller, &home).await;
    assert_eq!(listed["invites"][0]["status"], "pending", "{listed}");
    let token = invited["token"].as_str().expect("a token");
    assert!(!listed.to_string().contains(token), "the link is shown only once");
    assert!(invited["url"].as_str().expect("a link").ends_with(token));

    // Without a session, the page leads to the sign-in and back.
    let open = Browser::new(&controller.base).get(&link(&invited)).await;
    assert!(
        open.text.contains("/sign-in?next=%2Finvitation%3Ftoken%3D") && open.text.contains("home &lt;b&gt;")
    );
    assert!(
        open.headers["content-security-policy"].to_str().expect("text").contains("frame-ancestors 'none'")
    );
    // Another account cannot use the link or its form.
    let eve = Browser::signed_in(&controller.base, "eve@x.example").await;
    assert!(eve.get(&link(&invited)).await.text.contains("another address"));
    assert_eq!(eve.post("/invitation", &[("token", token)]).await.status, 403);
    let ada = Browser::signed_in(&controller.base, "ada@x.example").await;
    // Opening the link does not join, nor does a form without the CSRF token.
    assert_eq!(ada.get(&link(&invited)).await.status, 200);
    assert_eq!(ada.send("/invitation", &[("token", token)]).await.status, 403);
    assert_eq!(people(&controller, &home).await["members"].as_array().map(Vec::len), Some(1));
    let joined = ada.post("/invitation", &[("token", token)]).await;
    assert_eq!((joined.status, joined.location()), (303, &*format!("/settings/workspaces/{home}")));
    let listed = people(&controller, &home).await;
    assert_eq!((&listed["members"][1]["role"], &listed["invites"]), (&json!("viewer"), &json!([])));
    assert_eq!(ada.post("/invitation", &[("token", token)]).await.status, 404);
    assert_eq!(ada.get(&link(&invited)).await.status, 404);
    let again = json!({"email": "ada@x.example", "permission": "admin"});
    let again = controller.post(&format!("/workspaces/{home}/invite"), again).await;
    assert_eq!((again.status, &again.body["code"]), (409, &json!("ALREADY_MEMBER")));
    let dump = std::fs::read(controller.store_file()).expect("the store");
    let log = std::fs::read(controller.store_file().with_extension("db-wal")).unwrap_or_default();
    let contains_token = |bytes: &[u8]| bytes.windows(token.len()).any(|window| window == token.as_bytes());
    assert!(
        !contains_token(&dump) && !contains_token(&log),
        "the store must only have the digest of the token"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_none_makes_an_account_there() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let invited = invite(&controller, &home, "new@x.example", "member").await;
    let token = invited["token"].as_str().expect("a token");
    let mut browser = Browser::new(&controller.base);
    let open = browser.get(&link(&invited)).await;
    assert!(open.text.contains("value=\"new@x.example\"") && open.text.contains("/invitation/account"));
    let form = |token: &str, password: &str| {
        [("token", token.to_owned()), ("full_name", "N".to_owned()), ("password", password.to_owned())]
    };
    let send = async |token: &str, password: &str| {
        let form = form(token, password);
        let fields: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        browser.send("/invitation/account", &fields).await
    };
    assert_eq!(send("guess", PASSWORD).await.status, 404);
    assert_eq!(send(token, "short").await.status, 400);
    // Of several simultaneous attempts, one creates the account.
    let all = futures_util::future::join_all((0..4).map(|_| send(token, PASSWORD))).await;
    let mut entered: Vec<_> = all.into_iter().filter(|page| page.status == 303).collect();
    assert_eq!(entered.len(), 1);
    browser.adopt_session(&entered.remove(0)).await;
    assert!(browser.get("/settings").await.text.contains("new@x.example"));
    assert!(browser.get(&format!("/settings/workspaces/{home}")).await.text.contains("Leave"));
    assert_eq!(people(&controller, &home).await["members"][1]["full_name"], "N");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_ends_replaced_taken_back_with_its_time_and_with_its_inviter() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let path = format!("/workspaces/{home}/invite");
    let browser = Browser::new(&controller.base);
    let link_status = async |invited: &Value| browser.get(&link(invited)).await.status;
    let first = invite(&controller, &home, "ada@x.example", "viewer").await;
    let second = invite(&controller, &home, "ada@x.example", "admin").await;
    assert_eq!((link_status(&first).await, link_status(&second).await), (404, 200));
    assert_eq!(people(&controller, &home).await["invites"].as_array().map(Vec::len), Some(1));
    let withdraw = async |email: &str| {
        fetch_json(controller.request(Method::DELETE, &path).json(&json!({ "email": email }))).await
    };
    assert_eq!(withdraw("ADA@x.example").await.body, json!({"success": true}));
    assert_eq!((withdraw("ada@x.example").await.status, link_status(&second).await), (404, 404));
    let third = invite(&controller, &home, "ada@x.example", "member").await;
    controller.sql("UPDATE invitations SET expires_at = 1").await;
    assert_eq!(link_status(&third).await, 404);
    assert_eq!(people(&controller, &home).await["invites"][0]["expired"], true);

    let (admin, admin_id) = add_member(&controller, "admin@x.example", &home, Some(Role::Admin)).await;
    let by_admin = admin.post(&path, json!({"email": "bob@x.example", "permission": "viewer"})).await.body;
    assert_eq!(link_status(&by_admin).await, 200);
    let (member, _) = add_member(&controller, "member@x.example", &home, Some(Role::Member)).await;
    let (viewer, _) = add_member(&controller, "viewer@x.example", &home, Some(Role::Viewer)).await;
    for (who, code) in [(&member, json!(null)), (&viewer, json!("workspace_read_only"))] {
        let refused = who.post(&path, json!({"email": "x@x.example", "permission": "viewer"})).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &code));
        let shown = who.get(&format!("/workspaces/{home}/members")).await.body;
        assert_eq!(shown["invites"], json!([]), "only members who may invite see invitations");
    }
    let removed = controller.request(Method::DELETE, &format!("/workspaces/{home}/members"));
    assert_eq!(fetch_json(removed.json(&json!({ "memberId": admin_id }))).await.status, 200);
    assert_eq!(link_status(&by_admin).await, 404, "an invitation ends with its inviter's membership");
    for (email, permission) in [("ada", "viewer"), ("a b@x", "viewer"), ("a@x", "owner"), ("", "admin")] {
        let bad = controller.post(&path, json!({"email": email, "permission": permission})).await;
        assert_eq!(bad.status, 400, "{email} {permission}: {}", bad.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_workspace_does_what_the_api_does() {
    let controller = Simulation::boot().await;
    let store = controller.store().await;
    let home = controller.workspace("home").await;
    let admin = person(&store, "admin@x.example").await;
    let bob = person(&store, "bob@x.example").await;
    let id = home.parse().expect("an id");
    store.set_member(id, admin.id, Role::Admin).await.expect("a member");
    store.set_member(id, bob.id, Role::Viewer).await.expect("a member");
    let page = format!("/settings/workspaces/{home}");
    let browser = Browser::signed_in(&controller.base, "admin@x.example").await;
    assert!(browser.get("/settings/workspaces").await.text.contains(&page));
    let invited =
        browser.post(&format!("{page}/invite"), &[("email", "new@x.example"), ("role", "member")]).await;
    assert!(
        invited.text.contains("/invitation?token=") && invited.text.contains("shown this once"),
        "{}",
        invited.text
    );
    assert!(!browser.get(&page).await.text.contains("/invitation?token="));
    assert_eq!(browser.post(&format!("{page}/uninvite"), &[("email", "new@x.example")]).await.status, 303);
    let bob_id = bob.id.to_string();
    let given = browser.post(&format!("{page}/role"), &[("member", &bob_id), ("role", "member")]).await;
    assert_eq!((given.status, given.location()), (303, &*page));
    let listed = people(&controller, &home).await;
    let seen = listed["members"].as_array().expect("members").iter().find(|it| it["id"] == *bob_id);
    assert_eq!(seen.expect("bob")["role"], "member");
    assert_eq!(browser.post(&format!("{page}/remove"), &[("member", &bob_id)]).await.status, 303);
    let left = browser.post(&format!("{page}/remove"), &[("member", &admin.id.to_string())]).await;
    assert_eq!(left.location(), "/settings/workspaces");
    assert_eq!(browser.get(&page).await.status, 403);
    assert_eq!(people(&controller, &home).await["members"].as_array().map(Vec::len), Some(1));
}
