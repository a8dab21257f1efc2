//! Templates belong to their account, within its plan (A13, A16, docs/authentication-rules.md).

use reqwest::Method;
use serde_json::json;

use crate::access::cast::{add_account, add_key};
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;
use crate::plans;

const DEFINITION: &str = "api_version: hotdesk/v1\nname: lab@1.0.0\n";

async fn publish(controller: &Simulation, key: &str, document: String) -> HttpAnswer {
    fetch_json(controller.request_with(key, Method::POST, "/templates").body(document)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_a16_templates_are_for_keys_of_their_account_alone() {
    let controller = Simulation::boot().await;
    let key = controller.key().to_owned();
    assert_eq!(publish(&controller, &key, DEFINITION.to_owned()).await.status, 201);
    let store = controller.store().await;
    let workspace = controller.workspace("w").await;
    let operator = store.operator_account().await.expect("the operator");
    let scoped = add_key(&store, operator, Some(&workspace)).await;
    let stranger = add_account(&store, "other@localhost").await;
    let foreign = add_key(&store, stranger, None).await;
    let lab = "/templates/default/lab/1.0.0";
    for (method, path) in [
        (Method::GET, "/templates/default/lab"),
        (Method::GET, lab),
        (Method::DELETE, lab),
        (Method::POST, "/templates/default/lab/1.0.0/build"),
        (Method::GET, "/templates/default/lab/1.0.0/build"),
        (Method::DELETE, "/templates/default/lab/1.0.0/build"),
        (Method::GET, "/templates/default/lab/1.0.0/build/events"),
    ] {
        let refused = fetch_json(controller.request_with(&foreign, method.clone(), path)).await;
        assert_eq!(refused.status, 404, "{method} {path}: {}", refused.body);
        let refused = fetch_json(controller.request_with(&scoped, method.clone(), path)).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (403, &json!("workspace_scope_mismatch")),
            "{method} {path}: {}",
            refused.body
        );
    }
    let list = fetch_json(controller.request_with(&foreign, Method::GET, "/templates")).await;
    assert_eq!(list.body, json!({"templates": []}));
    assert_eq!(publish(&controller, &scoped, DEFINITION.to_owned()).await.status, 403);
    // The same reference of two accounts are two templates.
    let other = format!("{DEFINITION}cpu: 2\n");
    assert_eq!(publish(&controller, &foreign, other).await.status, 201);
    let own = controller.get(lab).await;
    assert_eq!(own.body["template"]["hardware"]["cpu"], json!(null), "{}", own.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn authoring_needs_a_plan_with_it_and_documents_have_bounds() {
    let config = plans::config();
    let controller = Simulation::boot_configured(config.clone()).await;
    let (account, key) = controller.account("small@localhost").await;
    plans::give_plan(&controller, &config, account, "small").await;
    let refused = publish(&controller, &key, DEFINITION.to_owned()).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("UPGRADE_REQUIRED")),
        "{}",
        refused.body
    );

    let key = controller.key().to_owned();
    let large = |name: &str| {
        let scripts = vec!["x".repeat(250_000); 4];
        json!({"api_version": "hotdesk/v1", "name": name, "build": {"run": scripts}}).to_string()
    };
    for number in 0..4 {
        let published = publish(&controller, &key, large(&format!("lab@1.0.{number}"))).await;
        assert_eq!(published.status, 201, "{}", published.body);
    }
    let refused = publish(&controller, &key, large("lab@1.0.4")).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("PLAN_LIMIT")), "{}", refused.body);
    // Normalised, each line break has two characters.
    let (_, key) = controller.account("long@localhost").await;
    let quoted = "\\".repeat(250_000);
    let document = format!(
        "api_version: hotdesk/v1\nname: long@1.0.0\nbuild:\n  run:\n    - '{quoted}'\n    - '1{quoted}'\n    - '2{quoted}'\n"
    );
    let refused = publish(&controller, &key, document).await;
    let message = refused.body["error"].as_str().unwrap_or_default();
    assert!(refused.status == 422 && message.contains("as normalised JSON"), "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_no_document_is_a_bad_request_and_an_invalid_document_is_not() {
    let controller = Simulation::boot().await;
    let key = controller.key().to_owned();
    for (text, status, part) in [
        ("", 400, "the document is empty"),
        ("# Nothing.\n", 400, "the document is empty"),
        ("a: [", 400, "the document is no YAML"),
        ("a: 1\n---\nb: 2\n", 400, "there is more than one document"),
        ("a: 1\n", 422, "api_version: is required"),
        ("[]", 422, "the document must be a map"),
    ] {
        let refused = publish(&controller, &key, text.to_owned()).await;
        let message = refused.body["error"].as_str().unwrap_or_default();
        assert!(
            refused.status == status && message.contains(part),
            "{text:?}: {} {}",
            refused.status,
            refused.body
        );
        assert_eq!(refused.body["errors"].is_array(), status == 422, "{text:?}: {}", refused.body);
        let checked = fetch_json(controller.request(Method::POST, "/templates/validate").body(text)).await;
        assert_eq!(checked.status, 422, "{text:?}: {}", checked.body);
    }
}
