//! Claims that exceed the person's plan: refused without any effect (T23, T29, docs/security.md).

use hotdesk::controller::config::{Config, PlanSettings};
use hotdesk::domain::identity::api_key::MAX_KEYS;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use super::claim::Scene;
use super::config;
use crate::harness::agent::fetch_json;
use crate::plans::give_plan;

/// A configuration with agent accounts and small plans for people.
fn with_plans() -> Config {
    let few = PlanSettings { max_workspaces: Some(1), ..PlanSettings::default() };
    let files = PlanSettings { max_files: Some(1), ..PlanSettings::default() };
    let bytes = PlanSettings { max_files: Some(2), max_files_gb: Some(1), ..PlanSettings::default() };
    let roomy = PlanSettings { max_workspaces: Some(2), max_files: Some(2), ..PlanSettings::default() };
    let plans = [("few", few), ("files", files), ("bytes", bytes), ("roomy", roomy)];
    Config { plans: plans.map(|(name, plan)| (name.to_owned(), plan)).into(), ..config() }
}

/// Asserts that the claim is refused with this message and that everything still belongs to the agent.
async fn expect_refused(scene: &Scene, form: &[(String, String)], reason: &str) {
    let expect_refused = scene.submit(form).await;
    assert_eq!(expect_refused.status, 403, "{reason}: {}", expect_refused.text);
    assert!(expect_refused.text.contains(reason), "{reason}: {}", expect_refused.text);
    assert_eq!(scene.get_page().await.status, 200, "{reason}: the link must stay valid");
    let path = format!("/workspaces/{}", scene.first);
    assert_eq!(scene.request(&scene.key, Method::GET, &path).await.status, 200, "{reason}");
    assert_eq!(scene.request(&scene.person_key, Method::GET, &path).await.status, 403, "{reason}");
}

async fn expect_taken(scene: &Scene, form: &[(String, String)]) {
    let expect_taken = scene.submit(form).await;
    assert_eq!(expect_taken.status, 200, "{}", expect_taken.text);
    let path = format!("/workspaces/{}", scene.first);
    assert_eq!(scene.request(&scene.person_key, Method::GET, &path).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_workspaces_and_files_past_the_person_s_plan_are_not_taken_over() {
    let settings = with_plans();
    let scene = Scene::with_config(settings.clone()).await;
    let own = scene.controller.request_with(&scene.person_key, Method::POST, "/workspaces");
    assert_eq!(fetch_json(own.json(&json!({"name": "own"}))).await.status, 201);
    for name in ["one", "two"] {
        let part = Part::text("hi").file_name(name);
        let form = Form::new().text("projectId", scene.first.clone()).part("file", part);
        let upload = scene.controller.request_with(&scene.key, Method::POST, "/files/upload").multipart(form);
        let stored = fetch_json(upload).await;
        assert_eq!(stored.status, 200, "{}", stored.body);
    }
    let form = scene.form().await;
    give_plan(&scene.controller, &settings, scene.person, "few").await;
    expect_refused(&scene, &form, "at most 1 workspace,").await;
    give_plan(&scene.controller, &settings, scene.person, "files").await;
    expect_refused(&scene, &form, "at most 1 stored file,").await;
    give_plan(&scene.controller, &settings, scene.person, "bytes").await;
    scene.controller.sql(&format!("UPDATE files SET size_bytes = {} WHERE filename = 'one'", 1 << 30)).await;
    expect_refused(&scene, &form, "1 GB for stored files").await;
    scene.controller.sql("UPDATE files SET size_bytes = 2").await;
    give_plan(&scene.controller, &settings, scene.person, "roomy").await;
    expect_taken(&scene, &form).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_a_key_for_which_the_person_has_no_room_is_not_kept() {
    let scene = Scene::new().await;
    let form = scene.form().await;
    // The person already has one key.
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_KEYS})");
    let values = format!(
        "printf('00000000-0000-4000-8000-%012x', i), '{}', 'more', 'digest ' || i, '0000', 1",
        scene.person
    );
    let into = "api_keys (id, account_id, name, digest, last_four, created_at)";
    scene.controller.sql(&format!("INSERT INTO {into} {numbers} SELECT {values} FROM n")).await;
    expect_refused(&scene, &form, &format!("has {MAX_KEYS} API keys")).await;
    scene.controller.sql("DELETE FROM api_keys WHERE digest = 'digest 2'").await;
    expect_taken(&scene, &form).await;
}
