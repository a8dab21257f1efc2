//! Webhook of the payment service: signatures, single execution and outdated events.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use futures_util::future::join_all;
use hmac::{Hmac, KeyInit, Mac};
use hotdesk::base::clock;
use hotdesk::base::hex::hex;
use hotdesk::controller::config::{BillingSettings, Config};
use hotdesk::domain::billing::{BillingChange, Payment};
use hotdesk::store::billing::payments::BillingSubject;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use super::{change_billing, config, give_plan};
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;

const SECRET: &str = "wh-0123456789abcdef0123456789abcdef";

struct Scene {
    controller: Simulation,
    id: String,
    _secret: tempfile::TempDir,
}

impl Scene {
    async fn boot() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        std::fs::write(&file, format!("{SECRET}\n")).expect("a secret");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("a mode");
        let billing = BillingSettings { webhook_secret_file: file };
        let controller = Simulation::boot_configured(Config { billing, ..config() }).await;
        let workspace = controller.workspace("demo").await;
        let id = controller.computer(&workspace, "one").await;
        Self { controller, id, _secret: folder }
    }

    /// Sends a signed event; `occurred_at` defaults to now.
    async fn send(&self, body: &Value) -> HttpAnswer {
        let mut body = body.clone();
        if let Some(fields) = body.as_object_mut() {
            fields.entry("occurred_at").or_insert_with(|| json!(clock::now().iso8601()));
        }
        let text = body.to_string();
        self.deliver(&signature(SECRET, clock::now().as_seconds(), &text), text).await
    }

    async fn deliver(&self, signature: &str, body: String) -> HttpAnswer {
        let request = self.controller.bare(Method::POST, "/api/billing/webhook");
        fetch_json(request.header("hotdesk-signature", signature).body(body)).await
    }

    async fn suspend(&self) -> HttpAnswer {
        self.controller.command(format!("/computers/{}/suspend", self.id)).await
    }
}

fn in_future(seconds: u64) -> String {
    clock::now().plus(Duration::from_secs(seconds)).iso8601()
}

fn signature(secret: &str, seconds: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    mac.update(format!("{seconds}.{body}").as_bytes());
    format!("t={seconds},v1={}", hex(&mac.finalize().into_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_event_is_carried_out_once() {
    let scene = Scene::boot().await;
    let hourly = json!({"id": "evt_1", "computer_id": scene.id, "variant": "hourly"});
    let accepted = scene.send(&hourly).await;
    assert_eq!((accepted.status, &accepted.body["repeated"]), (200, &json!(false)), "{}", accepted.body);
    assert_eq!(scene.suspend().await.body["code"], "HOURLY_USE_STOP");
    let included = json!({"id": "evt_2", "computer_id": scene.id, "variant": "included"});
    assert_eq!(scene.send(&included).await.status, 200);
    // The payment service repeats an event whose response was lost.
    let again = scene.send(&hourly).await;
    assert_eq!((again.status, &again.body["repeated"]), (200, &json!(true)), "{}", again.body);
    assert_eq!(scene.suspend().await.status, 200, "the repeated event must change nothing");

    let account = scene.controller.store().await.operator_account().await.expect("the operator");
    let plan =
        json!({"id": "evt_3", "account_id": account.to_string(), "plan": "small", "payment": "lapsed"});
    let answers = join_all([0; 50].map(|_| scene.send(&plan))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.body["repeated"] == false).count(), 1);
    let billing = scene.controller.get("/user/subscription").await.body;
    assert_eq!((&billing["tier"], &billing["payment"]), (&json!("small"), &json!("lapsed")));
    let back = json!({"id": "evt_4", "account_id": account.to_string(), "plan": null, "payment": "current"});
    assert_eq!(scene.send(&back).await.status, 200);
    assert_eq!(scene.controller.get("/user/subscription").await.body["tier"], "default");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_event_is_in_the_log_of_whom_it_is_about_and_not_among_strangers() {
    let scene = Scene::boot().await;
    let (account, key) = scene.controller.account("payer@example.org").await;
    let of_account = json!({"account_id": account.to_string(), "payment": "lapsed"});
    let of_computer = json!({"computer_id": scene.id, "variant": "hourly"});
    // More events than the log has entries for anonymous requests in a minute.
    for number in 0..25 {
        let mut event = of_account.clone();
        event["id"] = json!(format!("evt_{number}"));
        assert_eq!(scene.send(&event).await.status, 200);
    }
    let mut event = of_computer;
    event["id"] = json!("evt_computer");
    assert_eq!(scene.send(&event).await.status, 200);
    assert_eq!(scene.deliver("t=1,v1=00", event.to_string()).await.status, 403);

    let read = async |key: &str| {
        let log = fetch_json(scene.controller.request_with(key, Method::GET, "/audit?limit=500")).await.body;
        log["entries"].as_array().expect("entries").clone()
    };
    let payer_entries = read(&key).await;
    assert_eq!(payer_entries.len(), 25, "{payer_entries:?}");
    for line in &payer_entries {
        let billing = (&line["action"], &line["target_id"], &line["result"]);
        assert_eq!(
            billing,
            (&json!("billing_change"), &json!(account.to_string()), &json!("done")),
            "{line}"
        );
    }
    let operator_entries = read(scene.controller.key()).await;
    let of_one: Vec<&Value> =
        operator_entries.iter().filter(|line| line["computer_id"] == scene.id.as_str()).collect();
    assert_eq!(of_one[0]["action"], "billing_change", "{of_one:?}");
    assert!(of_one[0]["workspace_id"].is_string());
    // A request with a wrong signature has no account.
    assert_eq!((&operator_entries[0]["action"], &operator_entries[0]["status"]), (&Value::Null, &json!(403)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_not_signed_now_and_by_us_changes_nothing() {
    let scene = Scene::boot().await;
    let text = json!({"id": "evt_1", "computer_id": scene.id, "variant": "hourly"}).to_string();
    let now = clock::now().as_seconds();
    for wrong in [
        String::new(),
        signature("wh-another-secret-of-the-same-length", now, &text),
        signature(SECRET, now - 400, &text),
        signature(SECRET, now + 400, &text),
        signature(SECRET, now, &text.replace("hourly", "included")),
    ] {
        assert_eq!(scene.deliver(&wrong, text.clone()).await.status, 403, "{wrong}");
    }
    let keyed =
        scene.controller.post("/billing/webhook", json!({"id": "evt_1", "computer_id": scene.id})).await;
    assert_eq!(keyed.status, 403, "an API key is no signature");
    let unset = Simulation::boot_configured(config()).await;
    let empty = fetch_json(
        unset
            .bare(Method::POST, "/api/billing/webhook")
            .header("hotdesk-signature", signature("", now, &text))
            .body(text.clone()),
    );
    assert_eq!(empty.await.status, 403, "without a secret no signature is valid");
    assert_eq!(scene.suspend().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_event_that_comes_late_undoes_nothing_newer() {
    let scene = Scene::boot().await;
    let at = |minutes: u64| clock::now().minus(Duration::from_secs(minutes * 60)).iso8601();
    let send_at = async |id: &str, minutes: u64, mut fields: Value| {
        fields["id"] = json!(id);
        fields["occurred_at"] = json!(at(minutes));
        let accepted = scene.send(&fields).await;
        assert_eq!((accepted.status, &accepted.body["repeated"]), (200, &json!(false)), "{}", accepted.body);
        accepted.body["outdated"].clone()
    };
    let billing =
        async || scene.controller.get(&format!("/computers/{}", scene.id)).await.body["billing"].clone();
    let computer = |fields: Value| {
        let mut event = json!({"computer_id": scene.id});
        event.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
        event
    };
    // The computer lapsed and was paid; the event about the lapse comes last.
    assert_eq!(send_at("paid", 10, computer(json!({"payment": "current"}))).await, json!([]));
    assert_eq!(send_at("lapsed", 20, computer(json!({"payment": "lapsed"}))).await, json!(["payment"]));
    assert_eq!(billing().await["payment"], "current");
    // The newer parts of an older event apply.
    let both = computer(json!({"payment": "lapsed", "variant": "hourly"}));
    assert_eq!(send_at("both", 15, both).await, json!(["payment"]));
    assert_eq!(
        (&billing().await["payment"], &billing().await["variant"]),
        (&json!("current"), &json!("hourly"))
    );
    assert_eq!(send_at("later", 5, computer(json!({"payment": "lapsed"}))).await, json!([]));
    assert_eq!(billing().await["payment"], "lapsed");

    // The account's plan makes its computers `included`. An older event about a trial comes late.
    let account = scene.controller.store().await.operator_account().await.expect("the operator");
    let plan = |plan: &str| json!({"account_id": account.to_string(), "plan": plan});
    assert_eq!(send_at("included", 12, computer(json!({"variant": "included"}))).await, json!([]));
    assert_eq!(send_at("small", 8, plan("small")).await, json!([]));
    assert_eq!(send_at("trial", 9, plan("trial")).await, json!(["plan"]));
    let trial = computer(json!({"variant": "trial", "trial_ends_at": at(1)}));
    assert_eq!(send_at("on trial", 9, trial).await, json!(["variant", "trial_ends_at"]));
    assert_eq!(scene.controller.get("/user/subscription").await.body["tier"], "small");
    assert_eq!(
        (&billing().await["variant"], &billing().await["trial_ends_at"]),
        (&json!("included"), &Value::Null)
    );

    // Events from before the operator's change do not apply.
    let subject = BillingSubject::Account(account);
    let change = BillingChange::Account { plan: None, payment: Some(Payment::Current) };
    assert_eq!(
        send_at("account", 0, json!({"account_id": account.to_string(), "payment": "lapsed"})).await,
        json!([])
    );
    change_billing(&scene.controller, &config(), subject, change).await;
    let late = json!({"account_id": account.to_string(), "payment": "lapsed"});
    assert_eq!(send_at("account again", 1, late).await, json!(["payment"]));
    assert_eq!(scene.controller.get("/user/subscription").await.body["payment"], "current");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_s_plan_counts_over_an_event_that_is_ahead_of_now() {
    let scene = Scene::boot().await;
    let account = scene.controller.store().await.operator_account().await.expect("the operator");
    // The clock of the payment service may be four minutes ahead.
    let (ahead, later) = (in_future(240), in_future(3600));
    for event in [
        json!({"id": "trial", "computer_id": scene.id, "variant": "trial", "trial_ends_at": later, "occurred_at": ahead}),
        json!({"id": "plan", "account_id": account.to_string(), "plan": "small"}),
    ] {
        let accepted = scene.send(&event).await;
        assert_eq!((accepted.status, &accepted.body["outdated"]), (200, &json!([])), "{}", accepted.body);
    }
    let billing =
        async || scene.controller.get(&format!("/computers/{}", scene.id)).await.body["billing"].clone();
    assert_eq!(billing().await["variant"], "trial", "the event about the plan is older");
    give_plan(&scene.controller, &config(), account, "small").await;
    let billing = billing().await;
    assert_eq!((&billing["variant"], &billing["trial_ends_at"]), (&json!("included"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_makes_no_sense_is_refused_and_may_come_again_mended() {
    let scene = Scene::boot().await;
    let account = scene.controller.store().await.operator_account().await.expect("the operator").to_string();
    let id = &scene.id;
    let unknown_id = "00000000-0000-4000-8000-000000000000";
    for (event, status) in [
        (json!({"id": "e"}), 400),
        (json!({"id": "", "computer_id": id}), 400),
        (json!({"id": "x".repeat(256), "computer_id": id}), 400),
        (json!({"id": "e", "computer_id": id, "account_id": account}), 400),
        (json!({"id": "e", "computer_id": id, "variant": "free"}), 400),
        (json!({"id": "e", "computer_id": id, "payment": "maybe"}), 400),
        (json!({"id": "e", "computer_id": id, "occurred_at": "lately"}), 400),
        (json!({"id": "e", "computer_id": id, "occurred_at": null}), 400),
        (json!({"id": "e", "computer_id": id, "occurred_at": in_future(600)}), 400),
        (json!({"id": "e", "computer_id": id, "trial_ends_at": "soon"}), 400),
        (json!({"id": "e", "computer_id": id, "plan": "small"}), 400),
        (json!({"id": "e", "computer_id": id, "planet": "small"}), 400),
        (json!({"id": "e", "account_id": account, "plan": "gold"}), 400),
        (json!({"id": "e", "account_id": account, "variant": "hourly"}), 400),
        (json!({"id": "e", "account_id": unknown_id, "plan": "small"}), 404),
        (json!({"id": "e", "computer_id": unknown_id, "variant": "hourly"}), 404),
        (json!([]), 400),
    ] {
        let answer = scene.send(&event).await;
        assert_eq!(answer.status, status, "{event}: {}", answer.body);
    }
    let right =
        scene.send(&json!({"id": "e", "computer_id": id, "trial_ends_at": null, "device": true})).await;
    assert_eq!((right.status, &right.body["repeated"]), (200, &json!(false)), "{}", right.body);
    assert_eq!(scene.suspend().await.body["code"], "DEVICE_LIFECYCLE_UNSUPPORTED");
}
