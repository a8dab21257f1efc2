//! Members of a workspace: management by role, and what members can access (docs/api/workspaces.md).

use hotdesk::base::ids::AccountId;
use hotdesk::controller::identity::auth::keys;
use hotdesk::domain::identity::access::Role;
use hotdesk::store::Store;
use hotdesk::store::identity::accounts::NewKey;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::browser::person;
use crate::harness::caller::{Caller, HttpAnswer};
use crate::harness::simulation::Simulation;

/// Adds an account with an account-wide key and, optionally, a role in a workspace. Returns its caller and
/// id.
pub async fn add_member(
    controller: &Simulation,
    email: &str,
    workspace: &str,
    role: Option<Role>,
) -> (Caller, String) {
    let store = controller.store().await;
    let account = person(&store, email).await.id;
    if let Some(role) = role {
        let workspace = workspace.parse().expect("an id");
        store.set_member(workspace, account, role).await.expect("a member");
    }
    (Caller::new(controller.base.clone(), "/api", wide_key(&store, account).await), account.to_string())
}

/// The text of a new account-wide key.
pub async fn wide_key(store: &Store, account: AccountId) -> String {
    let text = keys::generate();
    let digest = keys::digest(text.reveal());
    let key =
        NewKey { account, workspace: None, name: "test", digest: &digest, last_four: keys::last_four(&text) };
    store.add_key(&key).await.expect("a key");
    text.reveal().to_owned()
}

async fn with_body(who: &Caller, method: Method, path: &str, body: Value) -> HttpAnswer {
    fetch_json(who.request(method, path).json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn members_reach_the_workspace_and_are_told_what_they_are() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    controller.workspace("other").await;
    let desk = controller.computer(&home, "desk").await;
    let (member, _) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    let listed = member.get("/workspaces").await.body;
    assert_eq!(listed["workspaces"].as_array().map(Vec::len), Some(1), "{listed}");
    let seen = &listed["workspaces"][0];
    assert_eq!(
        (&seen["id"], &seen["role"], &seen["member_count"]),
        (&json!(home), &json!("member"), &json!(2))
    );
    assert_eq!(seen["desktops"][0]["id"], desk.as_str());
    assert_eq!(member.get("/workspaces/by-name/HOME").await.body["id"], home.as_str());
    let computers = member.get("/computers").await.body;
    assert_eq!((&computers["total"], &computers["computers"][0]["id"]), (&json!(1), &json!(desk)));
    assert!(member.get(&format!("/computers/{desk}")).await.body["vnc_password"].is_string());
    assert_eq!(member.post(&format!("/computers/{desk}/click"), json!({"x": 1, "y": 1})).await.status, 200);
    // To the owner it is their own workspace, with one more member.
    let own = controller.get(&format!("/workspaces/{home}")).await.body;
    assert_eq!((&own["role"], &own["member_count"]), (&json!("owner"), &json!(2)));

    // A name matches one's own workspace before another's.
    let mine = member.create("/workspaces", json!({"name": "Home"})).await;
    assert_eq!(member.get("/workspaces/by-name/home").await.body["id"], mine["id"]);
    // Only the owner may delete the workspace and move its computers.
    let away = json!({"workspace_id": mine["id"]});
    let moved = with_body(&member, Method::PATCH, &format!("/computers/{desk}/move"), away).await;
    assert_eq!(moved.status, 403, "{}", moved.body);
    assert_eq!(member.patch(&format!("/workspaces/{home}"), json!({"name": "x"})).await.status, 403);
    let (admin, _) = add_member(&controller, "a@x.example", &home, Some(Role::Admin)).await;
    assert_eq!(admin.patch(&format!("/workspaces/{home}"), json!({"name": "hall"})).await.status, 200);
    for (who, path) in [(&member, "/delete"), (&admin, "/delete")] {
        let refused = who.post(&format!("/workspaces/{home}{path}"), json!({})).await;
        assert_eq!(refused.status, 403, "{}", refused.body);
        assert!(refused.body["error"].as_str().expect("text").contains("its owner"), "{}", refused.body);
    }
    assert_eq!(controller.status(&desk).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn admins_manage_people_the_owner_stays_and_everybody_may_leave() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let path = format!("/workspaces/{home}/members");
    let (admin, admin_id) = add_member(&controller, "admin@x.example", &home, Some(Role::Admin)).await;
    let (member, member_id) = add_member(&controller, "member@x.example", &home, Some(Role::Member)).await;
    let (viewer, viewer_id) = add_member(&controller, "viewer@x.example", &home, Some(Role::Viewer)).await;
    let (stranger, stranger_id) = add_member(&controller, "stranger@x.example", &home, None).await;
    let owner_id = controller.get("/user/profile").await.body["id"].as_str().expect("an id").to_owned();

    let list = viewer.get(&path).await.body;
    let roles: Vec<_> =
        list["members"].as_array().expect("members").iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["owner", "admin", "member", "viewer"], "{list}");
    assert_eq!(list["members"][0]["id"], owner_id.as_str());
    assert_eq!(list["members"][3]["email"], "viewer@x.example");
    assert_eq!(stranger.get(&path).await.status, 403);

    for (who, whom, status) in [
        (&member, &viewer_id, 403),
        (&viewer, &member_id, 403),
        (&stranger, &member_id, 403),
        (&admin, &owner_id, 403),
        (&*controller, &owner_id, 403),
        (&admin, &stranger_id, 404),
        (&admin, &"nobody".to_owned(), 404),
        (&admin, &viewer_id, 200),
    ] {
        let changed = with_body(who, Method::PATCH, &path, json!({"memberId": whom, "role": "member"})).await;
        assert_eq!(changed.status, status, "{whom}: {}", changed.body);
    }
    assert_eq!(viewer.get(&path).await.body["members"][3]["role"], "member");
    for role in ["owner", "king", ""] {
        let refused =
            with_body(&controller, Method::PATCH, &path, json!({"memberId": viewer_id, "role": role})).await;
        assert_eq!(refused.status, 400, "{role}: {}", refused.body);
    }
    let back = json!({"memberId": viewer_id, "role": "viewer"});
    assert_eq!(with_body(&admin, Method::PATCH, &path, back).await.status, 200);

    // A member's keys to the workspace end with the membership.
    let store = controller.store().await;
    let scoped = keys::generate();
    let digest = keys::digest(scoped.reveal());
    let key = NewKey {
        account: member_id.parse().expect("an id"),
        workspace: Some(home.parse().expect("an id")),
        name: "scoped",
        digest: &digest,
        last_four: "",
    };
    store.add_key(&key).await.expect("a key");
    let narrow = Caller::new(controller.base.clone(), "/api", scoped.reveal().to_owned());
    let remove = |who: &Caller, whom: &str| {
        let (request, whom) = (who.request(Method::DELETE, &path), whom.to_owned());
        async move { fetch_json(request.json(&json!({ "memberId": whom }))).await }
    };
    assert_eq!(remove(&viewer, &member_id).await.body["code"], "workspace_read_only");
    // A14 (docs/authentication-rules.md): a key to one workspace cannot remove members, not even its own
    // account.
    let stays = remove(&narrow, &member_id).await;
    let code = &stays.body["code"];
    assert_eq!((stays.status, code), (403, &json!("workspace_scope_mismatch")), "{}", stays.body);
    assert_eq!(member.get(&format!("/workspaces/{home}")).await.status, 200);
    assert_eq!(remove(&member, &viewer_id).await.status, 403);
    assert_eq!(remove(&admin, &owner_id).await.status, 403);
    assert_eq!(remove(&controller, &owner_id).await.status, 403);
    assert_eq!(remove(&stranger, &stranger_id).await.status, 403);
    assert_eq!(remove(&admin, &member_id).await.status, 200);
    assert_eq!(remove(&admin, &member_id).await.status, 404);
    assert_eq!(member.get(&format!("/workspaces/{home}")).await.status, 403);
    assert_eq!(member.get("/computers").await.body["total"], 0);
    let by_scoped = controller.request_with(scoped.reveal(), Method::GET, "/workspaces");
    assert_eq!(fetch_json(by_scoped).await.status, 401);
    // A viewer may leave, too.
    assert_eq!(remove(&viewer, &viewer_id).await.body, json!({"success": true}));
    assert_eq!(remove(&admin, &admin_id).await.status, 200);
    assert_eq!(controller.get(&path).await.body["members"].as_array().map(Vec::len), Some(1));
}
