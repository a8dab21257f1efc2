//! Agent accounts: creation by an AI agent, limits, claim by a person, and expiry (T29, docs/security.md).

mod brought;
mod claim;
mod expiry;
mod handed_over;
mod handed_over_room;
mod left_behind;
mod making;

use std::time::Duration;

use hotdesk::base::clock;
use hotdesk::base::ids::AccountId;
use hotdesk::base::secret::Secret;
use hotdesk::controller::config::{AgentAccounts, Config};
use hotdesk::controller::identity::auth::keys;
use hotdesk::store::identity::sign_in::sessions::NewSession;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;

/// A configuration in which agents make accounts.
pub fn config() -> Config {
    let agent_accounts = AgentAccounts { enabled: true, per_source_per_hour: 20, ..AgentAccounts::default() };
    Config { agent_accounts, ..Config::default() }
}

/// Requests an account without a key.
pub async fn request_account(controller: &Simulation, body: Value) -> HttpAnswer {
    fetch_json(controller.bare(Method::POST, "/api/agent-accounts").json(&body)).await
}

/// Creates an agent's account; returns its record and its key.
pub async fn create_agent(controller: &Simulation) -> (Value, String) {
    let created = request_account(controller, json!({"name": "research <agent>"})).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let key = created.body["key"].as_str().expect("a key").to_owned();
    (created.body, key)
}

/// Signs a person in; returns the cookie.
pub async fn sign_in(controller: &Simulation, person: AccountId) -> String {
    let cookie = Secret::random(43).reveal().to_owned();
    let store = controller.store().await;
    let (digest, expires_at) = (keys::digest(&cookie), clock::now().plus(Duration::from_secs(3600)));
    store.add_session(person, &NewSession::new(&digest, expires_at)).await.expect("a session");
    format!("hotdesk={cookie}")
}
