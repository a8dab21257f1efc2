//! Secrets for computers: who sets, lists and uses them, limits, removal and rotation (docs/api/secrets.md).

mod computer;
mod typing;

use hotdesk::base::ids::{AccountId, WorkspaceId};
use hotdesk::base::secret::Secret;
use hotdesk::domain::error_code::ErrorCode;
use hotdesk::domain::identity::access::Role;
use hotdesk::domain::secret::{MAX_SECRETS, MAX_VALUE, SecretName};
use hotdesk::store::Store;
use hotdesk::store::secrets::{SecretOwner, UsableSecrets};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::browser::person;
use crate::harness::caller::{Caller, HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;
use crate::secrets::Canaries;

/// Sets a secret with a key.
pub async fn put(controller: &Caller, key: &str, name: &str, body: Value) -> HttpAnswer {
    let path = format!("/secrets/{name}");
    fetch_json(controller.request_with(key, Method::PUT, &path).json(&body)).await
}

/// Names, scopes and workspaces of a list.
async fn listed(controller: &Caller, key: &str, query: &str) -> Vec<(String, String, Value)> {
    let path = format!("/secrets{query}");
    let answer = fetch_json(controller.request_with(key, Method::GET, &path)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let all = answer.body["secrets"].as_array().expect("secrets").clone();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    all.iter().map(|one| (text(&one["name"]), text(&one["scope"]), one["workspace_id"].clone())).collect()
}

fn name(text: &str) -> SecretName {
    SecretName::parse(text).expect("a name")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_set_replaced_listed_and_deleted_and_never_shown() {
    let controller = Simulation::boot().await;
    let key = controller.key();
    let home = controller.workspace("home").await;
    let set = put(&controller, key, "API_KEY", json!({"value": "first-value"})).await;
    assert_eq!((set.status, &set.body["name"]), (200, &json!("API_KEY")), "{}", set.body);
    assert_eq!((&set.body["scope"], &set.body["workspace_id"]), (&json!("account"), &Value::Null));
    let again = put(&controller, key, "API_KEY", json!({"value": "second-value"})).await;
    assert_eq!((&again.body["id"], &again.body["created_at"]), (&set.body["id"], &set.body["created_at"]));
    put(&controller, key, "API_KEY", json!({"value": "third-value", "workspace_id": home})).await;
    put(&controller, key, "A_FIRST", json!({"value": "fourth-value", "workspace_id": home})).await;
    let here = format!("?workspace_id={home}");
    let of_account = ("API_KEY".to_owned(), "account".to_owned(), Value::Null);
    assert_eq!(listed(&controller, key, "").await, [of_account]);
    let workspace = |name: &str| (name.to_owned(), "workspace".to_owned(), json!(home));
    assert_eq!(listed(&controller, key, &here).await, [workspace("API_KEY"), workspace("A_FIRST")]);
    let one = controller.get(&format!("/secrets/API_KEY{here}")).await;
    assert_eq!((one.status, &one.body["workspace_id"]), (200, &json!(home)));
    for answer in [&set.body, &again.body, &one.body, &controller.get("/secrets").await.body] {
        assert!(!answer.to_string().contains("-value"), "{answer}");
    }

    assert_eq!(controller.delete(&format!("/secrets/API_KEY{here}")).await.status, 200);
    let gone = controller.delete(&format!("/secrets/API_KEY{here}")).await;
    assert_eq!((gone.status, &gone.body["code"]), (404, &json!("secret_not_found")));
    assert_eq!(controller.get(&format!("/secrets/API_KEY{here}")).await.status, 404);
    assert_eq!(controller.get("/secrets/API_KEY").await.status, 200, "that of the account stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_secrets_are_refused_without_a_word_of_their_value() {
    let controller = Simulation::boot().await;
    let long = "hunter2 ".repeat(MAX_VALUE / 8 + 1);
    for (name, body) in [
        ("api_key", json!({"value": "hunter2"})),
        ("1A", json!({"value": "hunter2"})),
        ("UID", json!({"value": "hunter2"})),
        (&*"A".repeat(65), json!({"value": "hunter2"})),
        ("A", json!({})),
        ("A", json!({"value": ""})),
        ("A", json!({"value": "hunter2\0"})),
        ("A", json!({"value": long})),
        ("A", json!({"value": ["hunter2"]})),
        ("A", json!({"value": {"hunter2": 1}})),
        ("A", json!({"value": "hunter2", "scope": "account"})),
    ] {
        let refused = put(&controller, controller.key(), name, body).await;
        assert_eq!(refused.status, 400, "{name}: {}", refused.body);
        assert!(!refused.body.to_string().contains("hunter2"), "{}", refused.body);
    }
    let misplaced = put(&controller, controller.key(), "hunter2", json!({"value": "x"})).await;
    assert!(misplaced.status == 400 && !misplaced.body.to_string().contains("hunter2"), "{}", misplaced.body);
    assert!(listed(&controller, controller.key(), "").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn admins_set_members_list_and_viewers_see_nothing() {
    let controller = Simulation::boot().await;
    let (home, away) = (controller.workspace("home").await, controller.workspace("away").await);
    let store = controller.store().await;
    let here = format!("?workspace_id={home}");
    let body = |value: &str| json!({"value": value, "workspace_id": home});
    assert_eq!(put(&controller, controller.key(), "SHARED", body("shared")).await.status, 200);
    for (role, sets, lists) in [(Role::Admin, 200, 200), (Role::Member, 403, 200), (Role::Viewer, 403, 403)] {
        let account = person(&store, &format!("{}@localhost", role.name())).await.id;
        store.set_member(home.parse().expect("an id"), account, role).await.expect("a member");
        let key = controller.key_of(account, None).await;
        let ask = async |method, path: String| {
            fetch_json(controller.request_with(&key, method, &path)).await.status
        };
        let what = role.name();
        assert_eq!(put(&controller, &key, "OWN", body("own")).await.status, sets, "{what} sets");
        assert_eq!(ask(Method::GET, format!("/secrets{here}")).await, lists, "{what} lists");
        assert_eq!(ask(Method::GET, format!("/secrets/SHARED{here}")).await, lists, "{what} reads");
        assert_eq!(ask(Method::DELETE, format!("/secrets/OWN{here}")).await, sets, "{what} deletes");
        // Secrets of accounts are those of the caller's own.
        assert!(listed(&controller, &key, "").await.is_empty());
    }

    // A key that is limited to a workspace has its secrets alone, without naming it.
    put(&controller, controller.key(), "WIDE", json!({"value": "wide"})).await;
    let operator = store.operator_account().await.expect("the operator");
    let [scoped, elsewhere] =
        [controller.key_of(operator, Some(&home)).await, controller.key_of(operator, Some(&away)).await];
    let names = async |key: &str, query: &str| {
        listed(&controller, key, query).await.into_iter().map(|(name, _, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(&scoped, "").await, ["SHARED"]);
    assert!(names(&elsewhere, "").await.is_empty());
    let refused =
        fetch_json(controller.request_with(&elsewhere, Method::GET, &format!("/secrets{here}"))).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("workspace_scope_mismatch")));
    let set = put(&controller, &elsewhere, "THERE", json!({"value": "there"})).await;
    assert_eq!(set.body["workspace_id"], away.as_str(), "{}", set.body);
    assert_eq!(names(controller.key(), "").await, ["WIDE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_removed_with_their_workspace() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    put(&controller, controller.key(), "GONE", json!({"value": "gone", "workspace_id": home})).await;
    put(&controller, controller.key(), "KEPT", json!({"value": "kept"})).await;
    assert_eq!(controller.delete(&format!("/workspaces/{home}")).await.status, 200);
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let usable = UsableSecrets { workspace: home.parse().expect("an id"), account: Some(operator) };
    assert_eq!(store.usable_secret_names(usable).await.expect("names"), [name("KEPT")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_in_no_file_answer_or_entry_of_the_audit_log() {
    let controller = Simulation::boot().await;
    let mut secrets = Canaries::default();
    let value = secrets.record("a secret of the vault", Secret::random(24).reveal());
    let former = secrets.record("a former value", Secret::random(24).reveal());
    let body = |value: &str| json!({ "value": value });
    put(&controller, controller.key(), "CANARY", body(&former)).await;
    let send = || {
        let request = controller.request(Method::PUT, "/secrets/CANARY");
        fetch_json(request.header("Idempotency-Key", "canary-of-the-vault").json(&body(&value)))
    };
    let (first, again) = (send().await, send().await);
    assert_eq!((first.status, &first.body), (200, &again.body));
    let request = controller.request(Method::PUT, "/secrets/CANARY");
    let other = request.header("Idempotency-Key", "canary-of-the-vault").json(&body("another-value"));
    assert_eq!(fetch_json(other).await.status, 422);
    let log = controller.get("/audit?limit=500").await.body;
    let mut entries = log["entries"].as_array().expect("entries").iter();
    let is_change = |it: &Value| it["route"] == "/secrets/{name}" && it["target_id"] == first.body["id"];
    assert!(entries.any(is_change), "{log}");
    assert!(secrets.find_in_text(&log.to_string()).is_empty(), "{log}");
    assert_eq!(secrets.find_in_files(&controller.data_dir()), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_removed_with_their_account() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, owner, _) = stored(&folder).await;
    let leaver = person(&store, "leaver@localhost").await.id;
    for account in [owner, leaver] {
        let saved = SecretOwner::Account(account);
        store.save_secret(saved, &name("A"), &Secret::new("x"), None).await.expect("stored");
    }
    store.finish_agent_removal(leaver).await.expect("removed");
    assert!(store.secrets_of(SecretOwner::Account(leaver)).await.expect("the store").is_empty());
    assert_eq!(store.secrets_of(SecretOwner::Account(owner)).await.expect("the store").len(), 1);
}

/// An account with a workspace in a new store.
async fn stored(folder: &tempfile::TempDir) -> (Store, AccountId, WorkspaceId) {
    let store = Store::open(&folder.path().join("hotdesk.db")).await.expect("a store");
    let account = person(&store, "owner@localhost").await.id;
    let plans = hotdesk::controller::config::Config::default().plans();
    let workspace = hotdesk::domain::name::Name::parse("home").expect("a name");
    let made = store.add_workspace(account, &workspace, None, "active", &plans).await.expect("a workspace");
    (store, account, made.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_s_secret_takes_precedence_and_all_survive_a_rotation() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, account, workspace) = stored(&folder).await;
    let (of_account, of_workspace) = (SecretOwner::Account(account), SecretOwner::Workspace(workspace));
    for (owner, secret, value) in [
        (of_account, "BOTH", "account-both-value"),
        (of_workspace, "BOTH", "workspace-both-value"),
        (of_account, "WIDE", "account-wide-value"),
        (of_workspace, "NARROW", "workspace-narrow-value"),
    ] {
        store.save_secret(owner, &name(secret), &Secret::new(value), None).await.expect("stored");
    }
    let check = async |store: &Store| {
        let all = UsableSecrets { workspace, account: Some(account) };
        let narrow = UsableSecrets { workspace, account: None };
        let other = UsableSecrets { workspace: WorkspaceId::random(), account: Some(account) };
        for (usable, secret, expected) in [
            (all, "BOTH", Some("workspace-both-value")),
            (narrow, "BOTH", Some("workspace-both-value")),
            (other, "BOTH", Some("account-both-value")),
            (all, "WIDE", Some("account-wide-value")),
            (narrow, "WIDE", None),
            (all, "NARROW", Some("workspace-narrow-value")),
            (other, "NARROW", None),
            (all, "NONE", None),
        ] {
            let found = store.usable_secret(usable, &name(secret)).await.expect("the store");
            let found = found.as_ref().map(Secret::reveal);
            assert_eq!(found, expected, "{secret} of {usable:?}");
        }
        assert_eq!(
            store.usable_secret_names(all).await.expect("names"),
            ["BOTH", "NARROW", "WIDE"].map(name)
        );
        assert_eq!(store.usable_secret_names(narrow).await.expect("names"), ["BOTH", "NARROW"].map(name));
    };
    check(&store).await;
    assert!(store.rotate_keys().await.expect("rotated") >= 4);
    let store = Store::open(&folder.path().join("hotdesk.db")).await.expect("the store opens");
    check(&store).await;
    store.close().await;
    let mut values = Canaries::default();
    for part in ["account-both-value", "workspace-both-value", "account-wide-value", "workspace-narrow-value"]
    {
        values.record("a value", part);
    }
    assert_eq!(values.find_in_files(folder.path()), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_owner_has_a_limited_number_of_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, account, workspace) = stored(&folder).await;
    let owner = SecretOwner::Workspace(workspace);
    let save = async |owner, number: u32| {
        store.save_secret(owner, &name(&format!("N{number}")), &Secret::new("x"), None).await
    };
    for number in 0..MAX_SECRETS {
        assert!(save(owner, number).await.expect("stored").1, "it is new");
    }
    let refused = save(owner, MAX_SECRETS).await.expect_err("one too many");
    assert_eq!(refused.code, Some(ErrorCode::SecretLimit));
    assert!(!save(owner, 0).await.expect("replaced").1, "a value can be replaced");
    save(SecretOwner::Account(account), MAX_SECRETS).await.expect("the account has its own limit");
    assert!(store.remove_secret(owner, &name("N0"), None).await.expect("removed"));
    assert!(!store.remove_secret(owner, &name("N0"), None).await.expect("gone"));
    save(owner, MAX_SECRETS).await.expect("there is room again");
}
