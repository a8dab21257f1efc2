//! Do programs find out how to get in? (access.md A33-A42)

use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{Scene, shown};
use crate::harness::agent::answered;
use crate::harness::simulation::Simulation;

async fn document(house: &Simulation, path: &str) -> Value {
    let page = shown(house.bare(Method::GET, path)).await;
    assert_eq!(
        (page.status, page.headers["content-type"].to_str().expect("text")),
        (200, "application/json"),
        "{path}"
    );
    serde_json::from_str(&page.text).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a33_a34_a35_a36_the_authorization_server_says_what_it_does_and_each_address_answers() {
    let house = Simulation::boot().await;
    let said = document(&house, "/.well-known/oauth-authorization-server").await;
    assert_eq!(said["issuer"], house.base.as_str());
    assert_eq!(said["response_types_supported"], json!(["code"]));
    assert_eq!(said["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(said["grant_types_supported"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(said["token_endpoint_auth_methods_supported"], json!(["none"]));
    assert_eq!(said["scopes_supported"], json!(["mcp:tools"]));
    assert_eq!(said["client_id_metadata_document_supported"], true);
    assert_eq!(said["authorization_response_iss_parameter_supported"], true);
    for (name, value) in said.as_object().unwrap() {
        assert!(value.as_array().is_none_or(|list| !list.is_empty()), "{name} is empty");
    }
    for (name, method) in [
        ("authorization_endpoint", Method::GET),
        ("token_endpoint", Method::POST),
        ("registration_endpoint", Method::POST),
        ("revocation_endpoint", Method::POST),
        ("service_documentation", Method::GET),
    ] {
        let path = said[name].as_str().and_then(|url| url.strip_prefix(&house.base)).expect(name);
        let status = shown(house.bare(method, path)).await.status;
        // Without parameters they refuse; the person is sent to sign in first.
        assert!([200, 400].contains(&status), "{name}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_a38_the_resource_is_described_at_the_root_and_at_its_own_path() {
    let house = Simulation::boot().await;
    let said = document(&house, "/.well-known/oauth-protected-resource/mcp").await;
    assert_eq!(said, document(&house, "/.well-known/oauth-protected-resource").await);
    assert_eq!(said["resource"], format!("{}/mcp", house.base));
    assert_eq!(said["authorization_servers"], json!([house.base]));
    assert_eq!(said["bearer_methods_supported"], json!(["header"]));
    assert_eq!(said["scopes_supported"], json!(["mcp:tools"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a39_a40_who_may_not_in_is_told_where_to_get_a_token() {
    let scene = Scene::set().await;
    let challenge = |page: &super::scene::Page| page.headers["www-authenticate"].to_str().unwrap().to_owned();
    let nothing = shown(scene.house.bare(Method::POST, "/mcp")).await;
    let where_to =
        format!("resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", scene.house.base);
    assert_eq!(
        (nothing.status, challenge(&nothing)),
        (401, format!("Bearer {where_to}, scope=\"mcp:tools\""))
    );
    let bad = scene.mcp("nonsense").await;
    assert_eq!(bad.status, 401);
    assert_eq!(challenge(&bad), format!("Bearer error=\"invalid_token\", {where_to}, scope=\"mcp:tools\""));
    let path = "/.well-known/oauth-protected-resource/mcp";
    assert_eq!(document(&scene.house, path).await["resource"], scene.resource());
}

#[tokio::test(flavor = "multi_thread")]
async fn a41_the_catalogue_leads_to_what_there_is() {
    let house = Simulation::boot().await;
    let path = "/.well-known/api-catalog";
    let kind = "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"";
    let head = shown(house.bare(Method::HEAD, path)).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    let got = shown(house.bare(Method::GET, path)).await;
    for page in [&head, &got] {
        assert_eq!(page.headers["content-type"], kind);
        assert_eq!(page.headers["link"], format!("<{}{path}>; rel=\"api-catalog\"", house.base));
    }
    let catalogue: Value = serde_json::from_str(&got.text).expect("JSON");
    let mut leads_to = Vec::new();
    for context in catalogue["linkset"].as_array().expect("a linkset") {
        assert!(context["anchor"].as_str().unwrap().starts_with(&house.base));
        for links in context.as_object().unwrap().values().filter_map(Value::as_array) {
            for link in links {
                let path = link["href"].as_str().and_then(|url| url.strip_prefix(&house.base)).expect("ours");
                let page = shown(house.bare(Method::GET, path)).await;
                let kind = page.headers["content-type"].to_str().unwrap();
                assert_eq!(page.status, 200, "{path}");
                assert!(kind.starts_with(link["type"].as_str().unwrap()), "{path}: {kind}");
                leads_to.push(path.to_owned());
            }
        }
    }
    assert!(leads_to.contains(&"/openapi.json".to_owned()), "{leads_to:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_for_agents_leads_to_what_there_is() {
    let house = Simulation::boot().await;
    let page = shown(house.bare(Method::GET, "/llms.txt")).await;
    assert_eq!(
        (page.status, &page.headers["content-type"]),
        (200, &"text/plain; charset=utf-8".parse().unwrap())
    );
    assert!(page.text.starts_with("# hotdesk\n\n> "), "{}", page.text);
    let links: Vec<&str> = page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 3, "{links:?}");
    for link in links {
        let path = link.strip_prefix(&house.base).expect("ours");
        assert_eq!(shown(house.bare(Method::GET, path)).await.status, 200, "{link}");
    }
    assert!(page.text.contains(&format!("{}/settings/keys", house.base)), "{}", page.text);
    assert!(page.text.contains("/cli/auth/start") && !page.text.contains("agent-accounts"), "{}", page.text);

    let house = Simulation::boot_configured(crate::agent_accounts::config()).await;
    let page = shown(house.bare(Method::GET, "/llms.txt")).await;
    assert!(page.text.contains(&format!("`POST {}/api/agent-accounts`", house.base)), "{}", page.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a42_a_wrong_method_is_told_the_right_ones() {
    let house = Simulation::boot().await;
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
        let response = house.bare(wrong.clone(), path).send().await.expect("an answer");
        assert_eq!(response.headers()["allow"], right, "{wrong} {path}");
        let answer = answered(house.bare(wrong.clone(), path)).await;
        assert_eq!(
            (answer.status, &answer.body["error"]),
            (405, &json!("Method not allowed")),
            "{wrong} {path}"
        );
    }
}
