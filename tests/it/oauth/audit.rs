//! Audit log of MCP connections: actions of people and of clients, and no token.

use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{Scene, csrf, fetch_page, form, token_pair};

/// The entries about an action, oldest first.
async fn acts(scene: &Scene) -> Vec<Value> {
    let log = scene.controller.get("/audit?limit=500").await.body;
    let lines = log["entries"].as_array().expect("entries").iter().rev();
    lines.filter(|line| line["action"].is_string()).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a58_a63_the_log_tells_the_life_of_a_connection() {
    let scene = Scene::boot().await;
    let refused = scene.me.submit(&scene.authorize_url(&[]), &[("decision", "deny")]).await;
    assert_eq!(refused.status, 303);
    let (first, refresh) = scene.connect().await;
    let (second, next) = token_pair(&scene.refresh(&refresh).await.body);
    // The second use of a refresh token ends the connection; the log has one entry for it.
    for token in [&refresh, &refresh, &next] {
        assert_eq!(scene.refresh(token).await.status, 400);
    }
    // A client revokes one connection, and its person ends another.
    let (third, _) = scene.connect().await;
    for _ in 0..2 {
        let revoke = scene.controller.bare(Method::POST, "/oauth/revoke");
        let revoked = fetch_page(form(revoke, &[("token", &third), ("client_id", &scene.client)])).await;
        assert_eq!(revoked.status, 200);
    }
    scene.connect().await;
    let page = scene.me.get("/settings/connections").await.text;
    let (_, rest) = page.split_once("action=\"/settings/connections/").expect("a form");
    let id = rest.split('/').next().expect("an id");
    let end = format!("/settings/connections/{id}/end");
    assert_eq!(scene.me.post(&end, &[("csrf", csrf(&page))]).await.status, 303);

    let acts = acts(&scene).await;
    let results: Vec<(&str, &str)> = acts
        .iter()
        .map(|line| (line["action"].as_str().expect("a word"), line["result"].as_str().expect("a word")))
        .collect();
    let connected = [("consent_given", "done"), ("token_issued", "done")];
    let expected = [
        &[("sign_in", "done"), ("consent_refused", "done")][..],
        &connected,
        &[("token_refreshed", "done"), ("token_reused", "failed")],
        &connected,
        &[("connection_revoked", "done")],
        &connected,
        &[("connection_revoked", "done")],
    ];
    assert_eq!(results, expected.concat());
    let account = json!(scene.account.to_string());
    for line in &acts {
        assert_eq!(line["account_id"], account, "{line}");
    }
    for line in &acts[1..] {
        assert_eq!(line["client"], "Pilot", "{line}");
    }
    for line in &acts[2..] {
        assert_eq!(line["workspace_id"], json!(scene.workspace), "{line}");
    }
    // The id of a connection is the target of its consent, and the credential of its client's entries.
    let connection = &acts[2]["target_id"];
    assert!(connection.is_string());
    for line in &acts[3..6] {
        assert_eq!((&line["credential"], &line["credential_id"]), (&json!("grant"), connection), "{line}");
        assert_eq!(&line["target_id"], connection, "{line}");
    }
    let last = acts.last().expect("a line");
    assert_eq!((&last["credential"], &last["target_id"]), (&json!("session"), &json!(id)));
    let text = json!(acts).to_string();
    for secret in [&first, &refresh, &second, &next, &third] {
        assert!(!text.contains(secret.as_str()), "the log contains a token");
    }
}
