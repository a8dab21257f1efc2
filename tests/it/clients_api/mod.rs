//! Clients API: a workspace, a key and limits for each client of an operator (docs/api/accounts.md).

mod metering;
mod usage;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// Creates a client; returns its record and its key.
pub async fn create_client(controller: &Simulation, body: Value) -> (Value, String) {
    let created = controller.create("/v1/accounts", body).await;
    let key = created["key"].as_str().expect("a key").to_owned();
    (created, key)
}

/// Creates a computer in a client's workspace.
pub async fn create_computer(controller: &Simulation, key: &str, client: &Value, name: &str) -> HttpAnswer {
    let body = json!({"workspace_id": client["workspace_id"], "name": name});
    fetch_json(controller.request_with(key, Method::POST, "/computers").json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_a_workspace_and_a_key_that_reaches_only_it() {
    let controller = Simulation::boot().await;
    let other_workspace = controller.workspace("elsewhere").await;
    let other_account = controller.computer(&other_workspace, "operator's").await;
    let body = json!({"external_id": "acme-1", "name": "Acme", "max_computers": 2, "monthly_ai_cap_usd": 12.5,
        "billed_to": "client"});
    let response =
        controller.request(Method::POST, "/v1/accounts").json(&body).send().await.expect("an answer");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.status(), 201);
    let created: Value = response.json().await.expect("JSON");
    let key = created["api_key"].as_str().expect("a key");
    assert_eq!(created["key"], key);
    for (field, expected) in body.as_object().expect("an object") {
        assert_eq!(&created[field], expected, "{field}");
    }
    // The key can use its workspace and nothing else.
    let own = create_computer(&controller, key, &created, "desk").await;
    assert_eq!(own.status, 201, "{}", own.body);
    let ask = |method, path: String| fetch_json(controller.request_with(key, method, &path).json(&json!({})));
    let listed = ask(Method::GET, "/workspaces".to_owned()).await.body;
    assert_eq!(
        (listed["workspaces"].as_array().map(Vec::len), &listed["workspaces"][0]["id"]),
        (Some(1), &created["workspace_id"])
    );
    let id = created["id"].as_str().expect("an id");
    for (method, path) in [
        (Method::GET, format!("/computers/{other_account}")),
        (Method::GET, format!("/workspaces/{other_workspace}")),
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
    // No other answer contains the key.
    for path in ["/v1/accounts".to_owned(), "/clients".to_owned(), format!("/clients/{id}")] {
        let limits_of_key = controller.get(&path).await;
        assert_eq!(limits_of_key.status, 200, "{path}");
        assert!(
            !limits_of_key.body.to_string().contains(key)
                && limits_of_key.body.to_string().contains("acme-1"),
            "{}",
            limits_of_key.body
        );
    }
    let store = std::fs::read(controller.store_file()).expect("the store");
    assert!(
        !store.windows(key.len()).any(|part| part == key.as_bytes()),
        "the store must not contain the key"
    );
    let listed = controller.get("/clients").await.body;
    assert_eq!(
        (&listed["accounts"], &listed["clients"][0]["computers_used"]),
        (&listed["clients"], &json!(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_id_is_one_client_s_and_names_may_repeat() {
    let controller = Simulation::boot().await;
    let client = json!({"external_id": "acme"});
    let answers = join_all([0; 20].map(|_| controller.post("/clients", client.clone()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "{answers:?}");
    for taken in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((taken.status, &taken.body["code"]), (409, &json!("EXTERNAL_ID_TAKEN")));
    }
    assert_eq!(controller.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len), Some(1));
    let (second, _) = create_client(&controller, json!({"external_id": "acme-2", "name": "ACME"})).await;
    assert_eq!(second["name"], "ACME");
    let workspace = second["workspace_id"].as_str().expect("an id");
    assert_eq!(controller.get(&format!("/workspaces/{workspace}")).await.body["name"], "ACME (client)");
    // Another operator has its own external ids.
    let (_, other) = controller.account("other@example.org").await;
    let created = fetch_json(controller.request_with(&other, Method::POST, "/clients").json(&client)).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let path = format!("/clients/{}", id_of(&second));
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let refused = fetch_json(controller.request_with(&other, method, &path).json(&json!({}))).await;
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
        assert_eq!(controller.post("/clients", bad.clone()).await.status, 400, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_creates_for_a_client_s_last_computer_one_wins() {
    let controller = Simulation::boot().await;
    let (client, key) = create_client(&controller, json!({"external_id": "acme", "max_computers": 2})).await;
    assert_eq!(create_computer(&controller, &key, &client, "one").await.status, 201);
    let names: Vec<String> = (0..50).map(|number| format!("race {number}")).collect();
    // The limit also applies to the operator's own key.
    let creates = names.iter().enumerate().map(|(at, name)| {
        let key = if at % 2 == 0 { key.as_str() } else { controller.key() };
        create_computer(&controller, key, &client, name)
    });
    let answers = join_all(creates).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "{answers:?}");
    for lost in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((lost.status, &lost.body["code"]), (403, &json!("DESKTOP_LIMIT")), "{}", lost.body);
    }
    assert_eq!(controller.machines().len(), 2);
    // A computer of the operator cannot be moved in either.
    let other_workspace = controller.workspace("elsewhere").await;
    let other = controller.computer(&other_workspace, "other").await;
    let destination = json!({"workspace_id": client["workspace_id"]});
    let moved = controller.patch(&format!("/computers/{other}/move"), destination).await;
    assert_eq!((moved.status, &moved.body["code"]), (403, &json!("DESKTOP_LIMIT")), "{}", moved.body);
    let path = format!("/v1/accounts/{}", id_of(&client));
    let changed = controller.patch(&path, json!({"max_computers": null, "name": "Acme Ltd"})).await;
    assert_eq!((changed.status, &changed.body["max_computers"]), (200, &Value::Null), "{}", changed.body);
    assert_eq!((&changed.body["name"], &changed.body["billed_to"]), (&json!("Acme Ltd"), &json!("operator")));
    assert_eq!(create_computer(&controller, &key, &client, "three").await.status, 201);
    assert_eq!(controller.patch(&path, json!({"max_computers": 1})).await.status, 200);
    let limits =
        format!("/billing/compute-limits?workspace_id={}", client["workspace_id"].as_str().expect("an id"));
    let limits_of_key = fetch_json(controller.request_with(&key, Method::GET, &limits)).await.body;
    assert_eq!((&limits_of_key["max_computers"], &limits_of_key["computers_used"]), (&json!(1), &json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_with_its_computers_only_when_asked_and_its_key_dies() {
    let controller = Simulation::boot().await;
    let (client, key) = create_client(&controller, json!({"external_id": "acme"})).await;
    let id = id_of(&create_computer(&controller, &key, &client, "one").await.body);
    let (path, workspace) =
        (format!("/clients/{}", id_of(&client)), client["workspace_id"].as_str().expect("an id"));
    let refused = controller.delete(&path).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("CLIENT_HAS_COMPUTERS")),
        "{}",
        refused.body
    );
    assert_eq!(controller.delete(&format!("{path}?computers=burn")).await.status, 400);
    for key in [controller.key(), &key] {
        let gone =
            fetch_json(controller.request_with(key, Method::DELETE, &format!("/workspaces/{workspace}")))
                .await;
        assert_eq!((gone.status, &gone.body["code"]), (409, &json!("CLIENT_WORKSPACE")), "{}", gone.body);
    }
    assert_eq!(
        fetch_json(controller.request_with(&key, Method::GET, &format!("/computers/{id}"))).await.status,
        200
    );

    let removed = controller.delete(&format!("{path}?computers=delete")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(fetch_json(controller.request_with(&key, Method::GET, "/workspaces")).await.status, 401);
    assert_eq!(controller.machines(), Vec::<String>::new());
    for gone in [path.clone(), format!("/workspaces/{workspace}"), format!("/computers/{id}")] {
        assert_eq!(controller.get(&gone).await.status, 404, "{gone}");
    }
    assert_eq!(controller.get("/clients").await.body["clients"], json!([]));
    assert_eq!(controller.delete(&path).await.status, 404);
    // Its usage stays readable, and its external id is free again.
    let used = controller.get(&format!("{path}/usage")).await;
    assert_eq!((used.status, &used.body["computers"][0]["computer_id"]), (200, &json!(id)), "{}", used.body);
    create_client(&controller, json!({"external_id": "acme"})).await;
}
