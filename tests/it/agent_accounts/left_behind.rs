//! May a person leave a computer of a workspace behind that it takes over? It stays the agent's, and goes with its account.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::auth::keys;
use hotdesk::controller::config::{Config, Limits, PlanSettings};
use hotdesk::store::find::Filter;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use super::claim::Scene;
use super::config;
use crate::harness::agent::answered;
use crate::harness::caller::id_of;

/// How long what was not chosen may take to go.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Agents have two computers, people one.
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
    let upload = scene.house.request_with(&scene.key, Method::POST, "/files/upload");
    let stored = answered(upload.multipart(form.part("file", part))).await;
    assert_eq!(stored.status, 200, "{}", stored.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_computer_that_is_not_chosen_stays_behind_and_goes_with_the_agent_s_account() {
    let mut scene = Scene::set_with(two_for_agents()).await;
    let order = json!({"workspace_id": scene.first, "name": "spare"});
    let made = answered(scene.house.request_with(&scene.key, Method::POST, "/computers").json(&order)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let spare = id_of(&made.body);
    upload(&scene, "for all", None).await;
    upload(&scene, "for one", Some(&spare)).await;
    let link = json!({"name": "live", "url": "rtmp://live.example.org/app", "key": "k"});
    let saved = scene.house.request_with(&scene.key, Method::POST, "/stream/connections").json(&link);
    assert_eq!(answered(saved).await.status, 201);
    let page = scene.show().await.text;
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

    let store = scene.house.store().await;
    let agent = store.holder(&keys::digest(&scene.key)).await.expect("a look").expect("a holder").account;
    let path = format!("/computers/{}", scene.computer);
    let before = scene.ask(&scene.key, Method::GET, &path).await.body;
    let mut form = scene.form().await;
    form.push((format!("computer.{spare}"), "take".to_owned()));
    let refused = scene.take(&form).await;
    assert_eq!(refused.status, 403, "the person's plan is for one: {}", refused.text);
    form.pop();
    let taken = scene.take(&form).await;
    assert_eq!(taken.status, 200, "{}", taken.text);

    let after = scene.ask(&scene.person_key, Method::GET, &path).await.body;
    assert_eq!((&after["status"], &after["instance_id"]), (&json!("running"), &before["instance_id"]));
    assert_ne!(after["vnc_password"], before["vnc_password"]);
    let left = format!("/computers/{spare}");
    for key in [&scene.key, &scene.person_key] {
        let refused = scene.ask(key, Method::GET, &left).await;
        assert!([403, 404].contains(&refused.status), "it is nobody's who may ask: {}", refused.body);
    }
    // What was meant for it alone stays with it.
    let listed =
        scene.ask(&scene.person_key, Method::GET, &format!("/files?projectId={}", scene.first)).await;
    let files = listed.body["files"].as_array().expect("a list");
    assert_eq!(files.len(), 1, "{}", listed.body);
    assert_eq!(files[0]["filename"], "for all");

    // The next start looks at once for what is to be removed.
    scene.house.restart().await;
    let gone = wait::until(TIMEOUT, || async {
        store.account(agent).await.expect("a look").is_none().then_some(())
    });
    assert!(gone.await.is_some(), "the agent's account is still there");
    assert_eq!(scene.ask(&scene.person_key, Method::GET, &left).await.status, 404);
    assert_eq!(scene.house.machines().len(), 1, "{:?}", scene.house.machines());
    let (mine, _) = store.computers(scene.person, &Filter::default()).await.expect("a look");
    let mine: Vec<String> = mine.iter().map(|computer| computer.id.to_string()).collect();
    assert_eq!(mine, [scene.computer.clone()]);
    assert_eq!(scene.ask(&scene.key, Method::GET, &path).await.body["status"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_claim_names_only_computers_of_what_it_takes() {
    let scene = Scene::set().await;
    let path = format!("/computers/{}", scene.computer);
    let before = scene.ask(&scene.key, Method::GET, &path).await.body;
    let form = scene.form().await;
    let [csrf, workspace, _, computer] = [0, 1, 2, 3].map(|at| form[at].clone());
    let named = |prefix: &str, id: &str| (format!("{prefix}.{id}"), "take".to_owned());
    let elsewhere = scene.house.workspace("operator's").await;
    let others = scene.house.computer(&elsewhere, "operator's").await;
    for bad in [
        // There is no such computer, it is another account's, and this is no id.
        vec![csrf.clone(), workspace.clone(), computer.clone(), named("computer", &elsewhere)],
        vec![csrf.clone(), workspace.clone(), named("computer", &others)],
        vec![csrf.clone(), workspace.clone(), named("computer", "all")],
    ] {
        let refused = scene.take(&bad).await;
        assert_eq!(refused.status, 400, "{bad:?}: {}", refused.text);
        let now = scene.ask(&scene.key, Method::GET, &path).await.body;
        for same in ["workspace_id", "user_id", "status", "vnc_password"] {
            assert_eq!(now[same], before[same], "{bad:?}: {same} is half done");
        }
        assert_eq!(scene.show().await.status, 200, "{bad:?}: the link holds");
    }
    // Of a workspace that is not named no computer is taken: so a page sends it.
    let taken = scene.take(&[csrf, named("workspace", &scene.second), computer]).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let store = scene.house.store().await;
    let (mine, _) = store.computers(scene.person, &Filter::default()).await.expect("a look");
    assert!(mine.is_empty(), "{mine:?}");
}
