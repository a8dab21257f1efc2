//! Does `hotdesk login` get a key by an approval, and keep it to itself?

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::Value;

use super::person::Person;
use crate::harness::browser::{Browser, person};
use crate::harness::process::Owned;
use crate::harness::simulation::Simulation;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A `hotdesk login` that waits, and what it shows.
async fn waiting(somebody: &Person, url: &str, more: &[&str]) -> (Owned, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(["login", "--json", "--url", url]).args(more);
    command.env_clear().env("HOME", somebody.home()).current_dir(somebody.home()).stderr(Stdio::null());
    Owned::until_it_says(&mut command, TIMEOUT, |line| serde_json::from_str(line).ok()).await
}

async fn ended(login: &mut Owned) -> bool {
    let status = wait::until(TIMEOUT, || std::future::ready(login.0.try_wait().expect("it is ours")));
    status.await.expect("it ends").success()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_stores_a_key_that_was_approved() {
    let house = Simulation::boot().await;
    person(&house.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&house.base, "ada@x.example").await;
    let somebody = Person::new();
    somebody.runs(&["workspaces", "list"]).await.badly(1, &["no API key"]);

    let (mut login, shown) = waiting(&somebody, &house.base, &[]).await;
    let code = shown["user_code"].as_str().expect("a code");
    let page = shown["verification_uri_complete"].as_str().expect("an address");
    let asked = browser.get(page.strip_prefix(&house.base).expect("of this server")).await;
    let host = nix::unistd::gethostname().expect("a name").to_string_lossy().into_owned();
    assert!(asked.text.contains(code) && asked.text.contains(&host), "{}", asked.text);
    let approved = browser.post("/cli/approve", &[("code", code), ("decision", "approve")]).await;
    assert_eq!(approved.status, 200, "{}", approved.text);
    assert!(ended(&mut login).await);

    let file = somebody.home().join(".hotdesk/credentials.json");
    assert_eq!(std::fs::metadata(&file).expect("stored").permissions().mode() & 0o777, 0o600);
    let stored: Value = serde_json::from_slice(&std::fs::read(&file).expect("stored")).expect("JSON");
    assert_eq!(
        (&stored["current"], &stored["profiles"]["default"]["url"]),
        (&"default".into(), &house.base.as_str().into())
    );
    // The profile serves without another word.
    somebody.runs(&["workspaces", "create", "mine"]).await.well();
    let store = house.store().await;
    let she = store.account_of("ada@x.example").await.expect("the store").expect("her account");
    assert_eq!(store.workspaces(she.id).await.expect("the store").len(), 1, "it is hers");
    assert!(somebody.runs(&["profile", "show"]).await.well().contains("default"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_denied_says_so_and_stores_nothing() {
    let house = Simulation::boot().await;
    person(&house.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&house.base, "ada@x.example").await;
    let somebody = Person::new();
    let (mut login, shown) = waiting(&somebody, &house.base, &["--profile", "work"]).await;
    let code = shown["user_code"].as_str().expect("a code");
    assert_eq!(browser.post("/cli/approve", &[("code", code), ("decision", "deny")]).await.status, 200);
    assert!(!ended(&mut login).await);
    assert!(!somebody.home().join(".hotdesk/credentials.json").exists());
    // Where nobody answers it does not wait.
    somebody.runs(&["login", "--url", "http://127.0.0.1:1"]).await.badly(1, &["http://127.0.0.1:1"]);
    somebody.runs(&["login", "--url", "nonsense"]).await.badly(2, &["nonsense"]);
}
