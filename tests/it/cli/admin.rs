//! Does `hotdesk admin` manage accounts, beside a controller that runs and without one?

use serde_json::{Value, json};

use super::person::Person;
use crate::harness::browser::Browser;
use crate::harness::caller::Caller;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn accounts_are_made_and_changed_while_the_controller_runs_and_while_not() {
    let mut house = Simulation::boot().await;
    let folder = house.store_file().parent().expect("a folder").display().to_string();
    let shell = Person::new();
    let admin = async |arguments: &[&str], input: &str| {
        let line = [&["admin", "--data-dir", &folder], arguments].concat();
        shell.runs_with_input(&line, input).await
    };
    let said = admin(&["add", "Ada@X.example", "--name", "Ada"], "a long password\n").await.well();
    assert!(said.contains("ada@x.example") && !said.contains("a long password"), "{said}");
    admin(&["add", "ada@x.example"], "a long password\n").await.badly(1, &["exists already"]);
    admin(&["add", "ada"], "a long password\n").await.badly(1, &["e-mail"]);
    admin(&["add", "bob@x.example"], "short\n").await.badly(1, &["at least 8"]);
    admin(&["add", "agent@x.example", "--no-password"], "").await.well();
    // No argument takes a password.
    admin(&["add", "bob@x.example", "a long password"], "").await.badly(2, &["unexpected argument"]);
    admin(&["password", "nobody@x.example"], "a long password\n").await.badly(1, &["no account"]);

    // The running controller knows at once.
    let enter = async |base: &str, password: &str| {
        let fields = [("email", "ada@x.example"), ("password", password)];
        Browser::new(base).send("/sign-in", &fields).await
    };
    let entered = enter(&house.base, "a long password").await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    let mut browser = Browser::new(&house.base);
    browser.keep(&entered).await;
    let key = admin(&["key", "ada@x.example"], "").await.well();
    let key = key.trim().to_owned();
    let ada = Caller::new(house.base.clone(), "/api", key.clone());
    assert_eq!(ada.get("/user/profile").await.body["full_name"], "Ada");
    admin(&["password", "ada@x.example"], "another password\n").await.well();
    assert_eq!(browser.get("/settings").await.status, 303, "her browsers are signed out");
    assert_eq!(enter(&house.base, "a long password").await.status, 401);

    // And so does the next one.
    house.end().await;
    admin(&["plan", "ada@x.example", "agent"], "").await.well();
    admin(&["password", "ada@x.example"], "the third password").await.well();
    house.begin(&[]).await;
    assert_eq!(enter(&house.base, "the third password").await.status, 303);
    assert_eq!(Caller::new(house.base.clone(), "/api", key.clone()).get("/workspaces").await.status, 200);
    // Whose account it is reads what was done with it here, and none of the passwords and keys.
    let log = Caller::new(house.base.clone(), "/api", key.clone()).get("/audit").await.body;
    let lines = log["entries"].as_array().expect("entries").iter().rev();
    let here: Vec<&Value> = lines.filter(|line| line["method"] == "").collect();
    let words = ["account_made", "key_made", "password_change", "billing_change", "password_change"];
    assert_eq!(here.iter().map(|line| &line["action"]).collect::<Vec<_>>(), words, "{log}");
    assert!(here.iter().all(|line| line["target_id"].is_string() && line["result"] == "done"), "{log}");
    assert!(!log.to_string().contains(&key), "{log}");
    let told = admin(&["list", "--json"], "").await.json();
    let accounts = told["accounts"].as_array().expect("accounts");
    assert_eq!(accounts.len(), 3, "{told}");
    let found = |email: &str| accounts.iter().find(|it| it["email"] == email).cloned().unwrap_or(Value::Null);
    assert_eq!(accounts[0]["email"], "operator@localhost");
    assert_eq!(
        (&found("ada@x.example")["plan"], &found("ada@x.example")["has_password"]),
        (&json!("agent"), &json!(true))
    );
    assert_eq!(found("agent@x.example")["has_password"], false);
    let table = admin(&["list"], "").await.well();
    assert!(table.contains("E-MAIL") && table.contains("agent") && !table.contains("argon2"), "{table}");
    admin(&["plan", "ada@x.example", "default"], "").await.well();
    assert_eq!(admin(&["list", "--json"], "").await.json()["accounts"][1]["plan"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_of_a_data_folder_manages_it() {
    let shell = Person::new();
    let empty = ["admin", "--data-dir", "nowhere", "list"];
    shell.runs(&empty).await.badly(1, &["nowhere/hotdesk.db", "hotdesk serve"]);
    assert!(!shell.file("nowhere").exists(), "it makes no store");
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: only root gives a file away");
    }
    let house = Simulation::boot().await;
    std::os::unix::fs::chown(house.store_file(), Some(12_345), None).expect("given away");
    let folder = house.store_file().parent().expect("a folder").display().to_string();
    shell.runs(&["admin", "--data-dir", &folder, "list"]).await.badly(1, &["12345"]);
}
