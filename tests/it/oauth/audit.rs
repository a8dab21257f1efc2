//! Does the log tell what people and their clients did with connections, and no token?

use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{Scene, csrf, form, pair, shown};

/// The lines about an action, the oldest first.
async fn acts(scene: &Scene) -> Vec<Value> {
    let log = scene.house.get("/audit?limit=500").await.body;
    let lines = log["entries"].as_array().expect("entries").iter().rev();
    lines.filter(|line| line["action"].is_string()).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a58_a63_the_log_tells_the_life_of_a_connection() {
    let scene = Scene::set().await;
    let refused = scene.me.submit(&scene.asking(&[]), &[("decision", "deny")]).await;
    assert_eq!(refused.status, 303);
    let (first, refresh) = scene.connect().await;
    let (second, next) = pair(&scene.refresh(&refresh).await.body);
    // Used twice: the connection ends, once.
    for token in [&refresh, &refresh, &next] {
        assert_eq!(scene.refresh(token).await.status, 400);
    }
    // Its client gives one back, and its person ends one.
    let (third, _) = scene.connect().await;
    for _ in 0..2 {
        let revoke = scene.house.bare(Method::POST, "/oauth/revoke");
        let revoked = shown(form(revoke, &[("token", &third), ("client_id", &scene.client)])).await;
        assert_eq!(revoked.status, 200);
    }
    scene.connect().await;
    let page = scene.me.get("/settings/connections").await.text;
    let (_, rest) = page.split_once("action=\"/settings/connections/").expect("a form");
    let id = rest.split('/').next().expect("an id");
    let end = format!("/settings/connections/{id}/end");
    assert_eq!(scene.me.post(&end, &[("csrf", csrf(&page))]).await.status, 303);

    let acts = acts(&scene).await;
    let told: Vec<(&str, &str)> = acts
        .iter()
        .map(|line| (line["action"].as_str().expect("a word"), line["result"].as_str().expect("a word")))
        .collect();
    let begun = [("consent_given", "done"), ("token_issued", "done")];
    let expected = [
        &[("sign_in", "done"), ("consent_refused", "done")][..],
        &begun,
        &[("token_refreshed", "done"), ("token_reused", "failed")],
        &begun,
        &[("connection_revoked", "done")],
        &begun,
        &[("connection_revoked", "done")],
    ];
    assert_eq!(told, expected.concat());
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
    // Whoever reads can follow one connection: its id is the consent's target, and the credential of what its client did.
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
        assert!(!text.contains(secret.as_str()), "the log holds a token");
    }
}
