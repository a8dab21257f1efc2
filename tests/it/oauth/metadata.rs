//! OAuth discovery documents: A33-A42 (docs/authentication-rules.md).

use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{Scene, fetch_page};
use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

async fn document(controller: &Simulation, path: &str) -> Value {
    let page = fetch_page(controller.bare(Method::GET, path)).await;
    assert_eq!(
        (page.status, page.headers["content-type"].to_str().expect("text")),
        (200, "application/json"),
        "{path}"
    );
    serde_json::from_str(&page.text).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a33_a34_a35_a36_the_authorization_server_says_what_it_does_and_each_address_answers() {
    let controller = Simulation::boot().await;
    let metadata = document(&controller, "/.well-known/oauth-authorization-server").await;
    assert_eq!(metadata["issuer"], controller.base.as_str());
    assert_eq!(metadata["response_types_supported"], json!(["code"]));
    assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(metadata["grant_types_supported"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(metadata["token_endpoint_auth_methods_supported"], json!(["none"]));
    assert_eq!(metadata["scopes_supported"], json!(["mcp:tools"]));
    assert_eq!(metadata["client_id_metadata_document_supported"], true);
    assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
    for (name, value) in metadata.as_object().unwrap() {
        assert!(value.as_array().is_none_or(|list| !list.is_empty()), "{name} is empty");
    }
    for (name, method) in [
        ("authorization_endpoint", Method::GET),
        ("token_endpoint", Method::POST),
        ("registration_endpoint", Method::POST),
        ("revocation_endpoint", Method::POST),
        ("service_documentation", Method::GET),
    ] {
        let path = metadata[name].as_str().and_then(|url| url.strip_prefix(&controller.base)).expect(name);
        let status = fetch_page(controller.bare(method, path)).await.status;
        // Without parameters, these endpoints refuse; a person must sign in first.
        assert!([200, 400].contains(&status), "{name}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_a38_the_resource_is_described_at_the_root_and_at_its_own_path() {
    let controller = Simulation::boot().await;
    let metadata = document(&controller, "/.well-known/oauth-protected-resource/mcp").await;
    assert_eq!(metadata, document(&controller, "/.well-known/oauth-protected-resource").await);
    assert_eq!(metadata["resource"], format!("{}/mcp", controller.base));
    assert_eq!(metadata["authorization_servers"], json!([controller.base]));
    assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
    assert_eq!(metadata["scopes_supported"], json!(["mcp:tools"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a39_a40_who_may_not_in_is_told_where_to_get_a_token() {
    let scene = Scene::boot().await;
    let challenge = |page: &super::scene::Page| page.headers["www-authenticate"].to_str().unwrap().to_owned();
    let nothing = fetch_page(scene.controller.bare(Method::POST, "/mcp")).await;
    let metadata_url =
        format!("resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", scene.controller.base);
    assert_eq!(
        (nothing.status, challenge(&nothing)),
        (401, format!("Bearer {metadata_url}, scope=\"mcp:tools\""))
    );
    let bad = scene.mcp("nonsense").await;
    assert_eq!(bad.status, 401);
    assert_eq!(
        challenge(&bad),
        format!("Bearer error=\"invalid_token\", {metadata_url}, scope=\"mcp:tools\"")
    );
    let path = "/.well-known/oauth-protected-resource/mcp";
    assert_eq!(document(&scene.controller, path).await["resource"], scene.resource());
}

#[tokio::test(flavor = "multi_thread")]
async fn a41_the_catalogue_leads_to_what_there_is() {
    let controller = Simulation::boot().await;
    let path = "/.well-known/api-catalog";
    let kind = "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"";
    let head = fetch_page(controller.bare(Method::HEAD, path)).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    let got = fetch_page(controller.bare(Method::GET, path)).await;
    for page in [&head, &got] {
        assert_eq!(page.headers["content-type"], kind);
        assert_eq!(page.headers["link"], format!("<{}{path}>; rel=\"api-catalog\"", controller.base));
    }
    let catalogue: Value = serde_json::from_str(&got.text).expect("JSON");
    let mut paths = Vec::new();
    for context in catalogue["linkset"].as_array().expect("a linkset") {
        assert!(context["anchor"].as_str().unwrap().starts_with(&controller.base));
        for links in context.as_object().unwrap().values().filter_map(Value::as_array) {
            for link in links {
                let path = link["href"]
                    .as_str()
                    .and_then(|url| url.strip_prefix(&controller.base))
                    .expect("a URL of the controller");
                let page = fetch_page(controller.bare(Method::GET, path)).await;
                let kind = page.headers["content-type"].to_str().unwrap();
                assert_eq!(page.status, 200, "{path}");
                assert!(kind.starts_with(link["type"].as_str().unwrap()), "{path}: {kind}");
                paths.push(path.to_owned());
            }
        }
    }
    assert!(paths.contains(&"/openapi.json".to_owned()), "{paths:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_for_agents_leads_to_what_there_is() {
    let controller = Simulation::boot().await;
    let page = fetch_page(controller.bare(Method::GET, "/llms.txt")).await;
    assert_eq!(
        (page.status, &page.headers["content-type"]),
        (200, &"text/plain; charset=utf-8".parse().unwrap())
    );
    assert!(page.text.starts_with("# hotdesk\n\n> "), "{}", page.text);
    let links: Vec<&str> = page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 3, "{links:?}");
    for link in links {
        let path = link.strip_prefix(&controller.base).expect("a URL of the controller");
        assert_eq!(fetch_page(controller.bare(Method::GET, path)).await.status, 200, "{link}");
    }
    assert!(page.text.contains(&format!("{}/settings/keys", controller.base)), "{}", page.text);
    assert!(page.text.contains("/cli/auth/start") && !page.text.contains("agent-accounts"), "{}", page.text);

    let controller = Simulation::boot_configured(crate::agent_accounts::config()).await;
    let page = fetch_page(controller.bare(Method::GET, "/llms.txt")).await;
    assert!(page.text.contains(&format!("`POST {}/api/agent-accounts`", controller.base)), "{}", page.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a42_a_wrong_method_is_told_the_right_ones() {
    let controller = Simulation::boot().await;
    for (path, wrong, right) in [
        ("/.well-known/oauth-authorization-server", Method::POST, "GET,HEAD"),
        ("/.well-known/oauth-protected-resource", Method::DELETE, "GET,HEAD"),
        ("/.well-known/api-catalog", Method::PUT, "GET,HEAD"),
        ("/llms.txt", Method::POST, "GET,HEAD"),
        ("/oauth/authorize", Method::PUT, "GET,HEAD,POST"),
        ("/oauth/token", Method::GET, "POST"),
        ("/oauth/register", Method::GET, "POST"),
        ("/oauth/revoke", Method::GET, "POST"),
        ("/settings/connections", Method::POST, "GET,HEAD"),
    ] {
        let response = controller.bare(wrong.clone(), path).send().await.expect("an answer");
        assert_eq!(response.headers()["allow"], right, "{wrong} {path}");
        let answer = fetch_json(controller.bare(wrong.clone(), path)).await;
        assert_eq!(
            (answer.status, &answer.body["error"]),
            (405, &json!("Method not allowed")),
            "{wrong} {path}"
        );
    }
}
