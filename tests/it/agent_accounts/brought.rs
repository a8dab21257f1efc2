//! May a person whom an agent has brought invite others when the agent's account is gone?

use hotdesk::base::clock::now_ms;
use hotdesk::controller::auth::keys;
use hotdesk::controller::config::{Config, PlanSettings};
use hotdesk::domain::access::Role;
use hotdesk::domain::email::Email;
use hotdesk::store::invitations::NewInvitation;
use hotdesk::store::people::Account;
use hotdesk::store::takeover::Choice;
use reqwest::Method;
use serde_json::json;

use super::claim::Scene;
use super::config;
use crate::harness::agent::answered;

#[tokio::test(flavor = "multi_thread")]
async fn whom_an_agent_brought_invites_when_the_agent_is_gone() {
    // A plan of agents by which accounts may come.
    let plans = [("agent".to_owned(), PlanSettings::default())].into();
    let settings = Config { plans, ..config() };
    let scene = Scene::set_with(settings.clone()).await;
    let (store, plans) = (scene.house.store().await, settings.plans());
    let [first, second] = [&scene.first, &scene.second].map(|id| id.parse().expect("an id"));
    let agent = store.holder(&keys::digest(&scene.key)).await.expect("a look").expect("a holder").account;
    // By its store: agents' accounts are refused before it.
    let email = Email::parse("human@example.org").expect("an address");
    let invitation = NewInvitation {
        workspace: first,
        email: &email,
        role: Role::Admin,
        inviter: agent,
        digest: "human",
        created_at: now_ms(),
        expires_at: now_ms() + 3_600_000,
    };
    store.invite(&invitation, &plans).await.expect("an invitation");
    let human = Account::person(&email, "", None);
    assert_eq!(store.join_anew("human", &human, &plans).await.expect("it joins"), Some(first));
    let mut choice = Choice { workspaces: vec![first, second], ..Choice::default() };
    choice.computers.insert(scene.computer.parse().expect("an id"));
    store.take_over(&keys::digest(&scene.code), human.id, &choice, &plans).await.expect("it is taken over");
    store.begin_agent_removal(agent).await.expect("it begins to go");
    store.finish_agent_removal(agent).await.expect("it goes");
    assert!(store.account(agent).await.expect("a look").is_none());

    let key = scene.house.key_of(human.id, None).await;
    let path = format!("/workspaces/{}/invite", scene.first);
    let body = json!({"email": "third@example.org", "permission": "member"});
    let invited = answered(scene.house.request_with(&key, Method::POST, &path).json(&body)).await;
    assert_eq!(invited.status, 200, "{}", invited.body);
    let token = keys::digest(invited.body["token"].as_str().expect("a token"));
    let third = Account::person(&Email::parse("third@example.org").expect("an address"), "", None);
    assert_eq!(store.join_anew(&token, &third, &plans).await.expect("it joins"), Some(first));
}
