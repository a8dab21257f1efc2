//! Creation of agent accounts: permission, rate limits, proof of work, and the account's plan.

use hotdesk::controller::config::{AgentAccounts, Config};
use hotdesk::domain::identity::proof_of_work;
use reqwest::Method;
use serde_json::{Value, json};

use super::{config, create_agent, request_account};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

fn with(settings: AgentAccounts) -> Config {
    Config { agent_accounts: settings, ..Config::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_make_no_accounts_unless_the_operator_lets_them() {
    let controller = Simulation::boot().await;
    let refused = request_account(&controller, json!({})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("agent_accounts_off")),
        "{}",
        refused.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_an_agent_works_within_a_small_plan_and_its_secrets_are_told_once() {
    let controller = Simulation::boot_configured(config()).await;
    let request = controller.bare(Method::POST, "/api/agent-accounts").json(&json!({"name": "helper"}));
    let response = request.send().await.expect("an answer");
    assert_eq!(
        (response.status().as_u16(), &response.headers()["cache-control"]),
        (201, &"no-store".parse().unwrap())
    );
    let created: Value = response.json().await.expect("JSON");
    let key = created["key"].as_str().expect("a key");
    assert_eq!(
        (&created["api_key"], &created["limits"]["plan"], &created["limits"]["max_computers"]),
        (&json!(key), &json!("agent"), &json!(1))
    );
    let code = created["claim_url"].as_str().expect("a link").rsplit('/').next().expect("a code").to_owned();
    assert_eq!(code.len(), 43);
    let send = |path: &'static str, body: Value| {
        fetch_json(controller.request_with(key, Method::POST, path).json(&body))
    };
    let workspace = send("/workspaces", json!({"name": "w"})).await;
    let body = |name: &str| json!({"workspace_id": workspace.body["id"], "name": name});
    let computer = send("/computers", body("desk")).await;
    assert_eq!(computer.status, 201, "{}", computer.body);
    let second = send("/computers", body("second")).await;
    assert_eq!((second.status, &second.body["code"]), (403, &json!("DESKTOP_LIMIT")), "{}", second.body);
    let client = send("/clients", json!({"external_id": "x"})).await;
    assert_eq!((client.status, &client.body["code"]), (403, &json!("UPGRADE_REQUIRED")), "{}", client.body);
    let state =
        fetch_json(controller.request_with(key, Method::GET, "/agent-accounts/claim-link")).await.body;
    assert_eq!(
        (&state["id"], &state["claimable"], &state["expires_at"]),
        (&created["id"], &json!(true), &created["expires_at"])
    );
    // The store contains neither secret in plain text.
    for file in ["hotdesk.db", "hotdesk.db-wal"] {
        let content = std::fs::read(controller.store_file().with_file_name(file)).expect("the store");
        for secret in [key, &code] {
            assert!(!content.windows(secret.len()).any(|part| part == secret.as_bytes()), "{file}");
        }
    }
    // Nobody can sign in to the account, and no other account reaches it.
    let operators = controller.get("/workspaces").await.body;
    assert_eq!(operators["workspaces"], json!([]));
    assert_eq!(controller.get(&format!("/computers/{}", id_of(&computer.body))).await.status, 403);
    for bad in
        [json!({"name": ""}), json!({"name": "x".repeat(256)}), json!({"name": "a\nb"}), json!({"name": 1})]
    {
        assert_eq!(request_account(&controller, bad.clone()).await.status, 400, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_source_and_all_together_are_bounded() {
    let controller =
        Simulation::boot_configured(with(AgentAccounts { enabled: true, ..AgentAccounts::default() })).await;
    for number in 0..3 {
        assert_eq!(request_account(&controller, json!({})).await.status, 201, "{number}");
    }
    // The controller trusts no proxy, so this header does not change the source.
    for number in 0..5 {
        let request = controller.bare(Method::POST, "/api/agent-accounts").json(&json!({}));
        let request = request.header("x-forwarded-for", format!("203.0.113.{number}"));
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 429);
        let wait: u32 =
            response.headers()["retry-after"].to_str().expect("text").parse().expect("a whole number");
        assert!((1..=3600).contains(&wait), "{wait}");
    }
    let few =
        AgentAccounts { enabled: true, per_source_per_hour: 50, per_hour: 2, ..AgentAccounts::default() };
    let controller = Simulation::boot_configured(with(few.clone())).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(request_account(&controller, json!({})).await.status);
    }
    assert_eq!(statuses, [201, 201, 429, 429]);
    let full = AgentAccounts { per_hour: 50, max_unclaimed: 2, ..few };
    let controller = Simulation::boot_configured(with(full)).await;
    for _ in 0..2 {
        create_agent(&controller).await;
    }
    let refused = request_account(&controller, json!({})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &json!("agent_accounts_full")),
        "{}",
        refused.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn where_work_is_asked_for_it_counts_once() {
    const BITS: u32 = 12;
    let settings = config().agent_accounts;
    let controller =
        Simulation::boot_configured(with(AgentAccounts { proof_of_work_bits: BITS, ..settings })).await;
    let refused = request_account(&controller, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("proof_of_work")), "{}", refused.body);
    let refusal = fetch_json(controller.bare(Method::GET, "/api/agent-accounts/challenge")).await.body;
    assert_eq!(
        (&refusal["bits"], &refusal["algorithm"], &refusal["enabled"]),
        (&json!(BITS), &json!("sha256"), &json!(true))
    );
    let challenge = refusal["challenge"].as_str().expect("a challenge");
    let mut numbers = (0_u64..).map(|number| number.to_string());
    let nonce =
        numbers.find(|nonce| proof_of_work::solves(challenge, nonce, BITS)).expect("some nonce solves it");
    let wrong = numbers
        .find(|nonce| !proof_of_work::solves(challenge, nonce, BITS))
        .expect("most nonces do not solve it");
    for (challenge, nonce) in [(challenge, wrong.as_str()), ("1.2.3", &nonce), ("", "")] {
        let refused = request_account(&controller, json!({"challenge": challenge, "nonce": nonce})).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (403, &json!("proof_of_work")),
            "{}",
            refused.body
        );
    }
    let solution = json!({"challenge": challenge, "nonce": nonce});
    assert_eq!(request_account(&controller, solution.clone()).await.status, 201);
    assert_eq!(
        request_account(&controller, solution).await.status,
        403,
        "a challenge must be valid for one account only"
    );
}
