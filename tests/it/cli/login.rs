//! `hotdesk login`: a key by approval in a browser, stored in the profile only.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::Value;

use super::person::Shell;
use crate::harness::browser::{Browser, person};
use crate::harness::process::OwnedChild;
use crate::harness::simulation::Simulation;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a `hotdesk login` that waits for its approval; returns it and the JSON that it prints.
async fn start_login(shell: &Shell, url: &str, more: &[&str]) -> (OwnedChild, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(["login", "--json", "--url", url]).args(more);
    command.env_clear().env("HOME", shell.home()).current_dir(shell.home()).stderr(Stdio::null());
    OwnedChild::spawn_until_ready(&mut command, TIMEOUT, |line| serde_json::from_str(line).ok()).await
}

async fn has_succeeded(login: &mut OwnedChild) -> bool {
    let status =
        wait::until(TIMEOUT, || std::future::ready(login.0.try_wait().expect("the process is a child")));
    status.await.expect("the login must end").success()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_stores_a_key_that_was_approved() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&controller.base, "ada@x.example").await;
    let shell = Shell::new();
    shell.run(&["workspaces", "list"]).await.expect_failure(1, &["no API key"]);

    let (mut login, shown) = start_login(&shell, &controller.base, &[]).await;
    let code = shown["user_code"].as_str().expect("a code");
    let page = shown["verification_uri_complete"].as_str().expect("an address");
    let approval_page = browser.get(page.strip_prefix(&controller.base).expect("of this server")).await;
    let host = nix::unistd::gethostname().expect("a name").to_string_lossy().into_owned();
    assert!(
        approval_page.text.contains(code) && approval_page.text.contains(&host),
        "{}",
        approval_page.text
    );
    let approved = browser.post("/cli/approve", &[("code", code), ("decision", "approve")]).await;
    assert_eq!(approved.status, 200, "{}", approved.text);
    assert!(has_succeeded(&mut login).await);

    let file = shell.home().join(".hotdesk/credentials.json");
    assert_eq!(std::fs::metadata(&file).expect("stored").permissions().mode() & 0o777, 0o600);
    let stored: Value = serde_json::from_slice(&std::fs::read(&file).expect("stored")).expect("JSON");
    assert_eq!(
        (&stored["current"], &stored["profiles"]["default"]["url"]),
        (&"default".into(), &controller.base.as_str().into())
    );
    // The stored profile suffices for the next commands.
    shell.run(&["workspaces", "create", "mine"]).await.expect_success();
    let store = controller.store().await;
    let account = store.account_of("ada@x.example").await.expect("the store").expect("her account");
    assert_eq!(
        store.workspaces(account.id).await.expect("the store").len(),
        1,
        "the workspace must belong to the approving account"
    );
    assert!(shell.run(&["profile", "show"]).await.expect_success().contains("default"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_denied_says_so_and_stores_nothing() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&controller.base, "ada@x.example").await;
    let shell = Shell::new();
    let (mut login, shown) = start_login(&shell, &controller.base, &["--profile", "work"]).await;
    let code = shown["user_code"].as_str().expect("a code");
    assert_eq!(browser.post("/cli/approve", &[("code", code), ("decision", "deny")]).await.status, 200);
    assert!(!has_succeeded(&mut login).await);
    assert!(!shell.home().join(".hotdesk/credentials.json").exists());
    // The command does not wait for a server that does not answer.
    shell.run(&["login", "--url", "http://127.0.0.1:1"]).await.expect_failure(1, &["http://127.0.0.1:1"]);
    shell.run(&["login", "--url", "nonsense"]).await.expect_failure(2, &["nonsense"]);
}
