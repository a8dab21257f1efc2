//! Effects of a claim: new passwords, the person's plan, and the reach of kept keys.

use std::time::Duration;

use futures_util::SinkExt;
use hotdesk::base::clock;
use hotdesk::base::revocation_registry::Lease;
use hotdesk::base::wait;
use hotdesk::controller::config::{Config, PlanSettings};
use hotdesk::controller::identity::auth::keys;
use hotdesk::domain::billing::{BillingChange, Payment, Variant};
use hotdesk::domain::identity::access::{Credential, Role};
use hotdesk::store::Store;
use hotdesk::store::billing::payments::{BillingSubject, PaymentEvent};
use hotdesk::store::identity::members::Membership;
use hotdesk::store::identity::takeover::TakeoverSelection;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::claim::{Scene, key_to};
use super::config;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::id_of;
use crate::harness::socket::{Client, SocketEvent};
use crate::plans::{change_billing, give_plan};

/// Longest time until a socket ends whose password was replaced. The goal is one second; a busy machine gets
/// more, but less than the 15 s after which the controller repeats a missed revocation.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time until contents that were not chosen are removed.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A configuration with agent accounts and plans for people.
fn with_plans() -> Config {
    let trial = PlanSettings { trial_days: Some(7), ..PlanSettings::default() };
    let flat = PlanSettings { max_disk_gb: Some(4), ..PlanSettings::default() };
    let slow = PlanSettings { max_bandwidth_mbps: Some(10), ..PlanSettings::default() };
    let plans = [("trial", trial), ("flat", flat), ("slow", slow)];
    Config { plans: plans.map(|(name, plan)| (name.to_owned(), plan)).into(), ..config() }
}

/// A computer's record as a key of its owner reads it.
async fn record(scene: &Scene, key: &str) -> Value {
    let answer = scene.request(key, Method::GET, &format!("/computers/{}", scene.computer)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

async fn send(scene: &Scene, key: &str, path: &str, body: Value) -> HttpAnswer {
    fetch_json(scene.controller.request_with(key, Method::POST, path).json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_what_was_open_before_a_claim_ends_with_the_password_and_the_computer_goes_on() {
    let scene = Scene::new().await;
    let before = record(&scene, &scene.key).await;
    let events = |password: &Value| {
        format!("/desktops/{}/ws/events?token={}", scene.computer, password.as_str().expect("a password"))
    };
    let open =
        async |path: String| Client::open(scene.controller.address(), &path, &[]).await.expect("accepted");
    let mut watcher = open(events(&before["vnc_password"])).await;
    watcher.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("the socket is open");
    assert!(matches!(watcher.next().await, SocketEvent::Text(_)));

    let taken = scene.submit(&scene.form().await).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let code = tokio::time::timeout(REVOCATION_TIMEOUT, watcher.closed())
        .await
        .expect("the socket must close within the timeout");
    assert_eq!(code, 4401);
    assert_eq!(open(events(&before["vnc_password"])).await.closed().await, 4401);
    // The kept key belongs to the person now and reads the same record.
    let (by_person_key, by_agent_key) =
        (record(&scene, &scene.person_key).await, record(&scene, &scene.key).await);
    assert_ne!(by_person_key["vnc_password"], before["vnc_password"]);
    for same in ["instance_id", "status", "vnc_password"] {
        assert_eq!(by_agent_key[same], by_person_key[same], "{same}");
    }
    assert_eq!(
        (&by_person_key["instance_id"], &by_person_key["status"]),
        (&before["instance_id"], &json!("running"))
    );
    let mut again = open(events(&by_person_key["vnc_password"])).await;
    again.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("the socket is open");
    assert!(matches!(again.next().await, SocketEvent::Text(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_claimed_computer_is_paid_for_as_one_that_the_person_makes() {
    let settings = with_plans();
    let scene = Scene::with_config(settings.clone()).await;
    let subject = BillingSubject::Computer(scene.computer.parse().expect("an id"));
    let change = BillingChange::Computer {
        variant: Some(Variant::Hourly),
        payment: Some(Payment::Lapsed),
        trial_ends_at: None,
        device: Some(true),
    };
    change_billing(&scene.controller, &settings, subject, change).await;
    let before = record(&scene, &scene.key).await["billing"].clone();
    assert_eq!((&before["variant"], &before["payment"]), (&json!("hourly"), &json!("lapsed")));
    let before_the_claim = clock::now();
    give_plan(&scene.controller, &settings, scene.person, "trial").await;
    let taken = scene.submit(&scene.form().await).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let billing = record(&scene, &scene.person_key).await["billing"].clone();
    assert_eq!((&billing["variant"], &billing["payment"]), (&json!("trial"), &json!("current")));
    assert!(billing["trial_ends_at"].is_string(), "{billing}");
    assert_eq!(billing["device"], false);
    // A billing event from before the claim that arrives after it concerns the agent.
    let store = scene.controller.store().await;
    let event = PaymentEvent { id: "late", occurred_at: before_the_claim };
    let change = BillingChange::Computer {
        variant: None,
        payment: Some(Payment::Lapsed),
        trial_ends_at: None,
        device: Some(true),
    };
    let result = store.change_billing(Some(event), subject, &change, &settings.plans()).await.expect("taken");
    assert_eq!(result.outdated, ["payment", "device"]);
    assert_eq!(record(&scene, &scene.person_key).await["billing"], billing);
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_computer_that_is_larger_than_the_person_s_may_be_is_not_taken_over() {
    let settings = with_plans();
    let scene = Scene::with_config(settings.clone()).await;
    let before = record(&scene, &scene.key).await;
    let form = scene.form().await;
    for (plan, reason) in
        [("flat", "8 GB of disk exceed the 4"), ("slow", "a bandwidth of 50 Mbit/s exceeds the 10")]
    {
        give_plan(&scene.controller, &settings, scene.person, plan).await;
        let refused = scene.submit(&form).await;
        assert_eq!(refused.status, 403, "{plan}: {}", refused.text);
        assert!(refused.text.contains("desk") && refused.text.contains(reason), "{plan}: {}", refused.text);
        let now = record(&scene, &scene.key).await;
        for same in ["user_id", "vnc_password", "billing"] {
            assert_eq!(now[same], before[same], "{plan}: {same} must be unchanged");
        }
        assert_eq!(scene.get_page().await.status, 200, "the link must stay valid");
    }
    give_plan(&scene.controller, &settings, scene.person, "trial").await;
    assert_eq!(scene.submit(&form).await.status, 200);
}

/// Stores a file in a workspace and returns its id.
async fn upload(scene: &Scene, key: &str, workspace: &str, name: &str) -> String {
    let file = Part::text("hi").file_name(name.to_owned());
    let form = Form::new().text("projectId", workspace.to_owned()).part("file", file);
    let stored =
        fetch_json(scene.controller.request_with(key, Method::POST, "/files/upload").multipart(form)).await;
    assert_eq!(stored.status, 200, "{}", stored.body);
    id_of(&stored.body["file"])
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_claim_is_refused_for_what_comes_by_it_and_not_for_what_was_there() {
    let few = PlanSettings { max_computers: Some(0), max_files: Some(1), ..PlanSettings::default() };
    let settings = Config { plans: [("few".to_owned(), few)].into(), ..config() };
    let scene = Scene::with_config(settings.clone()).await;
    let own = send(&scene, &scene.person_key, "/workspaces", json!({"name": "own"})).await;
    let own = id_of(&own.body);
    let desk = json!({"workspace_id": own, "name": "own"});
    assert_eq!(send(&scene, &scene.person_key, "/computers", desk).await.status, 201);
    for name in ["one", "two"] {
        upload(&scene, &scene.person_key, &own, name).await;
    }
    let file = upload(&scene, &scene.key, &scene.second, "three").await;
    // The person's own contents already exceed this plan.
    give_plan(&scene.controller, &settings, scene.person, "few").await;
    let csrf = scene.form().await[0].clone();
    let form = [csrf, (format!("workspace.{}", scene.second), "take".to_owned())];
    let refused = scene.submit(&form).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.text.contains("at most 1 stored file,"), "{}", refused.text);
    let path = format!("/files/delete?id={file}");
    assert_eq!(scene.request(&scene.key, Method::DELETE, &path).await.status, 200);
    let taken = scene.submit(&form).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
}

/// The credential of a key.
async fn credential(store: &Store, key: &str) -> Credential {
    Credential::Key(store.key_owner(&keys::digest(key)).await.expect("a query result").expect("a holder").key)
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_what_goes_on_under_a_key_ends_unless_the_key_is_kept_for_all_that_it_reached() {
    for (alone, whole) in [(false, true), (true, true), (true, false)] {
        let scene = Scene::new().await;
        if alone {
            let gone =
                scene.request(&scene.key, Method::DELETE, &format!("/workspaces/{}", scene.second)).await;
            assert_eq!(gone.status, 200, "{}", gone.body);
        }
        let store = scene.controller.store().await;
        let first = scene.first.parse().expect("an id");
        let agent = store
            .key_owner(&keys::digest(&scene.key))
            .await
            .expect("a query result")
            .expect("a holder")
            .account;
        let (scoped, unwanted) = (key_to(&store, agent, first).await, key_to(&store, agent, first).await);
        let mut choice = TakeoverSelection { workspaces: vec![first], ..TakeoverSelection::default() };
        if whole {
            choice.computers.insert(scene.computer.parse().expect("an id"));
        }
        let mut holds = Vec::new();
        for (key, kept, goes_on) in
            [(&scene.key, true, alone && whole), (&scoped, true, whole), (&unwanted, false, false)]
        {
            let credential = credential(&store, key).await;
            holds.push((store.credentials.lease(credential), goes_on));
            if let (Credential::Key(id), true) = (credential, kept) {
                choice.keys.insert(id, first);
            }
        }
        let mut parts = Vec::new();
        let (guest, _) = scene.controller.account("guest@example.org").await;
        for account in [guest, scene.person] {
            store.set_member(first, account, Role::Member).await.expect("a member");
            parts.push(store.memberships.lease(Membership { workspace: first, account }));
        }
        let digest = keys::digest(&scene.code);
        let taken = store.take_over(&digest, scene.person, &choice, &config().plans()).await;
        assert_eq!(taken.expect("the claim succeeds").agent, agent);
        let ended: Vec<(bool, bool)> =
            holds.iter().map(|(hold, goes_on)| (hold.is_revoked(), *goes_on)).collect();
        assert!(
            ended.iter().all(|(ended, goes_on)| ended != goes_on),
            "alone: {alone}, whole: {whole}, {ended:?}"
        );
        let out: Vec<bool> = parts.iter().map(Lease::is_revoked).collect();
        assert_eq!(out, [true, false], "the guest must be removed, and the person must be the owner");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_saved_connections_go_with_the_key_that_is_kept() {
    let scene = Scene::new().await;
    let connection = |name: &str, workspace: Option<&str>| json!({"name": name, "url": "rtmp://live.example.org/app", "key": "k", "workspace_id": workspace});
    for (key, name, workspace) in [
        (&scene.person_key, "Live", None),
        (&scene.key, "live", None),
        (&scene.key, "work", Some(&*scene.first)),
        (&scene.key, "play", Some(&*scene.second)),
    ] {
        let saved = send(&scene, key, "/stream/connections", connection(name, workspace)).await;
        assert_eq!(saved.status, 201, "{name}: {}", saved.body);
    }
    assert_eq!(scene.submit(&scene.form().await).await.status, 200);
    let names = async |key: &str| {
        let listed = scene.request(key, Method::GET, "/stream/connections").await.body;
        let all = listed["connections"].as_array().expect("a list").clone();
        all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&scene.key).await, ["live (agent)", "work"]);
    assert_eq!(names(&scene.person_key).await, ["Live", "live (agent)", "work"]);
    let own = send(&scene, &scene.key, "/stream/connections", connection("work", None)).await;
    assert_eq!(own.status, 200, "the kept key may replace a connection that it can use: {}", own.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_what_a_kept_key_has_done_is_not_done_again_after_the_agent_s_account_is_gone() {
    let mut scene = Scene::new().await;
    let store = scene.controller.store().await;
    let agent =
        store.key_owner(&keys::digest(&scene.key)).await.expect("a query result").expect("a holder").account;
    let keyed = async |scene: &Scene| {
        let file = Part::text("hi").file_name("once");
        let form = Form::new().text("projectId", scene.first.clone()).part("file", file);
        let request =
            scene.controller.request_with(&scene.key, Method::POST, "/files/upload").multipart(form);
        let answer = request.header("Idempotency-Key", "sent-by-the-agent").send().await.expect("an answer");
        let replayed = answer.headers().contains_key("idempotency-replayed");
        (answer.status().as_u16(), replayed, answer.json::<Value>().await.expect("JSON"))
    };
    let (status, replayed, created) = keyed(&scene).await;
    assert_eq!((status, replayed), (200, false), "{created}");
    let taken = scene.submit(&scene.form().await).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    // A start looks at once for pending removals.
    scene.controller.restart().await;
    let gone = wait::until(TIMEOUT, || async {
        store.account(agent).await.expect("a query result").is_none().then_some(())
    });
    assert!(gone.await.is_some(), "the agent's account must be removed");

    let (status, replayed, again) = keyed(&scene).await;
    assert_eq!((status, replayed), (200, true), "{again}");
    assert_eq!(again["file"]["id"], created["file"]["id"]);
    let path = format!("/files?projectId={}", scene.first);
    let all = scene.request(&scene.person_key, Method::GET, &path).await.body;
    assert_eq!(all["files"].as_array().map(Vec::len), Some(1), "{all}");
}
