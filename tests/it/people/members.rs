//! Who may do what with the people of a workspace, and what do members reach? (wire.md 3)

use hotdesk::base::ids::AccountId;
use hotdesk::controller::auth::keys;
use hotdesk::domain::access::Role;
use hotdesk::store::Store;
use hotdesk::store::accounts::NewKey;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::answered;
use crate::harness::browser::person;
use crate::harness::caller::{Answered, Caller};
use crate::harness::simulation::Simulation;

/// Somebody with an account-wide key, who is something in a workspace.
pub async fn somebody(
    house: &Simulation,
    email: &str,
    workspace: &str,
    role: Option<Role>,
) -> (Caller, String) {
    let store = house.store().await;
    let account = person(&store, email).await.id;
    if let Some(role) = role {
        let workspace = workspace.parse().expect("an id");
        store.set_member(workspace, account, role).await.expect("a member");
    }
    (Caller::new(house.base.clone(), "/api", wide_key(&store, account).await), account.to_string())
}

/// An account-wide key of somebody: its text.
pub async fn wide_key(store: &Store, account: AccountId) -> String {
    let text = keys::fresh();
    let digest = keys::digest(text.reveal());
    let key =
        NewKey { account, workspace: None, name: "test", digest: &digest, last_four: keys::last_four(&text) };
    store.add_key(&key).await.expect("a key");
    text.reveal().to_owned()
}

async fn with_body(who: &Caller, method: Method, path: &str, body: Value) -> Answered {
    answered(who.request(method, path).json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn members_reach_the_workspace_and_are_told_what_they_are() {
    let house = Simulation::boot().await;
    let home = house.workspace("home").await;
    house.workspace("other").await;
    let desk = house.computer(&home, "desk").await;
    let (member, _) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
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
    // To the owner it is the owner's, with one more who belongs to it.
    let own = house.get(&format!("/workspaces/{home}")).await.body;
    assert_eq!((&own["role"], &own["member_count"]), (&json!("owner"), &json!(2)));

    // A name of one's own goes before another's.
    let mine = member.made("/workspaces", json!({"name": "Home"})).await;
    assert_eq!(member.get("/workspaces/by-name/home").await.body["id"], mine["id"]);
    // What is the owner's stays: the workspace, and what is in it.
    let away = json!({"workspace_id": mine["id"]});
    let moved = with_body(&member, Method::PATCH, &format!("/computers/{desk}/move"), away).await;
    assert_eq!(moved.status, 403, "{}", moved.body);
    assert_eq!(member.patch(&format!("/workspaces/{home}"), json!({"name": "x"})).await.status, 403);
    let (admin, _) = somebody(&house, "a@x.example", &home, Some(Role::Admin)).await;
    assert_eq!(admin.patch(&format!("/workspaces/{home}"), json!({"name": "hall"})).await.status, 200);
    for (who, path) in [(&member, "/delete"), (&admin, "/delete")] {
        let refused = who.post(&format!("/workspaces/{home}{path}"), json!({})).await;
        assert_eq!(refused.status, 403, "{}", refused.body);
        assert!(refused.body["error"].as_str().expect("text").contains("its owner"), "{}", refused.body);
    }
    assert_eq!(house.status(&desk).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn admins_manage_people_the_owner_stays_and_everybody_may_leave() {
    let house = Simulation::boot().await;
    let home = house.workspace("home").await;
    let path = format!("/workspaces/{home}/members");
    let (admin, admin_id) = somebody(&house, "admin@x.example", &home, Some(Role::Admin)).await;
    let (member, member_id) = somebody(&house, "member@x.example", &home, Some(Role::Member)).await;
    let (viewer, viewer_id) = somebody(&house, "viewer@x.example", &home, Some(Role::Viewer)).await;
    let (stranger, stranger_id) = somebody(&house, "stranger@x.example", &home, None).await;
    let owner_id = house.get("/user/profile").await.body["id"].as_str().expect("an id").to_owned();

    let list = viewer.get(&path).await.body;
    let told: Vec<_> =
        list["members"].as_array().expect("members").iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(told, ["owner", "admin", "member", "viewer"], "{list}");
    assert_eq!(list["members"][0]["id"], owner_id.as_str());
    assert_eq!(list["members"][3]["email"], "viewer@x.example");
    assert_eq!(stranger.get(&path).await.status, 403);

    for (who, whom, status) in [
        (&member, &viewer_id, 403),
        (&viewer, &member_id, 403),
        (&stranger, &member_id, 403),
        (&admin, &owner_id, 403),
        (&*house, &owner_id, 403),
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
            with_body(&house, Method::PATCH, &path, json!({"memberId": viewer_id, "role": role})).await;
        assert_eq!(refused.status, 400, "{role}: {}", refused.body);
    }
    let back = json!({"memberId": viewer_id, "role": "viewer"});
    assert_eq!(with_body(&admin, Method::PATCH, &path, back).await.status, 200);

    // What a member has of the workspace goes with them.
    let store = house.store().await;
    let scoped = keys::fresh();
    let digest = keys::digest(scoped.reveal());
    let key = NewKey {
        account: member_id.parse().expect("an id"),
        workspace: Some(home.parse().expect("an id")),
        name: "scoped",
        digest: &digest,
        last_four: "",
    };
    store.add_key(&key).await.expect("a key");
    let narrow = Caller::new(house.base.clone(), "/api", scoped.reveal().to_owned());
    let remove = |who: &Caller, whom: &str| {
        let (request, whom) = (who.request(Method::DELETE, &path), whom.to_owned());
        async move { answered(request.json(&json!({ "memberId": whom }))).await }
    };
    assert_eq!(remove(&viewer, &member_id).await.body["code"], "workspace_read_only");
    // A key to one workspace takes nobody out of it, its own account neither (access.md A14).
    let stays = remove(&narrow, &member_id).await;
    let code = &stays.body["code"];
    assert_eq!((stays.status, code), (403, &json!("workspace_scope_mismatch")), "{}", stays.body);
    assert_eq!(member.get(&format!("/workspaces/{home}")).await.status, 200);
    assert_eq!(remove(&member, &viewer_id).await.status, 403);
    assert_eq!(remove(&admin, &owner_id).await.status, 403);
    assert_eq!(remove(&house, &owner_id).await.status, 403);
    assert_eq!(remove(&stranger, &stranger_id).await.status, 403);
    assert_eq!(remove(&admin, &member_id).await.status, 200);
    assert_eq!(remove(&admin, &member_id).await.status, 404);
    assert_eq!(member.get(&format!("/workspaces/{home}")).await.status, 403);
    assert_eq!(member.get("/computers").await.body["total"], 0);
    let by_scoped = house.request_with(scoped.reveal(), Method::GET, "/workspaces");
    assert_eq!(answered(by_scoped).await.status, 401);
    // Whoever only looks may leave too.
    assert_eq!(remove(&viewer, &viewer_id).await.body, json!({"success": true}));
    assert_eq!(remove(&admin, &admin_id).await.status, 200);
    assert_eq!(house.get(&path).await.body["members"].as_array().map(Vec::len), Some(1));
}
