//! Does no operation answer without a known key in the one place for it? (access.md A2, A7-A9)

use hotdesk::controller::auth::keys;
use reqwest::Method;
use serde_json::{Value, json};

use super::Scene;
use crate::harness::agent::answered;

#[tokio::test(flavor = "multi_thread")]
async fn a2_a8_a9_no_operation_answers_without_one_known_key() {
    let scene = Scene::set().await;
    let unknown = format!("Bearer {}", keys::fresh().reveal());
    let real = format!("Bearer {}", scene.house.key());
    let mistyped = format!("Bearer {}x", scene.house.key());
    let cases: [(&[&str], &str); 9] = [
        (&[], "Missing API key"),
        (&[&unknown], "Invalid API key"),
        (&[&mistyped], "Invalid API key"),
        (&["Bearer sk_live_"], "Invalid API key"),
        (&["Bearer"], "Invalid API key"),
        (&["Basic c2tfbGl2ZV8="], "Invalid API key"),
        (&[scene.house.key()], "Invalid API key"),
        (&[&real, &real], "Invalid API key"),
        (&[&real, &unknown], "Invalid API key"),
    ];
    for operation in scene.guarded() {
        for (headers, sentence) in cases {
            let (mut request, _) = scene.request(&operation);
            for header in headers {
                request = request.header("authorization", *header);
            }
            let response = request.send().await.expect("an answer");
            // interface.md, errors of suspend.
            let own = headers.is_empty() && operation.path.ends_with("/suspend");
            let sentence = if own { "Authentication required" } else { sentence };
            let name = format!("{} with {} headers, {sentence}", operation.name(), headers.len());
            assert_eq!(response.status(), 401, "{name}");
            let challenge = if headers.is_empty() { "Bearer" } else { "Bearer error=\"invalid_token\"" };
            assert_eq!(response.headers()["www-authenticate"], challenge, "{name}");
            let body: Value = response.json().await.expect("JSON");
            assert!(
                body["error"].as_str().is_some_and(|error| error.starts_with(sentence)),
                "{name}: {body}"
            );
            assert!(body["request_id"].is_string(), "{name}: {body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a_key_in_any_other_place_is_no_key() {
    let scene = Scene::set().await;
    let key = scene.house.key();
    for operation in scene.guarded() {
        let bare = || scene.request(&operation).0;
        for request in [
            bare().query(&[("api_key", key), ("access_token", key), ("token", key), ("key", key)]),
            bare().header("x-api-key", key).header("apikey", key).header("x-orgo-api-key", key),
            bare().header("cookie", format!("api_key={key}; hotdesk={key}; authorization=Bearer {key}")),
            bare().header("proxy-authorization", format!("Bearer {key}")),
        ] {
            let answer = answered(request).await;
            assert_eq!(answer.status, 401, "{}: {}", operation.name(), answer.body);
            let error = answer.body["error"].as_str().unwrap_or_default();
            assert!(["Missing API key", "Authentication required"].contains(&error), "{}", answer.body);
        }
    }
    let body = scene.house.bare(Method::POST, "/api/workspaces").json(&json!({"name": "x", "api_key": key}));
    assert_eq!(answered(body).await.status, 401);
}
