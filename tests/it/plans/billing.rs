//! Refusals because of billing, and billing changes by the operator (docs/lifecycle.md#suspend).

use hotdesk::base::ids::ComputerRef;
use hotdesk::base::time::UnixMillis;
use hotdesk::domain::billing::{BillingChange, Payment, Variant};
use hotdesk::store::billing::payments::BillingSubject;
use serde_json::{Value, json};

use super::{change_billing, config, give_plan};
use crate::harness::simulation::Simulation;

/// A change of a computer's billing that changes nothing.
const NO_CHANGE: BillingChange =
    BillingChange::Computer { variant: None, payment: None, trial_ends_at: None, device: None };

struct Scene {
    controller: Simulation,
    workspace: String,
    id: String,
}

impl Scene {
    async fn boot() -> Self {
        let controller = Simulation::boot_configured(config()).await;
        let workspace = controller.workspace("demo").await;
        let id = controller.computer(&workspace, "one").await;
        Self { controller, workspace, id }
    }

    /// Sets the computer's billing.
    async fn set_billing(
        &self,
        variant: Variant,
        payment: Payment,
        trial_ends_at: Option<UnixMillis>,
        device: bool,
    ) {
        let subject = BillingSubject::Computer(self.id.parse().expect("an id"));
        let change = BillingChange::Computer {
            variant: Some(variant),
            payment: Some(payment),
            trial_ends_at: Some(trial_ends_at),
            device: Some(device),
        };
        change_billing(&self.controller, &config(), subject, change).await;
    }

    /// Status, code and error text of a command's response.
    async fn ask(&self, command: &str) -> (u16, Value, String) {
        let answer = self.controller.command(format!("/computers/{}/{command}", self.id)).await;
        let text = answer.body["error"].as_str().unwrap_or_default().to_owned();
        (answer.status, answer.body["code"].clone(), text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_is_refused_as_the_billing_says() {
    use Payment::{Current, Lapsed};
    use Variant::{Dedicated, Hourly, Included, Reservation, Trial};
    let scene = Scene::boot().await;
    let far = Some(UnixMillis::new(i64::MAX / 2));
    for (variant, payment, trial_ends_at, device, status, code, expected_text) in [
        (Included, Current, None, true, 400, json!("DEVICE_LIFECYCLE_UNSUPPORTED"), "cannot be suspended"),
        (Trial, Current, Some(UnixMillis::EPOCH), false, 402, Value::Null, "Choose a plan to continue."),
        (
            Dedicated,
            Lapsed,
            None,
            false,
            402,
            Value::Null,
            "manage this computer's payment in the account usage area",
        ),
        (
            Included,
            Lapsed,
            None,
            false,
            402,
            Value::Null,
            "manage this computer's payment in the account usage area",
        ),
        (Hourly, Current, None, false, 409, json!("HOURLY_USE_STOP"), "use Stop instead"),
        (
            Reservation,
            Current,
            None,
            false,
            409,
            json!("ALLOCATION_MANAGED"),
            "reservation in the account usage area",
        ),
        (Dedicated, Current, None, false, 409, json!("ALLOCATION_MANAGED"), "in the account usage area"),
    ] {
        scene.set_billing(variant, payment, trial_ends_at, device).await;
        let (got, got_code, text) = scene.ask("suspend").await;
        assert_eq!((got, got_code), (status, code), "{variant:?}: {text}");
        assert!(text.contains(expected_text), "{variant:?}: {text}");
        assert_eq!(scene.controller.status(&scene.id).await, "running", "nothing is suspended");
        let billing = scene.controller.get(&format!("/computers/{}", scene.id)).await.body["billing"].clone();
        assert_eq!(
            (&billing["variant"], &billing["payment"]),
            (&json!(variant.name()), &json!(payment.name())),
            "{billing}"
        );
        assert_eq!(billing["device"], device);
    }
    for (variant, trial_ends_at) in [(Trial, far), (Trial, None), (Included, Some(UnixMillis::EPOCH))] {
        scene.set_billing(variant, Current, trial_ends_at, false).await;
        assert_eq!(scene.ask("suspend").await.0, 200, "{variant:?}");
        // A suspended computer stays suspended when its variant changes.
        scene.set_billing(Hourly, Current, None, false).await;
        assert_eq!(scene.ask("suspend").await.0, 200);
        assert_eq!(scene.ask("resume").await.0, 200, "a paid computer resumes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_paid_does_not_come_up_and_may_always_be_stopped() {
    let scene = Scene::boot().await;
    for (variant, payment, trial_ends_at) in [
        (Variant::Trial, Payment::Current, Some(UnixMillis::EPOCH)),
        (Variant::Hourly, Payment::Lapsed, None),
    ] {
        scene.set_billing(Variant::Included, Payment::Current, None, false).await;
        assert_eq!(scene.ask("suspend").await.0, 200);
        scene.set_billing(variant, payment, trial_ends_at, false).await;
        for command in ["resume", "start", "restart", "ensure-running", "click"] {
            assert_eq!(scene.ask(command).await.0, 402, "{command} while suspended");
        }
        assert_eq!(scene.controller.status(&scene.id).await, "suspended");
        assert_eq!(scene.ask("stop").await.0, 200);
        scene.controller.until_status(&scene.id, "stopped").await;
        for command in ["start", "ensure-running"] {
            assert_eq!(scene.ask(command).await.0, 402, "{command} while stopped");
        }
        // The start of a workspace starts only computers that are paid for.
        let all = scene.controller.post(&format!("/workspaces/{}/start", scene.workspace), json!({})).await;
        assert_eq!(
            (all.status, &all.body["computers"][0]["status"]),
            (200, &json!("stopped")),
            "{}",
            all.body
        );
        scene.set_billing(Variant::Included, Payment::Current, None, false).await;
        assert_eq!(scene.ask("start").await.0, 200);
        scene.controller.until_status(&scene.id, "running").await;
        scene.set_billing(variant, payment, trial_ends_at, false).await;
        assert_eq!(scene.ask("click").await.0, 200, "a running computer can be used");
        assert_eq!(scene.ask("restart").await.0, 402);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_does_not_pay_gets_no_more_and_wakes_nothing() {
    let scene = Scene::boot().await;
    assert_eq!(scene.ask("suspend").await.0, 200);
    let operator = scene.controller.store().await.operator_account().await.expect("the operator");
    let lapsed = |payment| BillingChange::Account { plan: None, payment: Some(payment) };
    change_billing(&scene.controller, &config(), BillingSubject::Account(operator), lapsed(Payment::Lapsed))
        .await;
    let body = json!({"workspace_id": scene.workspace, "name": "two"});
    let refused = scene.controller.post("/computers", body.clone()).await;
    assert_eq!(refused.status, 402, "{}", refused.body);
    assert_eq!(scene.ask("resume").await.0, 402);
    assert_eq!(scene.controller.get("/user/subscription").await.body["payment"], "lapsed");
    change_billing(&scene.controller, &config(), BillingSubject::Account(operator), lapsed(Payment::Current))
        .await;
    assert_eq!(scene.ask("resume").await.0, 200);
    change_billing(&scene.controller, &config(), BillingSubject::Account(operator), lapsed(Payment::Lapsed))
        .await;
    let cloned = scene.ask("clone").await;
    assert_eq!((cloned.0, cloned.1), (402, json!("PAYMENT_REQUIRED")), "a refused clone has a code");
    assert_eq!(scene.controller.machines().len(), 1, "a refused clone leaves no machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_begins_with_its_plan_and_ends_with_another() {
    let scene = Scene::boot().await;
    let operator = scene.controller.store().await.operator_account().await.expect("the operator");
    give_plan(&scene.controller, &config(), operator, "trial").await;
    let plan = scene.controller.get("/user/subscription").await.body;
    assert!(plan["trialEndsAt"].is_string(), "{plan}");
    let billing = scene.controller.get(&format!("/computers/{}", scene.id)).await.body["billing"].clone();
    assert_eq!((&billing["variant"], &billing["trial_ends_at"]), (&json!("trial"), &plan["trialEndsAt"]));
    let second = scene.controller.computer(&scene.workspace, "two").await;
    let billing = scene.controller.get(&format!("/computers/{second}")).await.body["billing"].clone();
    assert_eq!((&billing["variant"], &billing["trial_ends_at"]), (&json!("trial"), &plan["trialEndsAt"]));
    give_plan(&scene.controller, &config(), operator, "small").await;
    let billing = scene.controller.get(&format!("/computers/{second}")).await.body["billing"].clone();
    assert_eq!((&billing["variant"], &billing["trial_ends_at"]), (&json!("included"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_is_over_makes_nothing_and_a_paid_plan_ends_it() {
    let scene = Scene::boot().await;
    let store = scene.controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    give_plan(&scene.controller, &config(), operator, "trial").await;
    // Simulates eight elapsed days.
    scene.controller.sql("UPDATE accounts SET plan_since = plan_since - 8 * 86400000").await;
    scene.controller.sql("UPDATE computers SET trial_ends_at = trial_ends_at - 8 * 86400000").await;
    let body = json!({"workspace_id": scene.workspace, "name": "two"});
    let refused = scene.controller.post("/computers", body.clone()).await;
    assert_eq!(refused.status, 402, "{}", refused.body);
    assert!(refused.body["error"].as_str().expect("a text").contains("Choose a plan to continue."));
    assert_eq!(scene.ask("suspend").await.0, 402);
    give_plan(&scene.controller, &config(), operator, "small").await;
    assert_eq!(scene.controller.post("/computers", body).await.status, 201);
    assert_eq!(scene.ask("suspend").await.0, 200);
    let computer = ComputerRef::Id(scene.id.parse().expect("an id"));
    let row = store.computer(&computer).await.expect("read").expect("a row");
    assert_eq!((row.billing.variant, row.billing.trial_ends_at), (Variant::Included, None));
    // A change of a computer cannot apply to an account.
    let wrong =
        store.change_billing(None, BillingSubject::Account(operator), &NO_CHANGE, &config().plans()).await;
    assert!(wrong.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sets_all_of_it_from_the_command_line() {
    let scene = Scene::boot().await;
    let folder = scene.controller.store_file().parent().expect("a folder").to_owned();
    let file = folder.join("plans.toml");
    let plans = include_str!("../../../packaging/plans.toml");
    std::fs::write(&file, plans).expect("a configuration");
    let admin = |arguments: &[&str]| {
        let mut admin = std::process::Command::new(env!("CARGO_BIN_EXE_hotdesk"));
        admin.arg("admin").args(arguments).arg("--data-dir").arg(&folder).arg("--config").arg(&file);
        let ran = admin.env_remove("HOTDESK_CONFIG").output().expect("hotdesk");
        (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let ends = ["billing", &scene.id, "--variant", "trial", "--trial-ends", "2020-01-01T00:00:00Z"];
    assert_eq!(admin(&ends), (true, String::new()));
    assert_eq!(scene.ask("suspend").await.0, 402);
    assert!(admin(&["billing", &scene.id, "--variant", "included", "--device", "true"]).0);
    assert_eq!(scene.ask("suspend").await.1, "DEVICE_LIFECYCLE_UNSUPPORTED");
    assert!(admin(&["billing", &scene.id, "--device", "false", "--payment", "lapsed"]).0);
    assert_eq!(scene.ask("suspend").await.0, 402);
    assert!(admin(&["billing", &scene.id, "--payment", "current"]).0);
    assert!(admin(&["payment", "operator@localhost", "lapsed"]).0);
    assert_eq!(scene.ask("suspend").await.0, 402);
    assert!(admin(&["payment", "operator@localhost", "current"]).0);
    assert_eq!(scene.ask("suspend").await.0, 200);
    assert!(admin(&["plan", "operator@localhost", "hacker"]).0);
    let operator = scene.controller.store().await.operator_account().await.expect("the operator");
    let standing = scene.controller.store().await.standing(operator).await.expect("read");
    assert_eq!(standing.plan.as_deref(), Some("hacker"));
    for (wrong, expected_text) in [
        (&["plan", "operator@localhost", "gold"][..], "gold"),
        (&["plan", "nobody@localhost", "hacker"], "nobody@localhost"),
        (&["billing", "00000000", "--device", "true"], "00000000"),
        (&["billing", &scene.id, "--variant", "free"], "included"),
        (&["billing", &scene.id, "--trial-ends", "soon"], "ISO 8601"),
    ] {
        let (succeeded, message) = admin(wrong);
        assert!(!succeeded && message.contains(expected_text), "{wrong:?}: {message}");
    }
}
