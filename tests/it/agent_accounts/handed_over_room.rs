//! Is nothing taken over for which the person's plan has no room, and does the refusal leave all as it was? (threats.md T23, T29)

use hotdesk::controller::config::{Config, PlanSettings};
use hotdesk::domain::api_key::MAX_KEYS;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use super::claim::Scene;
use super::config;
use crate::harness::agent::answered;
use crate::plans::give_plan;

/// Agents make accounts, and people have plans with room for little.
fn with_plans() -> Config {
    let few = PlanSettings { max_workspaces: Some(1), ..PlanSettings::default() };
    let files = PlanSettings { max_files: Some(1), ..PlanSettings::default() };
    let bytes = PlanSettings { max_files: Some(2), max_files_gb: Some(1), ..PlanSettings::default() };
    let roomy = PlanSettings { max_workspaces: Some(2), max_files: Some(2), ..PlanSettings::default() };
    let plans = [("few", few), ("files", files), ("bytes", bytes), ("roomy", roomy)];
    Config { plans: plans.map(|(name, plan)| (name.to_owned(), plan)).into(), ..config() }
}

/// The claim is refused with these words, and everything is the agent's as before.
async fn refused(scene: &Scene, form: &[(String, String)], why: &str) {
    let refused = scene.take(form).await;
    assert_eq!(refused.status, 403, "{why}: {}", refused.text);
    assert!(refused.text.contains(why), "{why}: {}", refused.text);
    assert_eq!(scene.show().await.status, 200, "{why}: the link holds");
    let path = format!("/workspaces/{}", scene.first);
    assert_eq!(scene.ask(&scene.key, Method::GET, &path).await.status, 200, "{why}");
    assert_eq!(scene.ask(&scene.person_key, Method::GET, &path).await.status, 403, "{why}");
}

async fn taken(scene: &Scene, form: &[(String, String)]) {
    let taken = scene.take(form).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let path = format!("/workspaces/{}", scene.first);
    assert_eq!(scene.ask(&scene.person_key, Method::GET, &path).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_workspaces_and_files_past_the_person_s_plan_are_not_taken_over() {
    let settings = with_plans();
    let scene = Scene::set_with(settings.clone()).await;
    let own = scene.house.request_with(&scene.person_key, Method::POST, "/workspaces");
    assert_eq!(answered(own.json(&json!({"name": "own"}))).await.status, 201);
    for name in ["one", "two"] {
        let part = Part::text("hi").file_name(name);
        let form = Form::new().text("projectId", scene.first.clone()).part("file", part);
        let upload = scene.house.request_with(&scene.key, Method::POST, "/files/upload").multipart(form);
        let stored = answered(upload).await;
        assert_eq!(stored.status, 200, "{}", stored.body);
    }
    let form = scene.form().await;
    give_plan(&scene.house, &settings, scene.person, "few").await;
    refused(&scene, &form, "at most 1 workspace,").await;
    give_plan(&scene.house, &settings, scene.person, "files").await;
    refused(&scene, &form, "room for 1 stored file,").await;
    give_plan(&scene.house, &settings, scene.person, "bytes").await;
    scene.house.sql(&format!("UPDATE files SET size_bytes = {} WHERE filename = 'one'", 1 << 30)).await;
    refused(&scene, &form, "1 GB for stored files").await;
    scene.house.sql("UPDATE files SET size_bytes = 2").await;
    give_plan(&scene.house, &settings, scene.person, "roomy").await;
    taken(&scene, &form).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_a_key_for_which_the_person_has_no_room_is_not_kept() {
    let scene = Scene::set().await;
    let form = scene.form().await;
    // The person has one already.
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_KEYS})");
    let values = format!(
        "printf('00000000-0000-4000-8000-%012x', i), '{}', 'more', 'digest ' || i, '0000', 1",
        scene.person
    );
    let into = "api_keys (id, account_id, name, digest, last_four, created_at)";
    scene.house.sql(&format!("INSERT INTO {into} {numbers} SELECT {values} FROM n")).await;
    refused(&scene, &form, &format!("has {MAX_KEYS} API keys")).await;
    scene.house.sql("DELETE FROM api_keys WHERE digest = 'digest 2'").await;
    taken(&scene, &form).await;
}
