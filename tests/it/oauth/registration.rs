//! Dynamic client registration and its limits: A72-A74 (docs/authentication-rules.md).

use reqwest::Method;
use serde_json::json;

use super::scene::{REDIRECT, Scene, fetch_page, parameter};
use crate::harness::agent::fetch_json;

#[tokio::test(flavor = "multi_thread")]
async fn a72_a_client_is_told_what_it_is_registered_as_and_gets_no_secret() {
    let scene = Scene::boot().await;
    let metadata = json!({
        "client_name": "  Pilot ", "redirect_uris": [REDIRECT, "http://127.0.0.1/cb"], "scope": "everything",
        "token_endpoint_auth_method": "client_secret_post", "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"], "logo_uri": "https://app.example/x.png", "unknown": {"a": [1]},
    });
    let page = fetch_page(scene.controller.bare(Method::POST, "/oauth/register").json(&metadata)).await;
    assert_eq!(
        (page.status, &page.headers["cache-control"]),
        (201, &"no-store".parse().unwrap()),
        "{}",
        page.text
    );
    let body: serde_json::Value = serde_json::from_str(&page.text).expect("JSON");
    let fields: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(
        fields,
        [
            "client_id",
            "client_id_issued_at",
            "client_name",
            "grant_types",
            "redirect_uris",
            "response_types",
            "scope",
            "token_endpoint_auth_method"
        ]
    );
    assert_eq!((&body["client_name"], &body["scope"]), (&json!("Pilot"), &json!("mcp:tools")));
    assert_eq!(body["redirect_uris"], metadata["redirect_uris"]);
    assert_eq!(body["token_endpoint_auth_method"], "none");
    let again = scene.register(metadata).await;
    assert_ne!(again.body["client_id"], body["client_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a73_what_may_not_be_registered_is_named() {
    let scene = Scene::boot().await;
    for redirect in [
        "javascript:alert(1)",
        "javascript://app/%0aalert(1)",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "ms-msdt://x/y",
        "http://app.example/cb",
        "https://*.example/cb",
        "https://app.example/cb#x",
    ] {
        let refused = scene.register(json!({"redirect_uris": [REDIRECT, redirect]})).await;
        assert_eq!(
            (refused.status, &refused.body["error"]),
            (400, &json!("invalid_redirect_uri")),
            "{redirect}"
        );
    }
    for metadata in [
        json!({"redirect_uris": REDIRECT}),
        json!({"redirect_uris": [REDIRECT], "client_name": "x".repeat(200)}),
        json!({"redirect_uris": [REDIRECT], "grant_types": ["password"]}),
        json!([1]),
    ] {
        let refused = scene.register(metadata.clone()).await;
        assert_eq!(
            (refused.status, &refused.body["error"]),
            (400, &json!("invalid_client_metadata")),
            "{metadata}"
        );
    }
    let huge = scene.controller.bare(Method::POST, "/oauth/register").body(vec![b' '; 20_000]);
    assert_eq!(fetch_json(huge).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a47_a64_a_native_app_gets_its_code_at_its_own_scheme_and_the_person_sees_the_address() {
    let scene = Scene::boot().await;
    for (redirect, scheme) in [
        ("cursor://anysphere.cursor-retrieval/oauth/user-x/callback", "cursor:"),
        ("com.example.app:/oauth2redirect?from=hotdesk", "com.example.app:"),
    ] {
        let registered = scene.register(json!({"redirect_uris": [redirect]})).await;
        assert_eq!(registered.status, 201, "{}", registered.body);
        assert_eq!(registered.body["redirect_uris"], json!([redirect]));
        let client = registered.body["client_id"].as_str().expect("an id");
        let url = scene.authorize_url(&[("client_id", Some(client)), ("redirect_uri", Some(redirect))]);
        let page = scene.me.get(&url).await;
        assert_eq!(page.status, 200, "{}", page.text);
        assert!(page.text.contains(&format!("{redirect} (an app on this machine)")), "{}", page.text);
        assert!(page.text.contains("any other program can pretend to be it"), "{}", page.text);
        let policy = page.headers["content-security-policy"].to_str().expect("text");
        assert!(policy.ends_with(&format!("form-action 'self' {scheme}")), "{policy}");
        let allowed = [("decision", "allow"), ("workspace", scene.workspace.as_str())];
        let parameters = scene.me.submit(&url, &allowed).await.redirect_parameters(redirect);
        assert!(parameter(&parameters, "code").is_some(), "{parameters:?}");
        // Another address of the same app is not the registered one.
        let other = format!("{redirect}x");
        let url = scene.authorize_url(&[("client_id", Some(client)), ("redirect_uri", Some(&other))]);
        assert_eq!(scene.me.get(&url).await.status, 400, "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a74_registrations_are_counted_and_a_client_that_nobody_lets_in_is_forgotten() {
    let scene = Scene::boot().await;
    let unused = scene.register(json!({"redirect_uris": [REDIRECT]})).await.body["client_id"].clone();
    let (unused, used) = (unused.as_str().expect("an id"), scene.client.clone());
    // A client with a code that it never redeemed.
    let idle = scene.register(json!({"redirect_uris": [REDIRECT]})).await.body["client_id"].clone();
    let idle = idle.as_str().expect("an id");
    scene.connect().await;
    let authorize_url = |client: &str| scene.authorize_url(&[("client_id", Some(client))]);
    let allowed = [("decision", "allow"), ("workspace", scene.workspace.as_str())];
    assert_eq!(scene.me.submit(&authorize_url(idle), &allowed).await.status, 303);
    assert_eq!(scene.me.get(&authorize_url(unused)).await.status, 200);
    scene.age("UPDATE oauth_grants SET code_expires_at = code_expires_at - 60000").await;
    scene.age("UPDATE oauth_clients SET created_at = created_at - 25 * 3600000").await;
    assert_eq!(scene.register(json!({"redirect_uris": [REDIRECT]})).await.status, 201);
    assert_eq!(scene.me.get(&authorize_url(unused)).await.status, 400);
    assert_eq!(scene.me.get(&authorize_url(idle)).await.status, 400);
    assert_eq!(scene.me.get(&authorize_url(&used)).await.status, 200);

    let mut refused = None;
    for _ in 0..40 {
        // A forwarded address does not avoid the limit.
        let request =
            scene.controller.bare(Method::POST, "/oauth/register").header("x-forwarded-for", "203.0.113.9");
        let response = request.json(&json!({"redirect_uris": [REDIRECT]})).send().await.expect("an answer");
        if response.status() == 429 {
            refused = Some(response);
            break;
        }
        assert_eq!(response.status(), 201);
    }
    let refused = refused.expect("a response 429");
    let wait: u64 = refused.headers()["retry-after"].to_str().expect("text").parse().expect("whole seconds");
    assert!((1..=60).contains(&wait), "{wait}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a74_when_too_many_are_registered_the_oldest_without_a_connection_makes_room() {
    let scene = Scene::boot().await;
    scene.connect().await;
    let first = scene.register(json!({"redirect_uris": [REDIRECT]})).await.body["client_id"].clone();
    let authorize_url = scene.authorize_url(&[("client_id", first.as_str())]);
    scene
        .age(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1998) \
             INSERT INTO oauth_clients (id, redirect_uris, created_at, used_at) \
             SELECT 'filler-' || i, '[\"https://app.example/cb\"]', (SELECT MAX(created_at) + 1 FROM oauth_clients), NULL FROM n",
        )
        .await;
    assert_eq!(scene.me.get(&authorize_url).await.status, 200);
    assert_eq!(scene.register(json!({"redirect_uris": [REDIRECT]})).await.status, 201);
    assert_eq!(scene.me.get(&authorize_url).await.status, 400, "the oldest client is removed");
    assert_eq!(scene.me.get(&scene.authorize_url(&[])).await.status, 200, "a client with a connection stays");
    // When all have been used, the least recently used one is removed, unless it has a connection.
    scene.age("UPDATE oauth_clients SET used_at = created_at").await;
    assert_eq!(scene.register(json!({"redirect_uris": [REDIRECT]})).await.status, 201);
    assert_eq!(scene.me.get(&scene.authorize_url(&[])).await.status, 200, "a connected one stays");
    scene
        .age(
            "INSERT INTO oauth_grants (id, account_id, workspace_id, client_id, redirect_uri, resource, challenge, code, \
             code_expires_at, refresh, created_at, expires_at) SELECT 'of ' || c.id, g.account_id, g.workspace_id, c.id, \
             g.redirect_uri, g.resource, g.challenge, 'of ' || c.id, g.code_expires_at, 'refresh', g.created_at, \
             g.expires_at FROM oauth_clients c, oauth_grants g",
        )
        .await;
    let full = scene.register(json!({"redirect_uris": [REDIRECT]})).await;
    assert_eq!(full.status, 503, "{}", full.body);
}
