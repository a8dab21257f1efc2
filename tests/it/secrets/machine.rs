//! Secrets of a computer: its password before and after a restart, its agent's token, and a ticket to its
//! screen.

use hotdesk::store::Store;
use reqwest::Method;
use serde_json::json;

use super::look::Canaries;
use super::programs::{post_twice, text};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

/// Creates a computer, uses it, and returns its id.
pub async fn use_computer(
    controller: &RunningController,
    store: &Store,
    secrets: &mut Canaries,
    workspace: &str,
) -> String {
    // A repeated create returns the same response, so that a client whose response was lost can find its
    // computer.
    let body = json!({"workspace_id": workspace, "name": "desk"});
    let send = || {
        controller
            .request(Method::POST, "/computers")
            .header("Idempotency-Key", "canary-computer")
            .json(&body)
    };
    let created = fetch_json(send()).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(fetch_json(send()).await.body, created.body);
    let id = id_of(&created.body);
    secrets.record("a computer's former password", text(&created.body, "vnc_password"));
    record_token(store, secrets, "a computer's former token").await;
    controller.post(&format!("/computers/{id}/restart"), json!({})).await;
    let again = controller.until_status(&id, "running").await;
    let password = secrets.record("a computer's password", text(&again, "vnc_password"));
    record_token(store, secrets, "a computer's token").await;

    controller.bash(&id, "echo hi; sleep 0.1").await;
    let synced = controller.post(&format!("/computers/{id}/secrets/sync"), json!({})).await;
    assert_eq!((synced.status, &synced.body["names"]), (200, &json!(["CANARY"])), "{}", synced.body);
    let typed = controller.act(&id, "type", json!({"text": "{{secret:CANARY}}"})).await;
    assert_eq!(typed.status, 200, "{}", typed.body);
    let events = format!("/desktops/{id}/ws/events?token={password}");
    drop(Client::open(controller.address(), &events, &[]).await.expect("accepted"));
    let wrong = Client::open(controller.address(), &format!("{events}x"), &[]).await.expect("accepted");
    assert_eq!(wrong.closed().await, 4401);
    let mut screen = Client::open(controller.address(), &events.replace("events", "websockify"), &[])
        .await
        .expect("accepted");
    assert_eq!(screen.next().await, SocketEvent::Binary(b"RFB 003.008\n".to_vec()));
    let path = format!("/computers/{id}/stream-tickets");
    let ticket = post_twice(controller, controller.key(), &path, &json!({"mode": "view"}), 201).await;
    secrets.record("a ticket", text(&ticket, "ticket"));
    let url = text(&ticket, "ws_url");
    let path = &url[url.find("/desktops/").expect("a path")..];
    let mut viewer = Client::open(controller.address(), path, &[]).await.expect("accepted");
    assert_eq!(viewer.next().await, SocketEvent::Binary(b"RFB 003.008\n".to_vec()));
    let proxied =
        controller.bare(Method::GET, &format!("/desktops/{id}/proxy/health")).bearer_auth(controller.key());
    assert_eq!(proxied.send().await.expect("an answer").status(), 200);
    assert_eq!(
        controller.get(&format!("/computers/{id}/vnc-password")).await.body["password"],
        password.as_str()
    );
    id
}

/// Records the agent's token, which only the controller knows.
async fn record_token(store: &Store, secrets: &mut Canaries, what: &'static str) {
    let computers = store.all_computers().await.expect("rows");
    assert_eq!(computers.len(), 1);
    secrets.record(what, computers[0].agent_token.reveal());
}

/// What a program in the guest can see: logs, folders, command lines and environments.
pub async fn visible_inside(controller: &RunningController, id: &str) -> String {
    let command = "cat /var/log/hotdesk/*.log 2>/dev/null; ls -ln /run/hotdesk /run/secrets 2>/dev/null; \
                cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true";
    controller.bash(id, command).await
}
