//! `hotdesk admin`: account management with and without a running controller.

use hotdesk::base::clock;
use hotdesk::base::ids::AccountId;
use hotdesk::domain::identity::email::Email;
use hotdesk::store::identity::people::Account;
use hotdesk::store::identity::sign_in::passkeys::Passkey;
use serde_json::{Value, json};

use super::person::Shell;
use crate::harness::browser::{Browser, PASSWORD, person};
use crate::harness::caller::Caller;
use crate::harness::capability::Capability;
use crate::harness::simulation::Simulation;
use crate::people::second_factors;

#[tokio::test(flavor = "multi_thread")]
async fn accounts_are_made_and_changed_while_the_controller_runs_and_while_not() {
    let mut controller = Simulation::boot().await;
    let folder = controller.store_file().parent().expect("a folder").display().to_string();
    let shell = Shell::new();
    let admin = async |arguments: &[&str], input: &str| {
        let line = [&["admin", "--data-dir", &folder], arguments].concat();
        shell.run_with_input(&line, input).await
    };
    let output =
        admin(&["add", "Ada@X.example", "--name", "Ada"], "a long password\n").await.expect_success();
    assert!(output.contains("ada@x.example") && !output.contains("a long password"), "{output}");
    admin(&["add", "ada@x.example"], "a long password\n").await.expect_failure(1, &["exists already"]);
    admin(&["add", "ada"], "a long password\n").await.expect_failure(1, &["e-mail"]);
    admin(&["add", "bob@x.example"], "short\n").await.expect_failure(1, &["at least 8"]);
    admin(&["add", "agent@x.example", "--no-password"], "").await.expect_success();
    // Passwords are not accepted as arguments.
    admin(&["add", "bob@x.example", "a long password"], "").await.expect_failure(2, &["unexpected argument"]);
    admin(&["reset-second-factor", "ada@x.example"], "").await.expect_failure(1, &["no authenticator app"]);
    admin(&["password", "nobody@x.example"], "a long password\n").await.expect_failure(1, &["no account"]);

    // The change takes effect at once in the running controller.
    let sign_in = async |base: &str, password: &str| {
        let fields = [("email", "ada@x.example"), ("password", password)];
        Browser::new(base).send("/sign-in", &fields).await
    };
    let signed_in = sign_in(&controller.base, "a long password").await;
    assert_eq!(signed_in.status, 303, "{}", signed_in.text);
    let mut browser = Browser::new(&controller.base);
    browser.adopt_session(&signed_in).await;
    let key = admin(&["key", "ada@x.example"], "").await.expect_success();
    let key = key.trim().to_owned();
    let account = Caller::new(controller.base.clone(), "/api", key.clone());
    assert_eq!(account.get("/user/profile").await.body["full_name"], "Ada");
    admin(&["password", "ada@x.example"], "another password\n").await.expect_success();
    assert_eq!(browser.get("/settings").await.status, 303, "a new password must end the account's sessions");
    assert_eq!(sign_in(&controller.base, "a long password").await.status, 401);

    // It takes effect in the next controller too.
    controller.end().await;
    admin(&["plan", "ada@x.example", "agent"], "").await.expect_success();
    admin(&["password", "ada@x.example"], "the third password").await.expect_success();
    controller.begin(&[]).await;
    let entered = sign_in(&controller.base, "the third password").await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    let mut browser = Browser::new(&controller.base);
    browser.adopt_session(&entered).await;
    second_factors::set_up(&browser, "the third password").await;
    assert_eq!(sign_in(&controller.base, "the third password").await.status, 200, "it asks for a code");
    admin(&["reset-second-factor", "Ada@x.example"], "").await.expect_success();
    assert_eq!(sign_in(&controller.base, "the third password").await.status, 303);
    assert_eq!(
        Caller::new(controller.base.clone(), "/api", key.clone()).get("/workspaces").await.status,
        200
    );
    // The account's owner reads these changes in the log, without passwords and keys.
    let log = Caller::new(controller.base.clone(), "/api", key.clone()).get("/audit").await.body;
    let lines = log["entries"].as_array().expect("entries").iter().rev();
    let here: Vec<&Value> = lines.filter(|line| line["method"] == "").collect();
    let words = [
        "account_made",
        "key_made",
        "password_change",
        "billing_change",
        "password_change",
        "second_factor_removed",
    ];
    assert_eq!(here.iter().map(|line| &line["action"]).collect::<Vec<_>>(), words, "{log}");
    assert!(here.iter().all(|line| line["target_id"].is_string() && line["result"] == "done"), "{log}");
    assert!(!log.to_string().contains(&key), "{log}");
    let record = admin(&["list", "--json"], "").await.json();
    let accounts = record["accounts"].as_array().expect("accounts");
    assert_eq!(accounts.len(), 3, "{record}");
    let found = |email: &str| accounts.iter().find(|it| it["email"] == email).cloned().unwrap_or(Value::Null);
    assert_eq!(accounts[0]["email"], "operator@localhost");
    assert_eq!(
        (&found("ada@x.example")["plan"], &found("ada@x.example")["has_password"]),
        (&json!("agent"), &json!(true))
    );
    assert_eq!(found("agent@x.example")["has_password"], false);
    let table = admin(&["list"], "").await.expect_success();
    assert!(table.contains("E-MAIL") && table.contains("agent") && !table.contains("argon2"), "{table}");
    admin(&["plan", "ada@x.example", "default"], "").await.expect_success();
    assert_eq!(admin(&["list", "--json"], "").await.json()["accounts"][1]["plan"], Value::Null);
}

/// A stored passkey. Nobody signs in with it here.
fn passkey(account: AccountId, id: &str) -> Passkey {
    Passkey {
        credential_id: id.to_owned(),
        account,
        name: "Phone".to_owned(),
        public_key: String::new(),
        sign_count: 0,
        created_at: clock::now(),
        last_used_at: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_removes_the_authenticator_app_and_the_passkeys_of_one_account() {
    let controller = Simulation::boot().await;
    let store = controller.store().await;
    let folder = controller.store_file().parent().expect("a folder").display().to_string();
    let shell = Shell::new();
    let reset =
        async |email: &str| shell.run(&["admin", "--data-dir", &folder, "reset-second-factor", email]).await;
    let ada = person(&store, "ada@x.example").await.id;
    let eve = person(&store, "eve@x.example").await.id;
    let agent = Account::person(&Email::parse("agent@x.example").expect("an address"), "", None);
    store.add_account(&agent).await.expect("an account without a password");
    for (account, id) in [(ada, "a1"), (ada, "a2"), (eve, "e1"), (agent.id, "g1")] {
        store.add_passkey(&passkey(account, id)).await.expect("a new passkey");
    }
    let browser = Browser::signed_in(&controller.base, "ada@x.example").await;
    second_factors::set_up(&browser, PASSWORD).await;

    let both = reset("Ada@x.example").await.expect_success();
    assert!(both.contains("the authenticator app and 2 passkeys of ada@x.example"), "{both}");
    assert!(!both.contains("admin password"), "{both}");
    assert!(store.second_factor(ada).await.expect("read").is_none());
    assert!(store.passkeys_of(ada).await.expect("read").is_empty());
    assert_eq!(store.passkeys_of(eve).await.expect("read").len(), 1, "another account's passkey");
    Browser::signed_in(&controller.base, "ada@x.example").await;
    reset("ada@x.example").await.expect_failure(1, &["no authenticator app and no passkey"]);

    let locked_out = reset("agent@x.example").await.expect_success();
    assert!(locked_out.contains("1 passkey of") && locked_out.contains("admin password"), "{locked_out}");

    let key = controller.key_of(ada, None).await;
    let log = Caller::new(controller.base.clone(), "/api", key).get("/audit").await.body;
    let lines = log["entries"].as_array().expect("entries").iter().rev();
    let here: Vec<&Value> = lines.filter(|line| line["method"] == "").map(|line| &line["action"]).collect();
    assert_eq!(here, ["second_factor_removed", "passkey_removed"], "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_of_a_data_folder_manages_it() {
    let shell = Shell::new();
    let empty = ["admin", "--data-dir", "nowhere", "list"];
    shell.run(&empty).await.expect_failure(1, &["nowhere/hotdesk.db", "hotdesk serve"]);
    assert!(!shell.file("nowhere").exists(), "the command must not create a store");
    if !nix::unistd::geteuid().is_root() {
        return Capability::Root.skip("only root can change the owner of a file");
    }
    let controller = Simulation::boot().await;
    std::os::unix::fs::chown(controller.store_file(), Some(12_345), None).expect("the owner is changed");
    let folder = controller.store_file().parent().expect("a folder").display().to_string();
    shell.run(&["admin", "--data-dir", &folder, "list"]).await.expect_failure(1, &["12345"]);
}
