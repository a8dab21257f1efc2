//! Does an AI agent make an account for itself, within bounds, that a person takes over once? (threats.md T29)

mod brought;
mod claim;
mod expiry;
mod handed_over;
mod handed_over_room;
mod left_behind;
mod making;

use hotdesk::base::clock::now_ms;
use hotdesk::base::ids::AccountId;
use hotdesk::base::secret::Secret;
use hotdesk::controller::auth::keys;
use hotdesk::controller::config::{AgentAccounts, Config};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
use crate::harness::simulation::Simulation;

/// A configuration in which agents make accounts.
pub fn config() -> Config {
    let agent_accounts = AgentAccounts { enabled: true, per_source_per_hour: 20, ..AgentAccounts::default() };
    Config { agent_accounts, ..Config::default() }
}

/// What an agent without a key asks for.
pub async fn ask(house: &Simulation, body: Value) -> Answered {
    answered(house.bare(Method::POST, "/api/agent-accounts").json(&body)).await
}

/// An agent's account: its record and its key.
pub async fn agent(house: &Simulation) -> (Value, String) {
    let made = ask(house, json!({"name": "research <agent>"})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let key = made.body["key"].as_str().expect("a key").to_owned();
    (made.body, key)
}

/// A person's signed-in browser: its cookie.
pub async fn browser(house: &Simulation, person: AccountId) -> String {
    let cookie = Secret::random(43).reveal().to_owned();
    let store = house.store().await;
    store.add_session(person, &keys::digest(&cookie), now_ms() + 3_600_000).await.expect("a session");
    format!("hotdesk={cookie}")
}
