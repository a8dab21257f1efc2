//! Does every refusal of interface.md's suspend table that is about payment follow from what is stored?

use hotdesk::base::ids::ComputerRef;
use hotdesk::domain::billing::{Change, Payment, Variant};
use hotdesk::store::billing::Subject;
use serde_json::{Value, json};

use super::{config, give_plan, say};
use crate::harness::simulation::Simulation;

/// A change of a computer's billing that leaves all.
const SAME: Change = Change::Computer { variant: None, payment: None, trial_ends_at: None, device: None };

struct Scene {
    house: Simulation,
    workspace: String,
    id: String,
}

impl Scene {
    async fn set() -> Self {
        let house = Simulation::boot_configured(config()).await;
        let workspace = house.workspace("demo").await;
        let id = house.computer(&workspace, "one").await;
        Self { house, workspace, id }
    }

    /// The computer's billing becomes this.
    async fn becomes(&self, variant: Variant, payment: Payment, trial_ends_at: Option<i64>, device: bool) {
        let subject = Subject::Computer(self.id.parse().expect("an id"));
        let change = Change::Computer {
            variant: Some(variant),
            payment: Some(payment),
            trial_ends_at: Some(trial_ends_at),
            device: Some(device),
        };
        say(&self.house, &config(), subject, change).await;
    }

    /// Status, code and sentence of an answer to a command.
    async fn ask(&self, command: &str) -> (u16, Value, String) {
        let answer = self.house.command(format!("/computers/{}/{command}", self.id)).await;
        let text = answer.body["error"].as_str().unwrap_or_default().to_owned();
        (answer.status, answer.body["code"].clone(), text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_is_refused_as_the_billing_says() {
    use Payment::{Current, Lapsed};
    use Variant::{Dedicated, Hourly, Included, Reservation, Trial};
    let scene = Scene::set().await;
    let far = Some(i64::MAX / 2);
    for (variant, payment, trial_ends_at, device, status, code, says) in [
        (Included, Current, None, true, 400, json!("DEVICE_LIFECYCLE_UNSUPPORTED"), "cannot be suspended"),
        (Trial, Current, Some(1), false, 402, Value::Null, "Choose a plan to continue."),
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
        scene.becomes(variant, payment, trial_ends_at, device).await;
        let (got, got_code, text) = scene.ask("suspend").await;
        assert_eq!((got, got_code), (status, code), "{variant:?}: {text}");
        assert!(text.contains(says), "{variant:?}: {text}");
        assert_eq!(scene.house.status(&scene.id).await, "running", "nothing was saved");
        let told = scene.house.get(&format!("/computers/{}", scene.id)).await.body["billing"].clone();
        assert_eq!(
            (&told["variant"], &told["payment"]),
            (&json!(variant.name()), &json!(payment.name())),
            "{told}"
        );
        assert_eq!(told["device"], device);
    }
    for (variant, trial_ends_at) in [(Trial, far), (Trial, None), (Included, Some(1))] {
        scene.becomes(variant, Current, trial_ends_at, false).await;
        assert_eq!(scene.ask("suspend").await.0, 200, "{variant:?}");
        // What is suspended stays so, whatever it has become.
        scene.becomes(Hourly, Current, None, false).await;
        assert_eq!(scene.ask("suspend").await.0, 200);
        assert_eq!(scene.ask("resume").await.0, 200, "and wakes when it is paid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_paid_does_not_come_up_and_may_always_be_stopped() {
    let scene = Scene::set().await;
    for (variant, payment, trial_ends_at) in
        [(Variant::Trial, Payment::Current, Some(1)), (Variant::Hourly, Payment::Lapsed, None)]
    {
        scene.becomes(Variant::Included, Payment::Current, None, false).await;
        assert_eq!(scene.ask("suspend").await.0, 200);
        scene.becomes(variant, payment, trial_ends_at, false).await;
        for command in ["resume", "start", "restart", "ensure-running", "click"] {
            assert_eq!(scene.ask(command).await.0, 402, "{command} while it sleeps");
        }
        assert_eq!(scene.house.status(&scene.id).await, "suspended");
        assert_eq!(scene.ask("stop").await.0, 200);
        scene.house.until_status(&scene.id, "stopped").await;
        for command in ["start", "ensure-running"] {
            assert_eq!(scene.ask(command).await.0, 402, "{command} while it rests");
        }
        // Of a workspace's computers only those start that are paid.
        let all = scene.house.post(&format!("/workspaces/{}/start", scene.workspace), json!({})).await;
        assert_eq!(
            (all.status, &all.body["computers"][0]["status"]),
            (200, &json!("stopped")),
            "{}",
            all.body
        );
        scene.becomes(Variant::Included, Payment::Current, None, false).await;
        assert_eq!(scene.ask("start").await.0, 200);
        scene.house.until_status(&scene.id, "running").await;
        scene.becomes(variant, payment, trial_ends_at, false).await;
        assert_eq!(scene.ask("click").await.0, 200, "what runs may be used");
        assert_eq!(scene.ask("restart").await.0, 402);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_does_not_pay_gets_no_more_and_wakes_nothing() {
    let scene = Scene::set().await;
    assert_eq!(scene.ask("suspend").await.0, 200);
    let operator = scene.house.store().await.operator().await.expect("the operator");
    let lapsed = |payment| Change::Account { plan: None, payment: Some(payment) };
    say(&scene.house, &config(), Subject::Account(operator), lapsed(Payment::Lapsed)).await;
    let order = json!({"workspace_id": scene.workspace, "name": "two"});
    let refused = scene.house.post("/computers", order.clone()).await;
    assert_eq!(refused.status, 402, "{}", refused.body);
    assert_eq!(scene.ask("resume").await.0, 402);
    assert_eq!(scene.house.get("/user/subscription").await.body["payment"], "lapsed");
    say(&scene.house, &config(), Subject::Account(operator), lapsed(Payment::Current)).await;
    assert_eq!(scene.ask("resume").await.0, 200);
    say(&scene.house, &config(), Subject::Account(operator), lapsed(Payment::Lapsed)).await;
    let cloned = scene.ask("clone").await;
    assert_eq!((cloned.0, cloned.1), (402, json!("PAYMENT_REQUIRED")), "a clone's refusals have codes");
    assert_eq!(scene.house.machines().len(), 1, "nothing is left of what was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_begins_with_its_plan_and_ends_with_another() {
    let scene = Scene::set().await;
    let operator = scene.house.store().await.operator().await.expect("the operator");
    give_plan(&scene.house, &config(), operator, "trial").await;
    let plan = scene.house.get("/user/subscription").await.body;
    assert!(plan["trialEndsAt"].is_string(), "{plan}");
    let told = scene.house.get(&format!("/computers/{}", scene.id)).await.body["billing"].clone();
    assert_eq!((&told["variant"], &told["trial_ends_at"]), (&json!("trial"), &plan["trialEndsAt"]));
    let second = scene.house.computer(&scene.workspace, "two").await;
    let told = scene.house.get(&format!("/computers/{second}")).await.body["billing"].clone();
    assert_eq!((&told["variant"], &told["trial_ends_at"]), (&json!("trial"), &plan["trialEndsAt"]));
    give_plan(&scene.house, &config(), operator, "small").await;
    let told = scene.house.get(&format!("/computers/{second}")).await.body["billing"].clone();
    assert_eq!((&told["variant"], &told["trial_ends_at"]), (&json!("included"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_is_over_makes_nothing_and_a_paid_plan_ends_it() {
    let scene = Scene::set().await;
    let store = scene.house.store().await;
    let operator = store.operator().await.expect("the operator");
    give_plan(&scene.house, &config(), operator, "trial").await;
    // Eight days pass.
    scene.house.sql("UPDATE accounts SET plan_since = plan_since - 8 * 86400000").await;
    scene.house.sql("UPDATE computers SET trial_ends_at = trial_ends_at - 8 * 86400000").await;
    let order = json!({"workspace_id": scene.workspace, "name": "two"});
    let refused = scene.house.post("/computers", order.clone()).await;
    assert_eq!(refused.status, 402, "{}", refused.body);
    assert!(refused.body["error"].as_str().expect("a text").contains("Choose a plan to continue."));
    assert_eq!(scene.ask("suspend").await.0, 402);
    give_plan(&scene.house, &config(), operator, "small").await;
    assert_eq!(scene.house.post("/computers", order).await.status, 201);
    assert_eq!(scene.ask("suspend").await.0, 200);
    let computer = ComputerRef::Id(scene.id.parse().expect("an id"));
    let row = store.computer(&computer).await.expect("read").expect("there");
    assert_eq!((row.billing.variant, row.billing.trial_ends_at), (Variant::Included, None));
    // An account and a computer have other fields.
    let wrong = store.change_billing(None, Subject::Account(operator), &SAME, &config().plans()).await;
    assert!(wrong.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sets_all_of_it_from_the_command_line() {
    let scene = Scene::set().await;
    let folder = scene.house.store_file().parent().expect("a folder").to_owned();
    let file = folder.join("plans.toml");
    let plans = include_str!("../../../packaging/plans.toml");
    std::fs::write(&file, plans).expect("a configuration");
    let admin = |arguments: &[&str]| {
        let mut admin = std::process::Command::new(env!("CARGO_BIN_EXE_hotdesk"));
        admin.arg("admin").args(arguments).arg("--data-dir").arg(&folder).arg("--config").arg(&file);
        let ran = admin.env_remove("HOTDESK_CONFIG").output().expect("it runs");
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
    let operator = scene.house.store().await.operator().await.expect("the operator");
    let standing = scene.house.store().await.standing(operator).await.expect("read");
    assert_eq!(standing.plan.as_deref(), Some("hacker"));
    for (wrong, says) in [
        (&["plan", "operator@localhost", "gold"][..], "gold"),
        (&["plan", "nobody@localhost", "hacker"], "nobody@localhost"),
        (&["billing", "00000000", "--device", "true"], "00000000"),
        (&["billing", &scene.id, "--variant", "free"], "included"),
        (&["billing", &scene.id, "--trial-ends", "soon"], "ISO 8601"),
    ] {
        let (well, said) = admin(wrong);
        assert!(!well && said.contains(says), "{wrong:?}: {said}");
    }
}
