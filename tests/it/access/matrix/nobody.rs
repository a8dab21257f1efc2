//! Requests without a valid key in the one accepted place (A2, A7-A9, docs/authentication-rules.md).

use hotdesk::controller::identity::auth::keys;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Scene, error_fields};
use crate::harness::agent::fetch_json;
use crate::harness::browser::Browser;

#[tokio::test(flavor = "multi_thread")]
async fn a2_a8_a9_no_operation_answers_without_one_known_key() {
    let scene = Scene::new().await;
    let unknown = format!("Bearer {}", keys::generate().reveal());
    let real = format!("Bearer {}", scene.controller.key());
    let mistyped = format!("Bearer {}x", scene.controller.key());
    let cases: [(&[&str], &str); 9] = [
        (&[], "Missing API key"),
        (&[&unknown], "Invalid API key"),
        (&[&mistyped], "Invalid API key"),
        (&["Bearer sk_live_"], "Invalid API key"),
        (&["Bearer"], "Invalid API key"),
        (&["Basic c2tfbGl2ZV8="], "Invalid API key"),
        (&[scene.controller.key()], "Invalid API key"),
        (&[&real, &real], "Invalid API key"),
        (&[&real, &unknown], "Invalid API key"),
    ];
    for operation in scene.guarded_operations() {
        for (headers, sentence) in cases {
            let (mut request, _) = scene.request(&operation);
            for header in headers {
                request = request.header("authorization", *header);
            }
            let response = request.send().await.expect("an answer");
            // Suspend has its own sentence for a missing key (docs/lifecycle.md).
            let own = headers.is_empty() && operation.path.ends_with("/suspend");
            let sentence = if own { "Authentication required" } else { sentence };
            let name = format!("{} with {} headers, {sentence}", operation.name(), headers.len());
            assert_eq!(response.status(), 401, "{name}");
            let challenge = if headers.is_empty() { "Bearer" } else { "Bearer error=\"invalid_token\"" };
            assert_eq!(response.headers()["www-authenticate"], challenge, "{name}");
            let body = error_fields(&response.json::<Value>().await.expect("JSON"));
            assert!(
                body["error"].as_str().is_some_and(|error| error.starts_with(sentence)),
                "{name}: {body}"
            );
            assert!(body["request_id"].is_string(), "{name}: {body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a_key_in_any_other_place_is_no_key_and_neither_is_a_cookie() {
    let scene = Scene::new().await;
    let key = scene.controller.key();
    for operation in scene.guarded_operations() {
        let bare = || scene.request(&operation).0;
        for request in [
            bare().query(&[("api_key", key), ("access_token", key), ("token", key), ("key", key)]),
            bare().header("x-api-key", key).header("apikey", key).header("x-orgo-api-key", key),
            bare().header("cookie", format!("api_key={key}; hotdesk={key}; authorization=Bearer {key}")),
            bare().header("proxy-authorization", format!("Bearer {key}")),
        ] {
            let answer = fetch_json(request).await;
            assert_eq!(answer.status, 401, "{}: {}", operation.name(), answer.body);
            let body = error_fields(&answer.body);
            let error = body["error"].as_str().unwrap_or_default();
            assert!(["Missing API key", "Authentication required"].contains(&error), "{body}");
        }
    }
    // Nor is the cookie of a person who is signed in, also beside its form token.
    let browser = Browser::signed_in(&scene.controller.base, "viewer@localhost").await;
    for operation in scene.guarded_operations() {
        let request = scene.request(&operation).0.query(&[("csrf", &browser.csrf)]);
        let answer = fetch_json(request.header("cookie", format!("hotdesk={}", browser.session()))).await;
        assert_eq!(answer.status, 401, "{}: {}", operation.name(), answer.body);
    }
    let body =
        scene.controller.bare(Method::POST, "/api/workspaces").json(&json!({"name": "x", "api_key": key}));
    assert_eq!(fetch_json(body).await.status, 401);
}
