//! Does an operator run desktops for others: each with a workspace, a key and bounds of its own? (wire.md 14, "Clients API")

mod metering;
mod usage;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// A client's record and its key.
pub async fn client(house: &Simulation, body: Value) -> (Value, String) {
    let made = house.made("/v1/accounts", body).await;
    let key = made["key"].as_str().expect("a key").to_owned();
    (made, key)
}

/// A create of a client.
pub async fn order(house: &Simulation, key: &str, client: &Value, name: &str) -> Answered {
    let body = json!({"workspace_id": client["workspace_id"], "name": name});
    answered(house.request_with(key, Method::POST, "/computers").json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_a_workspace_and_a_key_that_reaches_only_it() {
    let house = Simulation::boot().await;
    let elsewhere = house.workspace("elsewhere").await;
    let foreign = house.computer(&elsewhere, "operator's").await;
    let body = json!({"external_id": "acme-1", "name": "Acme", "max_computers": 2, "monthly_ai_cap_usd": 12.5,
        "billed_to": "client"});
    let response = house.request(Method::POST, "/v1/accounts").json(&body).send().await.expect("an answer");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.status(), 201);
    let made: Value = response.json().await.expect("JSON");
    let key = made["api_key"].as_str().expect("a key");
    assert_eq!(made["key"], key);
    for (field, expected) in body.as_object().expect("an object") {
        assert_eq!(&made[field], expected, "{field}");
    }
    // The key does what is to be done in the workspace, and nothing else.
    let own = order(&house, key, &made, "desk").await;
    assert_eq!(own.status, 201, "{}", own.body);
    let ask = |method, path: String| answered(house.request_with(key, method, &path).json(&json!({})));
    let listed = ask(Method::GET, "/workspaces".to_owned()).await.body;
    assert_eq!(
        (listed["workspaces"].as_array().map(Vec::len), &listed["workspaces"][0]["id"]),
        (Some(1), &made["workspace_id"])
    );
    let id = made["id"].as_str().expect("an id");
    for (method, path) in [
        (Method::GET, format!("/computers/{foreign}")),
        (Method::GET, format!("/workspaces/{elsewhere}")),
        (Method::GET, "/v1/accounts".to_owned()),
        (Method::GET, format!("/v1/accounts/{id}")),
        (Method::PATCH, format!("/v1/accounts/{id}")),
        (Method::DELETE, format!("/v1/accounts/{id}")),
        (Method::GET, format!("/v1/accounts/{id}/usage")),
        (Method::GET, "/account/capacity".to_owned()),
    ] {
        let refused = ask(method, path.clone()).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (403, &json!("workspace_scope_mismatch")),
            "{path}"
        );
    }
    // The key is nowhere but in that answer.
    for path in ["/v1/accounts".to_owned(), "/clients".to_owned(), format!("/clients/{id}")] {
        let told = house.get(&path).await;
        assert_eq!(told.status, 200, "{path}");
        assert!(
            !told.body.to_string().contains(key) && told.body.to_string().contains("acme-1"),
            "{}",
            told.body
        );
    }
    let store = std::fs::read(house.store_file()).expect("the store");
    assert!(!store.windows(key.len()).any(|part| part == key.as_bytes()), "the key is at rest");
    let listed = house.get("/clients").await.body;
    assert_eq!(
        (&listed["accounts"], &listed["clients"][0]["computers_used"]),
        (&listed["clients"], &json!(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_id_is_one_client_s_and_names_may_repeat() {
    let house = Simulation::boot().await;
    let acme = json!({"external_id": "acme"});
    let answers = join_all([0; 20].map(|_| house.post("/clients", acme.clone()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "{answers:?}");
    for taken in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((taken.status, &taken.body["code"]), (409, &json!("EXTERNAL_ID_TAKEN")));
    }
    assert_eq!(house.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len), Some(1));
    let (second, _) = client(&house, json!({"external_id": "acme-2", "name": "ACME"})).await;
    assert_eq!(second["name"], "ACME");
    let workspace = second["workspace_id"].as_str().expect("an id");
    assert_eq!(house.get(&format!("/workspaces/{workspace}")).await.body["name"], "ACME (client)");
    // Another operator's ids are another operator's.
    let (_, other) = house.account("other@example.org").await;
    let made = answered(house.request_with(&other, Method::POST, "/clients").json(&acme)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let path = format!("/clients/{}", id_of(&second));
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let refused = answered(house.request_with(&other, method, &path).json(&json!({}))).await;
        assert_eq!((refused.status, &refused.body["error"]), (404, &json!("Client not found")));
    }
    for bad in [
        json!({}),
        json!({"external_id": " "}),
        json!({"external_id": "x".repeat(256)}),
        json!({"external_id": "x", "billed_to": "nobody"}),
        json!({"external_id": "x", "monthly_ai_cap_usd": -1}),
        json!({"external_id": "x", "max_computers": -1}),
        json!({"external_id": "x", "name": "a\nb"}),
    ] {
        assert_eq!(house.post("/clients", bad.clone()).await.status, 400, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_creates_for_a_client_s_last_computer_one_wins() {
    let house = Simulation::boot().await;
    let (acme, key) = client(&house, json!({"external_id": "acme", "max_computers": 2})).await;
    assert_eq!(order(&house, &key, &acme, "one").await.status, 201);
    let names: Vec<String> = (0..50).map(|number| format!("race {number}")).collect();
    // The operator's own key is bound as well.
    let asked = names.iter().enumerate().map(|(at, name)| {
        let key = if at % 2 == 0 { key.as_str() } else { house.key() };
        order(&house, key, &acme, name)
    });
    let answers = join_all(asked).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "{answers:?}");
    for lost in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((lost.status, &lost.body["code"]), (403, &json!("DESKTOP_LIMIT")), "{}", lost.body);
    }
    assert_eq!(house.machines().len(), 2);
    // Nor does a computer of the operator's come in by a move.
    let elsewhere = house.workspace("elsewhere").await;
    let other = house.computer(&elsewhere, "other").await;
    let there = json!({"workspace_id": acme["workspace_id"]});
    let moved = house.patch(&format!("/computers/{other}/move"), there).await;
    assert_eq!((moved.status, &moved.body["code"]), (403, &json!("DESKTOP_LIMIT")), "{}", moved.body);
    let path = format!("/v1/accounts/{}", id_of(&acme));
    let changed = house.patch(&path, json!({"max_computers": null, "name": "Acme Ltd"})).await;
    assert_eq!((changed.status, &changed.body["max_computers"]), (200, &Value::Null), "{}", changed.body);
    assert_eq!((&changed.body["name"], &changed.body["billed_to"]), (&json!("Acme Ltd"), &json!("operator")));
    assert_eq!(order(&house, &key, &acme, "three").await.status, 201);
    assert_eq!(house.patch(&path, json!({"max_computers": 1})).await.status, 200);
    let limits =
        format!("/billing/compute-limits?workspace_id={}", acme["workspace_id"].as_str().expect("an id"));
    let told = answered(house.request_with(&key, Method::GET, &limits)).await.body;
    assert_eq!((&told["max_computers"], &told["computers_used"]), (&json!(1), &json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_with_its_computers_only_when_asked_and_its_key_dies() {
    let house = Simulation::boot().await;
    let (acme, key) = client(&house, json!({"external_id": "acme"})).await;
    let id = id_of(&order(&house, &key, &acme, "one").await.body);
    let (path, workspace) =
        (format!("/clients/{}", id_of(&acme)), acme["workspace_id"].as_str().expect("an id"));
    let kept = house.delete(&path).await;
    assert_eq!((kept.status, &kept.body["code"]), (409, &json!("CLIENT_HAS_COMPUTERS")), "{}", kept.body);
    assert_eq!(house.delete(&format!("{path}?computers=burn")).await.status, 400);
    for key in [house.key(), &key] {
        let gone =
            answered(house.request_with(key, Method::DELETE, &format!("/workspaces/{workspace}"))).await;
        assert_eq!((gone.status, &gone.body["code"]), (409, &json!("CLIENT_WORKSPACE")), "{}", gone.body);
    }
    assert_eq!(
        answered(house.request_with(&key, Method::GET, &format!("/computers/{id}"))).await.status,
        200
    );

    let removed = house.delete(&format!("{path}?computers=delete")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(answered(house.request_with(&key, Method::GET, "/workspaces")).await.status, 401);
    assert_eq!(house.machines(), Vec::<String>::new());
    for gone in [path.clone(), format!("/workspaces/{workspace}"), format!("/computers/{id}")] {
        assert_eq!(house.get(&gone).await.status, 404, "{gone}");
    }
    assert_eq!(house.get("/clients").await.body["clients"], json!([]));
    assert_eq!(house.delete(&path).await.status, 404);
    // What it used is told still, and its id may be another's.
    let used = house.get(&format!("{path}/usage")).await;
    assert_eq!((used.status, &used.body["computers"][0]["computer_id"]), (200, &json!(id)), "{}", used.body);
    client(&house, json!({"external_id": "acme"})).await;
}
