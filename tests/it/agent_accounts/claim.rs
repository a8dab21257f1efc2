//! Claim of an agent's account: choice of its contents, single use, and no further access.

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::clock;
use hotdesk::base::ids::{AccountId, WorkspaceId};
use hotdesk::controller::config::{Config, Limits};
use hotdesk::controller::identity::auth::keys;
use hotdesk::domain::identity::access::Role;
use hotdesk::domain::identity::email::Email;
use hotdesk::store::Store;
use hotdesk::store::identity::accounts::NewKey;
use hotdesk::store::identity::invitations::NewInvitation;
use reqwest::Method;
use reqwest::redirect::Policy;
use serde_json::{Value, json};

use super::{config, create_agent, sign_in};
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::id_of;
use crate::harness::client_builder;
use crate::harness::simulation::Simulation;

/// An agent with two workspaces and a computer in the first, and a person with a signed-in browser.
pub struct Scene {
    pub controller: Simulation,
    pub key: String,
    pub first: String,
    pub second: String,
    pub computer: String,
    pub code: String,
    pub person: AccountId,
    pub person_key: String,
    cookie: String,
}

pub struct Page {
    pub status: u16,
    pub text: String,
}

impl Scene {
    pub async fn new() -> Self {
        Self::with_config(config()).await
    }

    pub async fn with_config(config: Config) -> Self {
        let controller = Simulation::boot_configured(config).await;
        let (created, key) = create_agent(&controller).await;
        let make = |path: &'static str, body: Value| {
            fetch_json(controller.request_with(&key, Method::POST, path).json(&body))
        };
        let first = id_of(&make("/workspaces", json!({"name": "work"})).await.body);
        let second = id_of(&make("/workspaces", json!({"name": "play"})).await.body);
        let computer = id_of(&make("/computers", json!({"workspace_id": first, "name": "desk"})).await.body);
        let code =
            created["claim_url"].as_str().expect("a link").rsplit('/').next().expect("a code").to_owned();
        let (person, person_key) = controller.account("person@example.org").await;
        let cookie = sign_in(&controller, person).await;
        Self { controller, key, first, second, computer, code, person, person_key, cookie }
    }

    async fn page(
        &self,
        method: Method,
        cookie: Option<&str>,
        code: &str,
        form: &[(String, String)],
    ) -> Page {
        let client = client_builder().redirect(Policy::none()).build().expect("a client");
        let mut request = client.request(method.clone(), format!("{}/claim/{code}", self.controller.base));
        if let Some(cookie) = cookie {
            request = request.header("cookie", cookie);
        }
        if method == Method::POST {
            let body = serde_urlencoded::to_string(form).expect("a form");
            request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        }
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        if let Some(to) = response.headers().get("location") {
            return Page { status, text: to.to_str().expect("text").to_owned() };
        }
        let policy = response.headers()["content-security-policy"].to_str().expect("text").to_owned();
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        Page { status, text: response.text().await.expect("text") }
    }

    pub async fn get_page(&self) -> Page {
        self.page(Method::GET, Some(&self.cookie), &self.code, &[]).await
    }

    /// The CSRF token of the page's form.
    async fn csrf(&self, cookie: &str) -> String {
        let page = self.page(Method::GET, Some(cookie), &self.code, &[]).await;
        let (_, remainder) =
            page.text.split_once("name=\"csrf\" value=\"").unwrap_or_else(|| panic!("{}", page.text));
        remainder.split('"').next().expect("a value").to_owned()
    }

    /// The id of the agent's key.
    pub async fn key_id(&self) -> String {
        let page = self.get_page().await.text;
        let (_, remainder) = page.split_once("name=\"key.").unwrap_or_else(|| panic!("{page}"));
        remainder.split('"').next().expect("an id").to_owned()
    }

    /// Form fields that take over the first workspace with its computer and let the agent's key keep its
    /// access to it.
    pub async fn form(&self) -> Vec<(String, String)> {
        let csrf = self.csrf(&self.cookie).await;
        let key = self.key_id().await;
        vec![
            ("csrf".to_owned(), csrf),
            (format!("workspace.{}", self.first), "take".to_owned()),
            (format!("key.{key}"), self.first.clone()),
            (format!("computer.{}", self.computer), "take".to_owned()),
        ]
    }

    pub async fn submit(&self, form: &[(String, String)]) -> Page {
        self.page(Method::POST, Some(&self.cookie), &self.code, form).await
    }

    pub async fn request(&self, key: &str, method: Method, path: &str) -> HttpAnswer {
        fetch_json(self.controller.request_with(key, method, path)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_person_sees_what_there_is_and_takes_what_it_chooses() {
    let mut scene = Scene::new().await;
    let unknown = scene.page(Method::GET, None, &scene.code, &[]).await;
    assert_eq!(unknown.status, 303);
    assert!(unknown.text.starts_with("/sign-in?next=%2Fclaim%2F"), "{}", unknown.text);
    let page = scene.get_page().await;
    assert_eq!(page.status, 200);
    for part in [
        "research &lt;agent&gt;",
        "work",
        "play",
        "desk (running, 1 vCPU, 4 GB RAM, 8 GB disk)",
        "agent's first key",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert!(!page.text.contains(&scene.key) && !page.text.contains("<agent>"));
    assert_eq!(scene.get_page().await.status, 200, "viewing the page must not use up the link");

    // The person already has a workspace of that name.
    let own_workspace = scene
        .controller
        .request_with(&scene.person_key, Method::POST, "/workspaces")
        .json(&json!({"name": "Work"}));
    let own_workspace = id_of(&fetch_json(own_workspace).await.body);
    let form = scene.form().await;
    let taken = scene.submit(&form).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let listed = scene.request(&scene.person_key, Method::GET, "/workspaces").await.body;
    let mut names: Vec<&str> = listed["workspaces"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| it["name"].as_str().expect("a name"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["Work", "work (agent)"]);
    let path = format!("/computers/{}", scene.computer);
    let record = scene.request(&scene.person_key, Method::GET, &path).await;
    assert_eq!(
        (record.status, &record.body["user_id"]),
        (200, &json!(scene.person.to_string())),
        "{}",
        record.body
    );
    assert_eq!(record.body["status"], "running", "the computer must keep running");
    // The agent's key still reaches what was taken over and nothing else.
    assert_eq!(scene.request(&scene.key, Method::GET, &path).await.status, 200);
    let other_workspace =
        scene.request(&scene.key, Method::GET, &format!("/workspaces/{own_workspace}")).await;
    assert_eq!(
        (other_workspace.status, &other_workspace.body["code"]),
        (403, &json!("workspace_scope_mismatch")),
        "{}",
        other_workspace.body
    );
    assert_eq!(scene.request(&scene.key, Method::GET, "/account/capacity").await.status, 403);
    // The link is used up, and contents that were not chosen are removed.
    assert_eq!(scene.get_page().await.status, 404);
    assert_eq!(scene.submit(&form).await.status, 404);
    scene.controller.restart().await;
    let gone = hotdesk::base::wait::until(std::time::Duration::from_secs(20), || async {
        let path = format!("/workspaces/{}", scene.second);
        (scene.request(&scene.person_key, Method::GET, &path).await.status == 404).then_some(())
    });
    assert!(gone.await.is_some(), "contents that were not chosen must be removed");
    assert_eq!(scene.request(&scene.key, Method::GET, &path).await.status, 200);
}

/// Adds a key of an account that is scoped to one workspace.
pub async fn key_to(store: &Store, account: AccountId, workspace: WorkspaceId) -> String {
    let text = keys::generate();
    let key = NewKey {
        account,
        workspace: Some(workspace),
        name: "test",
        digest: &keys::digest(text.reveal()),
        last_four: keys::last_four(&text),
    };
    store.add_key(&key).await.expect("a key");
    text.reveal().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_nobody_else_stays_in_what_is_taken_over() {
    let scene = Scene::new().await;
    let store = scene.controller.store().await;
    let work: WorkspaceId = scene.first.parse().expect("an id");
    let (guest, guest_key) = scene.controller.account("guest@example.org").await;
    for (account, role) in [(guest, Role::Admin), (scene.person, Role::Member)] {
        store.set_member(work, account, role).await.expect("a member");
    }
    let guest_scoped = key_to(&store, guest, work).await;
    let own_scoped = key_to(&store, scene.person, work).await;
    scene.controller.account("asked@example.org").await;
    let email = Email::parse("asked@example.org").expect("an address");
    let invitation = NewInvitation {
        workspace: work,
        email: &email,
        role: Role::Admin,
        inviter: guest,
        digest: "asked",
        created_at: clock::now(),
        expires_at: clock::now().plus(Duration::from_secs(3600)),
    };
    let plans = hotdesk::controller::config::Config::default().plans();
    store.invite(&invitation, &plans).await.expect("an invitation");
    let path = format!("/computers/{}", scene.computer);
    for key in [&guest_key, &guest_scoped, &own_scoped] {
        assert_eq!(scene.request(key, Method::GET, &path).await.status, 200);
    }

    let taken = scene.submit(&scene.form().await).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    assert_eq!(store.members(work).await.expect("the store").len(), 1, "only its owner is a member");
    assert!(store.invitations(work).await.expect("the store").is_empty());
    assert!(store.invitation("asked").await.expect("the store").is_none());
    let left = store.keys_to(work).await.expect("the store");
    assert!(left.iter().all(|key| key.account == scene.person), "{left:?}");
    for (key, status) in [
        (&guest_key, 403),
        (&guest_scoped, 401),
        (&own_scoped, 200),
        (&scene.person_key, 200),
        (&scene.key, 200),
    ] {
        assert_eq!(scene.request(key, Method::GET, &path).await.status, status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_of_fifty_claims_at_once_one_counts() {
    let scene = Scene::new().await;
    let mut browsers = Vec::new();
    for number in 0..50 {
        let (person, key) = scene.controller.account(&format!("p{number}@example.org")).await;
        browsers.push((sign_in(&scene.controller, person).await, key));
    }
    let forms = join_all(browsers.iter().map(|(cookie, _)| async {
        vec![
            ("csrf".to_owned(), scene.csrf(cookie).await),
            (format!("workspace.{}", scene.first), "take".to_owned()),
            (format!("workspace.{}", scene.second), "take".to_owned()),
            (format!("computer.{}", scene.computer), "take".to_owned()),
        ]
    }))
    .await;
    let claims = browsers
        .iter()
        .zip(&forms)
        .map(|((cookie, _), form)| scene.page(Method::POST, Some(cookie), &scene.code, form));
    let pages = join_all(claims).await;
    let mut statuses: Vec<u16> = pages.iter().map(|page| page.status).collect();
    let winner = statuses.iter().position(|status| *status == 200).expect("one claim must win");
    statuses.remove(winner);
    assert!(statuses.iter().all(|status| *status == 404), "{statuses:?}");
    let path = format!("/computers/{}", scene.computer);
    for (at, (_, key)) in browsers.iter().enumerate() {
        let expected = if at == winner { 200 } else { 403 };
        assert_eq!(scene.request(key, Method::GET, &path).await.status, expected, "{at}");
    }
    // The form did not choose the agent's key.
    assert_eq!(scene.request(&scene.key, Method::GET, &path).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_claim_that_is_not_sound_changes_nothing() {
    let scene = Scene::new().await;
    let form = scene.form().await;
    let unsigned = scene.page(Method::POST, None, &scene.code, &form).await;
    assert_eq!(unsigned.status, 303, "a request without a session is redirected");
    let other = sign_in(&scene.controller, scene.person).await;
    let foreign = scene.page(Method::POST, Some(&other), &scene.code, &form).await;
    assert_eq!(foreign.status, 403, "the CSRF token belongs to another session");
    let other_workspace = scene.controller.workspace("operator's").await;
    let (csrf, take) = (form[0].clone(), "take".to_owned());
    for (bad, status) in [
        (vec![form[1].clone()], 403),
        (vec![csrf.clone(), (format!("workspace.{other_workspace}"), take.clone())], 400),
        (vec![csrf.clone(), ("workspace.all".to_owned(), take.clone())], 400),
        // A key for contents that are not taken over, for another account's workspace, and an id that is no
        // key of the agent.
        (vec![csrf.clone(), form[2].clone()], 400),
        (vec![csrf.clone(), form[1].clone(), (form[2].0.clone(), other_workspace.clone())], 400),
        (vec![csrf.clone(), form[1].clone(), (format!("key.{other_workspace}"), scene.first.clone())], 400),
    ] {
        let page = scene.submit(&bad).await;
        assert_eq!(page.status, status, "{bad:?}: {}", page.text);
    }
    let wrong = scene.page(Method::POST, Some(&scene.cookie), &"x".repeat(43), &form).await;
    assert_eq!(wrong.status, 404);
    assert_eq!(
        scene.request(&scene.key, Method::GET, &format!("/workspaces/{}", scene.first)).await.status,
        200
    );
    assert_eq!(scene.submit(&form).await.status, 200, "refused claims must leave everything in place");
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_claims_are_no_way_around_a_plan() {
    let limits = Limits { max_computers: 1, ..Limits::default() };
    let scene = Scene::with_config(Config { limits, ..config() }).await;
    let make = |path: &'static str, body: Value| {
        fetch_json(scene.controller.request_with(&scene.person_key, Method::POST, path).json(&body))
    };
    let own = id_of(&make("/workspaces", json!({"name": "own"})).await.body);
    let record = make("/computers", json!({"workspace_id": own, "name": "own"})).await;
    let form = scene.form().await;
    let refused = scene.submit(&form).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.text.contains("Your plan has no room for it: 2 computers"), "{}", refused.text);
    assert_eq!(
        scene.request(&scene.key, Method::GET, &format!("/computers/{}", scene.computer)).await.status,
        200
    );
    let path = format!("/computers/{}", id_of(&record.body));
    assert_eq!(scene.request(&scene.person_key, Method::DELETE, &path).await.status, 200);
    assert_eq!(scene.submit(&form).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_link_is_revoked_or_replaced_by_its_agent() {
    let mut scene = Scene::new().await;
    let link = "/agent-accounts/claim-link";
    let created = scene.request(&scene.key, Method::POST, link).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(scene.get_page().await.status, 404, "the previous link must be invalid");
    let code =
        created.body["claim_url"].as_str().expect("a link").rsplit('/').next().expect("a code").to_owned();
    scene.code = code;
    assert_eq!(scene.get_page().await.status, 200);
    assert_eq!(scene.request(&scene.key, Method::DELETE, link).await.status, 200);
    assert_eq!(scene.get_page().await.status, 404);
    assert_eq!(scene.request(&scene.key, Method::GET, link).await.body["claimable"], false);
    // A person's account has no claim link.
    for method in [Method::GET, Method::POST, Method::DELETE] {
        assert_eq!(scene.request(&scene.person_key, method, link).await.status, 404);
    }
}
