//! Costs of runs on computers of an operator's clients.

use serde_json::{Value, json};

use super::scene::{Scene, command};
use crate::harness::models::Turn;

/// A scene with a client whose monthly cap is so many dollars. Returns its id and its computer.
async fn with_client(turns: Vec<Turn>, cap: f64) -> (Scene, String, String) {
    let scene = Scene::new(turns).await;
    let client = json!({"external_id": "acme", "name": "Acme", "monthly_ai_cap_usd": cap});
    let client = scene.controller.create("/v1/accounts", client).await;
    let text =
        |field: &str| client[field].as_str().unwrap_or_else(|| panic!("{field} in {client}")).to_owned();
    let computer = scene.controller.computer(&text("workspace_id"), "desk").await;
    let id = client["id"].as_str().or_else(|| client["account_id"].as_str()).expect("an id").to_owned();
    (scene, id, computer)
}

async fn spent(scene: &Scene, client: &str) -> Value {
    scene.controller.get(&format!("/v1/accounts/{client}/usage")).await.body["ai_spend_usd"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_runs_count_against_the_cap_of_a_client_and_stop_at_it() {
    // Each turn costs 110 micro-dollars.
    let turns = vec![Turn::text("One."), command("ls"), command("ls"), Turn::text("unused")];
    let (scene, client, computer) = with_client(turns, 0.000_25).await;
    let ask = |text: &'static str| scene.ask(text, json!({"computer_id": computer}));
    let first = ask("one").await;
    assert_eq!(
        (first.status, &first.body["orgo"]["credit_balance_cents"]),
        (200, &json!(0.014)),
        "{}",
        first.body
    );
    assert_eq!(spent(&scene, &client).await, json!(0.000_11));
    let second = ask("two").await;
    let error = &second.body["error"];
    assert_eq!((second.status, &error["code"]), (402, &json!("credits_exhausted")), "{}", second.body);
    assert_eq!((&second.body["balance_cents"], &error["steps"]), (&json!(0), &json!(1)), "{}", second.body);
    assert_eq!(spent(&scene, &client).await, json!(0.000_25), "up to the cap, and no further");
    assert_eq!(scene.models.requests().len(), 3);
    let third = ask("three").await;
    assert_eq!(
        (third.status, scene.models.requests().len()),
        (402, 3),
        "the model is not asked: {}",
        third.body
    );
    let other = scene.ask("four", json!({})).await;
    assert_eq!(other.status, 200, "the operator's own computers have no cap: {}", other.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_s_own_key_costs_the_operator_nothing() {
    let (scene, client, computer) = with_client(vec![Turn::text("Hello.")], 1.0).await;
    let body = scene.body("go", json!({"computer_id": computer, "model": "claude-sonnet-4-6"}));
    let request = scene.controller.request(reqwest::Method::POST, "/v1/chat/completions");
    let answer = request.json(&body).header("x-anthropic-key", "sk-ant-own").send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(spent(&scene, &client).await, json!(0));
}
