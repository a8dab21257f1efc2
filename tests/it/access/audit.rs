//! Audit log: its entries, its readers, its filters and its retention.

use std::sync::Arc;
use std::time::Duration;

use hotdesk::base::ids::{AccountId, WorkspaceId};
use hotdesk::base::time::UnixMillis;
use hotdesk::base::wait;
use hotdesk::domain::audit::{AuditAction, AuditOutcome, Entry};
use hotdesk::domain::identity::access::Role;
use hotdesk::store::Store;
use hotdesk::store::audit::AuditFilter;
use reqwest::Method;
use serde_json::{Value, json};

use super::cast::{add_account, add_key};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::long_requests::{hanging_agent, until};
use crate::harness::simulation::Simulation;

/// Upper bound for a background write to the audit log on a busy machine.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);

async fn entries(controller: &Simulation, key: &str, query: &str) -> Vec<Value> {
    let listed = fetch_json(controller.request_with(key, Method::GET, &format!("/audit{query}"))).await;
    assert_eq!(listed.status, 200, "{}", listed.body);
    listed.body["entries"].as_array().expect("entries").clone()
}

/// `METHOD ROUTE RESULT` of each entry.
fn summaries(entries: &[Value]) -> Vec<String> {
    let text = |entry: &Value, name: &str| entry[name].as_str().expect("text").to_owned();
    let line =
        |entry| format!("{} {} {}", text(entry, "method"), text(entry, "route"), text(entry, "result"));
    entries.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_who_did_what_and_nothing_that_was_typed() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let computer = controller.computer(&home, "desk").await;
    let created = controller.create("/keys", json!({"name": "ci", "workspace_id": home})).await;
    let key = created["key"].as_str().expect("a key").to_owned();
    let ask = |method, path: String| controller.request_with(&key, method, &path);
    let typed = ask(Method::POST, format!("/computers/{computer}/bash?canary=q-canary"));
    let typed = typed.json(&json!({"command": "echo b-canary"})).send().await.expect("an answer");
    let request_id = typed.headers()["x-request-id"].to_str().expect("text").to_owned();
    fetch_json(ask(Method::GET, format!("/computers/{computer}/vnc-password"))).await;
    fetch_json(ask(Method::GET, format!("/computers/{computer}"))).await;
    fetch_json(ask(Method::POST, "/workspaces".to_owned()).json(&json!({"name": "n-canary"}))).await;
    fetch_json(ask(Method::DELETE, format!("/workspaces/by-name-{}", "p-canary"))).await;
    fetch_json(controller.bare(Method::GET, "/api/workspaces").bearer_auth("sk_live_w-canary")).await;

    let log = entries(&controller, controller.key(), "").await;
    let expected = [
        "GET /workspaces refused",
        "DELETE /workspaces/{id} failed",
        "POST /workspaces refused",
        "GET /computers/{id}/vnc-password done",
        "POST /computers/{id}/bash done",
        "POST /keys done",
        "POST /computers done",
        "POST /workspaces done",
    ];
    assert_eq!(summaries(&log), expected);
    let bash = &log[4];
    assert_eq!((&bash["computer_id"], &bash["workspace_id"]), (&json!(computer), &json!(home)));
    assert_eq!((&bash["credential"], &bash["credential_id"]), (&json!("key"), &created["id"]));
    assert_eq!(
        (&bash["client"], &bash["status"], &bash["source"]),
        (&json!("ci"), &json!(200), &json!("127.0.0.1"))
    );
    assert_eq!(bash["account_email"], "operator@localhost");
    assert_eq!(bash["request_id"], request_id.as_str());
    assert_eq!(log[5]["target_id"], created["id"], "id of the created key");
    assert_eq!(log[5]["client"], "first key");
    assert_eq!((&log[2]["code"], &log[2]["status"]), (&json!("workspace_scope_mismatch"), &json!(403)));
    assert_eq!((&log[0]["account_id"], &log[0]["credential"]), (&Value::Null, &Value::Null));
    for (what, canary) in [("a text", "canary"), ("a key", &*key), ("a key", controller.key())] {
        assert!(!json!(log).to_string().contains(canary), "the log must not contain {what}");
    }

    // Filters and cursor pagination.
    let of_key = format!("?key_id={}", id_of(&created));
    assert_eq!(summaries(&entries(&controller, controller.key(), &of_key).await), expected[1..5]);
    let on_computer = entries(&controller, controller.key(), &format!("?computer_id={computer}")).await;
    let about_it =
        ["GET /computers/{id}/vnc-password done", "POST /computers/{id}/bash done", "POST /computers done"];
    assert_eq!(summaries(&on_computer), about_it);
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = controller.get(&format!("/audit?limit=3&cursor={cursor}")).await.body;
        paged.extend(page["entries"].as_array().expect("entries").clone());
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(paged, log);
    let since = log[3]["at"].as_str().expect("a time");
    assert_eq!(entries(&controller, controller.key(), &format!("?since={since}")).await[..4], log[..4]);
    assert!(!entries(&controller, controller.key(), &format!("?until={since}")).await.is_empty());
    assert!(entries(&controller, controller.key(), "?since=2100-01-01T00:00:00Z").await.is_empty());
    for bad in ["limit=0", "limit=501", "cursor=x", "since=yesterday", "until=2026-01-01"] {
        assert_eq!(controller.get(&format!("/audit?{bad}")).await.status, 400, "{bad}");
    }

    // Entries of a deleted computer stay readable.
    assert_eq!(controller.delete(&format!("/computers/{computer}")).await.status, 200);
    let gone = entries(&controller, controller.key(), &format!("?computer_id={computer}")).await;
    assert_eq!(gone.len(), 4, "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_each_reads_of_the_log_what_it_may_know() {
    let controller = Simulation::boot().await;
    let (home, away) = (controller.workspace("home").await, controller.workspace("away").await);
    let computer = controller.computer(&home, "desk").await;
    let store = controller.store().await;
    let (member, stranger) =
        (add_account(&store, "member@example").await, add_account(&store, "stranger@example").await);
    let workspace: WorkspaceId = home.parse().expect("an id");
    store.set_member(workspace, member, Role::Member).await.expect("a member");
    let operator = store.operator_account().await.expect("the operator");
    let scoped = add_key(&store, operator, Some(&away)).await;
    let (members, strangers) = (add_key(&store, member, None).await, add_key(&store, stranger, None).await);
    let path = format!("/computers/{computer}/bash");
    for key in [&scoped, &members, &strangers] {
        fetch_json(controller.request_with(key, Method::POST, &path).json(&json!({"command": "x"}))).await;
    }
    let created = json!({"name": "near", "workspace_id": away});
    fetch_json(controller.request_with(&scoped, Method::POST, "/keys").json(&created)).await;

    let owner = entries(&controller, controller.key(), &format!("?computer_id={computer}")).await;
    let commands = ["refused", "done", "refused"].map(|it| format!("POST /computers/{{id}}/bash {it}"));
    assert_eq!(summaries(&owner)[..3], commands);
    assert_eq!(owner.len(), 4, "three commands and the creation");
    assert_eq!(
        (&owner[0]["account_id"], &owner[0]["workspace_id"]),
        (&json!(stranger.to_string()), &json!(home))
    );
    assert_eq!(owner[0]["account_email"], Value::Null, "the owner must not see a stranger's email address");
    assert!(owner[1]["account_email"].is_string(), "the owner sees a member's email address: {}", owner[1]);
    let own = entries(&controller, &strangers, "").await;
    assert!(own[0]["account_email"].is_string(), "a caller sees its own email address: {}", own[0]);
    assert_eq!(summaries(&own), ["POST /computers/{id}/bash refused"]);
    assert_eq!((&own[0]["workspace_id"], &own[0]["computer_id"]), (&Value::Null, &Value::Null));
    assert_eq!(summaries(&entries(&controller, &members, "").await), ["POST /computers/{id}/bash done"]);
    assert_eq!(
        summaries(&entries(&controller, &scoped, "").await),
        ["POST /keys done", "POST /workspaces done"]
    );
    store.set_member(workspace, member, Role::Admin).await.expect("an admin");
    let admin = entries(&controller, &members, &format!("?workspace_id={home}")).await;
    assert_eq!(admin.len(), 5, "every entry of the workspace: {admin:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_is_told_of_and_a_flood_of_nobody_s_is_not() {
    let started = Arc::default();
    let controller = Simulation::boot_with(hanging_agent(&started)).await;
    let home = controller.workspace("home").await;
    let computer = controller.computer(&home, "desk").await;
    let command = controller.request(Method::POST, &format!("/computers/{computer}/bash"));
    tokio::select! {
        early = command.json(&json!({"command": "x"})).send() => panic!("the command must not end: {early:?}"),
        () = until(&started, 1) => {} // The client disconnects.
    }
    let left = wait::until(WRITE_DEADLINE, async || {
        let log = entries(&controller, controller.key(), "").await;
        summaries(&log).contains(&"POST /computers/{id}/bash unanswered".to_owned()).then_some(())
    });
    assert!(left.await.is_some());
    for _ in 0..60 {
        fetch_json(controller.bare(Method::GET, "/api/workspaces")).await;
    }
    let log = entries(&controller, controller.key(), "?limit=500").await;
    assert_eq!(log.iter().filter(|entry| entry["account_id"].is_null()).count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_once_under_a_key_is_told_in_full() {
    let controller = Simulation::boot().await;
    let keyed =
        |method, path: &str, key: &str| controller.request(method, path).header("Idempotency-Key", key);
    let created = keyed(Method::POST, "/workspaces", "key-number-1").json(&json!({"name": "home"}));
    let created = fetch_json(created).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let home = id_of(&created.body);
    let computer = controller.computer(&home, "desk").await;
    let deleted = fetch_json(keyed(Method::DELETE, &format!("/computers/{computer}"), "key-number-2")).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    let key = keyed(Method::POST, "/keys", "key-number-3").json(&json!({"name": "ci", "workspace_id": home}));
    let key = fetch_json(key).await;
    assert_eq!(key.status, 201, "{}", key.body);

    let log = entries(&controller, controller.key(), "").await;
    let expected =
        ["POST /keys done", "DELETE /computers/{id} done", "POST /computers done", "POST /workspaces done"];
    assert_eq!(summaries(&log), expected);
    assert!(log.iter().all(|entry| entry["workspace_id"] == home), "{log:?}");
    assert_eq!((&log[1]["computer_id"], &log[0]["target_id"]), (&json!(computer), &key.body["id"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_and_deletes_a_key_is_in_the_log_when_it_is_done() {
    let mut controller = RunningController::boot().await;
    let created = controller.create("/keys", json!({"name": "new"})).await;
    controller.kill();
    controller.start_again().await;
    let deleted = controller.delete(&format!("/keys/{}", id_of(&created))).await;
    assert_eq!(deleted.status, 200);
    controller.kill();
    controller.start_again().await;
    let log = controller.get("/audit").await.body["entries"].as_array().expect("entries").clone();
    assert_eq!(summaries(&log), ["DELETE /keys/{id} done", "POST /keys done"]);
    assert!(log.iter().all(|entry| entry["target_id"] == created["id"]));
    // An orderly shutdown writes the remaining entries.
    controller.workspace("home").await;
    controller.restart().await;
    let log = controller.get("/audit").await.body["entries"].as_array().expect("entries").clone();
    assert_eq!(summaries(&log)[0], "POST /workspaces done");
    let keys = controller.get("/keys").await.body;
    assert!(keys["keys"][0]["last_used_at"].is_string());
}

#[tokio::test]
async fn the_log_keeps_so_many_days_and_so_many_entries() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("hotdesk.db")).await.expect("a store");
    let account = AccountId::random();
    let entry = |at: i64, account: Option<AccountId>| Entry {
        account,
        source: Some("2001:db8::1".parse().expect("an address")),
        method: "POST".to_owned(),
        route: "/computers".to_owned(),
        action: None,
        outcome: AuditOutcome::CREATED,
        request_id: "r".to_owned(),
        ..Entry::of_the_service(UnixMillis::new(at), AuditAction::TrialEnd)
    };
    let written: Vec<Entry> = (0..20).map(|at| entry(at, Some(account))).collect();
    store.add_audit(&written).await.expect("written");
    store.add_audit(&[entry(20, None), entry(21, None)]).await.expect("written");
    let all = AuditFilter {
        reader: account,
        anonymous: true,
        before: None,
        since: None,
        until: None,
        workspace: None,
        computer: None,
        key: None,
        limit: 100,
    };
    let list = async || {
        let found = store.audit(&all).await.expect("a list");
        found.into_iter().map(|(_, entry)| entry.at.as_i64()).collect::<Vec<_>>()
    };
    let read = store.audit(&AuditFilter { limit: 1, before: Some(21), ..all.clone() }).await.expect("a list");
    assert_eq!(read, [(20, written[19].clone())], "the entry must be read back unchanged");
    store.trim_audit(UnixMillis::new(5), 100).await.expect("trimmed");
    assert_eq!(list().await, (5..22).rev().collect::<Vec<_>>());
    store.trim_audit(UnixMillis::EPOCH, 3).await.expect("trimmed");
    assert_eq!(list().await, [21, 20, 19, 18, 17], "anonymous entries must not displace those of accounts");
    store.trim_audit(UnixMillis::EPOCH, 1).await.expect("trimmed");
    assert_eq!(list().await, [21, 19]);
}
