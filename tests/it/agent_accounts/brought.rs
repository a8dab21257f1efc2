//! Invitations by a person whom an agent invited, after the agent's account is gone.

use std::time::Duration;

use hotdesk::base::clock;
use hotdesk::controller::config::{Config, PlanSettings};
use hotdesk::controller::identity::auth::keys;
use hotdesk::domain::identity::access::Role;
use hotdesk::domain::identity::email::Email;
use hotdesk::store::identity::invitations::NewInvitation;
use hotdesk::store::identity::people::Account;
use hotdesk::store::identity::takeover::TakeoverSelection;
use reqwest::Method;
use serde_json::json;

use super::claim::Scene;
use super::config;
use crate::harness::agent::fetch_json;

#[tokio::test(flavor = "multi_thread")]
async fn whom_an_agent_brought_invites_when_the_agent_is_gone() {
    // This plan allows invitations to new accounts.
    let plans = [("agent".to_owned(), PlanSettings::default())].into();
    let settings = Config { plans, ..config() };
    let scene = Scene::with_config(settings.clone()).await;
    let (store, plans) = (scene.controller.store().await, settings.plans());
    let [first, second] = [&scene.first, &scene.second].map(|id| id.parse().expect("an id"));
    let agent =
        store.key_owner(&keys::digest(&scene.key)).await.expect("a query result").expect("a holder").account;
    // Directly in the store, because the API refuses invitations by agents' accounts.
    let email = Email::parse("human@example.org").expect("an address");
    let invitation = NewInvitation {
        workspace: first,
        email: &email,
        role: Role::Admin,
        inviter: agent,
        digest: "human",
        created_at: clock::now(),
        expires_at: clock::now().plus(Duration::from_secs(3600)),
    };
    store.invite(&invitation, &plans).await.expect("an invitation");
    let human = Account::person(&email, "", None);
    assert_eq!(
        store.accept_invitation_with_new_account("human", &human, &plans).await.expect("the account joins"),
        Some(first)
    );
    let mut choice = TakeoverSelection { workspaces: vec![first, second], ..TakeoverSelection::default() };
    choice.computers.insert(scene.computer.parse().expect("an id"));
    store
        .take_over(&keys::digest(&scene.code), human.id, &choice, &plans)
        .await
        .expect("the workspace is taken over");
    store.begin_agent_removal(agent).await.expect("the removal begins");
    store.finish_agent_removal(agent).await.expect("the removal ends");
    assert!(store.account(agent).await.expect("a query result").is_none());

    let key = scene.controller.key_of(human.id, None).await;
    let path = format!("/workspaces/{}/invite", scene.first);
    let body = json!({"email": "third@example.org", "permission": "member"});
    let invited = fetch_json(scene.controller.request_with(&key, Method::POST, &path).json(&body)).await;
    assert_eq!(invited.status, 200, "{}", invited.body);
    let token = keys::digest(invited.body["token"].as_str().expect("a token"));
    let third = Account::person(&Email::parse("third@example.org").expect("an address"), "", None);
    assert_eq!(
        store.accept_invitation_with_new_account(&token, &third, &plans).await.expect("the account joins"),
        Some(first)
    );
}
