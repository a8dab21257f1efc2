//! Claims that leave out a computer of a chosen workspace.
//!
//! The computer stays with the agent and is removed with the agent's account.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::config::{Config, Limits, PlanSettings};
use hotdesk::controller::identity::auth::keys;
use hotdesk::store::fleet::find::ComputerFilter;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use super::claim::Scene;
use super::config;
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;

/// Longest time until contents that were not chosen are removed.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A configuration that gives agents two computers and people one.
fn two_for_agents() -> Config {
    let agents = PlanSettings { max_computers: Some(2), ..PlanSettings::default() };
    let limits = Limits { max_computers: 1, ..Limits::default() };
    Config { limits, plans: [("agent".to_owned(), agents)].into(), ..config() }
}

/// Stores a file in the first workspace, for all of its computers or for one.
async fn upload(scene: &Scene, name: &str, computer: Option<&str>) {
    let part = Part::text("hi").file_name(name.to_owned());
    let mut form = Form::new().text("projectId", scene.first.clone());
    if let Some(computer) = computer {
        form = form.text("desktopId", computer.to_owned());
    }
    let upload = scene.controller.request_with(&scene.key, Method::POST, "/files/upload");
    let stored = fetch_json(upload.multipart(form.part("file", part))).await;
    assert_eq!(stored.status, 200, "{}", stored.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_computer_that_is_not_chosen_stays_behind_and_goes_with_the_agent_s_account() {
    let mut scene = Scene::with_config(two_for_agents()).await;
    let body = json!({"workspace_id": scene.first, "name": "spare"});
    let created =
        fetch_json(scene.controller.request_with(&scene.key, Method::POST, "/computers").json(&body)).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let spare = id_of(&created.body);
    upload(&scene, "for all", None).await;
    upload(&scene, "for one", Some(&spare)).await;
    let link = json!({"name": "live", "url": "rtmp://live.example.org/app", "key": "k"});
    let saved = scene.controller.request_with(&scene.key, Method::POST, "/stream/connections").json(&link);
    assert_eq!(fetch_json(saved).await.status, 201);
    let page = scene.get_page().await.text;
    for part in [
        format!("name=\"computer.{}\"", scene.computer).as_str(),
        format!("name=\"computer.{spare}\"").as_str(),
        "spare (running, ",
        "2 stored files",
        "no computers, 0 stored files",
        "Saved streaming connections: live.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }

    let store = scene.controller.store().await;
    let agent =
        store.key_owner(&keys::digest(&scene.key)).await.expect("a query result").expect("a holder").account;
    let path = format!("/computers/{}", scene.computer);
    let before = scene.request(&scene.key, Method::GET, &path).await.body;
    let mut form = scene.form().await;
    form.push((format!("computer.{spare}"), "take".to_owned()));
    let refused = scene.submit(&form).await;
    assert_eq!(refused.status, 403, "the person's plan has one computer: {}", refused.text);
    form.pop();
    let taken = scene.submit(&form).await;
    assert_eq!(taken.status, 200, "{}", taken.text);

    let after = scene.request(&scene.person_key, Method::GET, &path).await.body;
    assert_eq!((&after["status"], &after["instance_id"]), (&json!("running"), &before["instance_id"]));
    assert_ne!(after["vnc_password"], before["vnc_password"]);
    let left = format!("/computers/{spare}");
    for key in [&scene.key, &scene.person_key] {
        let refused = scene.request(key, Method::GET, &left).await;
        assert!([403, 404].contains(&refused.status), "neither key may read it: {}", refused.body);
    }
    // A file for that computer alone stays with it.
    let listed =
        scene.request(&scene.person_key, Method::GET, &format!("/files?projectId={}", scene.first)).await;
    let files = listed.body["files"].as_array().expect("a list");
    assert_eq!(files.len(), 1, "{}", listed.body);
    assert_eq!(files[0]["filename"], "for all");

    // A start looks at once for pending removals.
    scene.controller.restart().await;
    let gone = wait::until(TIMEOUT, || async {
        store.account(agent).await.expect("a query result").is_none().then_some(())
    });
    assert!(gone.await.is_some(), "the agent's account must be removed");
    assert_eq!(scene.request(&scene.person_key, Method::GET, &left).await.status, 404);
    assert_eq!(scene.controller.machines().len(), 1, "{:?}", scene.controller.machines());
    let (own_computers, _) =
        store.computers(scene.person, &ComputerFilter::default()).await.expect("a query result");
    let own_computers: Vec<String> = own_computers.iter().map(|computer| computer.id.to_string()).collect();
    assert_eq!(own_computers, [scene.computer.clone()]);
    assert_eq!(scene.request(&scene.key, Method::GET, &path).await.body["status"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_claim_names_only_computers_of_what_it_takes() {
    let scene = Scene::new().await;
    let path = format!("/computers/{}", scene.computer);
    let before = scene.request(&scene.key, Method::GET, &path).await.body;
    let form = scene.form().await;
    let [csrf, workspace, _, computer] = [0, 1, 2, 3].map(|at| form[at].clone());
    let named = |prefix: &str, id: &str| (format!("{prefix}.{id}"), "take".to_owned());
    let other_workspace = scene.controller.workspace("operator's").await;
    let others = scene.controller.computer(&other_workspace, "operator's").await;
    for bad in [
        // An unknown computer, another account's computer, and an invalid id.
        vec![csrf.clone(), workspace.clone(), computer.clone(), named("computer", &other_workspace)],
        vec![csrf.clone(), workspace.clone(), named("computer", &others)],
        vec![csrf.clone(), workspace.clone(), named("computer", "all")],
    ] {
        let refused = scene.submit(&bad).await;
        assert_eq!(refused.status, 400, "{bad:?}: {}", refused.text);
        let now = scene.request(&scene.key, Method::GET, &path).await.body;
        for same in ["workspace_id", "user_id", "status", "vnc_password"] {
            assert_eq!(now[same], before[same], "{bad:?}: {same} must be unchanged");
        }
        assert_eq!(scene.get_page().await.status, 200, "{bad:?}: the link must stay valid");
    }
    // A page may send a computer of a workspace that is not chosen; the claim ignores it.
    let taken = scene.submit(&[csrf, named("workspace", &scene.second), computer]).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let store = scene.controller.store().await;
    let (own_computers, _) =
        store.computers(scene.person, &ComputerFilter::default()).await.expect("a query result");
    assert!(own_computers.is_empty(), "{own_computers:?}");
}
