//! What an operator does for others: clients and their usage, and capacity, from a shell.

use hotdesk::controller::config::{Config, PlanSettings};
use serde_json::json;

use super::person::Person;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn clients_and_capacity_from_a_shell() {
    let basic = PlanSettings { max_added_computers: Some(2), ..PlanSettings::default() };
    let plans = [("basic".to_owned(), basic)].into();
    let house = Simulation::boot_configured(Config { plans, ..Config::default() }).await;
    let person = Person::knowing(&house.base, house.key());
    let made = person.runs(&["clients", "create", "acme", "--max-computers", "1", "--json"]).await.json();
    let key = made["key"].as_str().expect("a key");
    let printed =
        person.runs(&["clients", "create", "beta", "--name", "Beta", "--billed-to", "client"]).await.well();
    assert!(printed.contains("Its key (shown once): sk_live_"), "{printed}");
    let client = Person::knowing(&house.base, key);
    let workspace = made["workspace_id"].as_str().expect("an id");
    client.runs(&["computers", "create", "desk", "--workspace", workspace]).await.well();
    client.runs(&["computers", "create", "more", "--workspace", workspace]).await.badly(1, &["may have 1"]);
    client.runs(&["clients", "list"]).await.badly(1, &["scoped"]);
    let listed = person.runs(&["clients", "list"]).await.well();
    assert!(listed.contains("acme") && listed.contains("1 of 1") && listed.contains("Beta"), "{listed}");
    assert!(!listed.contains(key), "{listed}");
    let csv = person.runs(&["clients", "usage", "acme", "--csv"]).await.well();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let told = person.runs(&["clients", "usage", "acme"]).await.well();
    assert!(told.contains("AI models in") && told.contains("all"), "{told}");
    person.runs(&["clients", "delete", "acme"]).await.badly(1, &["still holds 1 computer:", "--computers"]);
    person.runs(&["clients", "delete", "acme", "--computers"]).await.well();
    client.runs(&["computers", "list"]).await.badly(1, &["API key"]);

    person.runs(&["capacity", "--add", "1"]).await.badly(1, &["takes 0 added computers"]);
    house.sql("UPDATE accounts SET plan = 'basic'").await;
    let tried = person.runs(&["capacity", "--add", "2", "--dry-run"]).await.well();
    assert!(tried.contains("0 of 52 computers, 2 of them would be added"), "{tried}");
    person.runs(&["capacity", "--add", "2"]).await.well();
    let told = person.runs(&["capacity", "--give-back", "1", "--json"]).await.json();
    assert_eq!((&told["max_computers"], &told["added_computers"]), (&json!(51), &json!(1)));
    let told = person.runs(&["capacity"]).await.well();
    assert!(told.starts_with("Plan basic: 0 of 51 computers, 1 of them added;"), "{told}");
}
