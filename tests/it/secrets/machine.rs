//! The secrets of a computer: its password before and after a restart, its agent's token, a ticket to its screen.

use hotdesk::store::Store;
use reqwest::Method;
use serde_json::json;

use super::look::Canaries;
use super::programs::{once, text};
use crate::harness::agent::answered;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Came, Client};

/// A computer that was used, and its id.
pub async fn used(
    house: &RunningController,
    store: &Store,
    secrets: &mut Canaries,
    workspace: &str,
) -> String {
    // Asked twice: this answer is told again, for nobody should pay for a computer that they cannot find.
    let order = json!({"workspace_id": workspace, "name": "desk"});
    let ask = || {
        house.request(Method::POST, "/computers").header("Idempotency-Key", "canary-computer").json(&order)
    };
    let made = answered(ask()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(answered(ask()).await.body, made.body);
    let id = id_of(&made.body);
    secrets.keep("a computer's former password", text(&made.body, "vnc_password"));
    keep_token(store, secrets, "a computer's former token").await;
    house.post(&format!("/computers/{id}/restart"), json!({})).await;
    let again = house.until_status(&id, "running").await;
    let password = secrets.keep("a computer's password", text(&again, "vnc_password"));
    keep_token(store, secrets, "a computer's token").await;

    house.bash(&id, "echo hi; sleep 0.1").await;
    let events = format!("/desktops/{id}/ws/events?token={password}");
    drop(Client::open(house.address(), &events, &[]).await.expect("accepted"));
    let wrong = Client::open(house.address(), &format!("{events}x"), &[]).await.expect("accepted");
    assert_eq!(wrong.closed().await, 4401);
    let mut screen =
        Client::open(house.address(), &events.replace("events", "websockify"), &[]).await.expect("accepted");
    assert_eq!(screen.next().await, Came::Binary(b"RFB 003.008\n".to_vec()));
    let path = format!("/computers/{id}/stream-tickets");
    let ticket = once(house, house.key(), &path, &json!({"mode": "view"}), 201).await;
    secrets.keep("a ticket", text(&ticket, "ticket"));
    let url = text(&ticket, "ws_url");
    let opened = &url[url.find("/desktops/").expect("a path")..];
    let mut viewer = Client::open(house.address(), opened, &[]).await.expect("accepted");
    assert_eq!(viewer.next().await, Came::Binary(b"RFB 003.008\n".to_vec()));
    let proxied = house.bare(Method::GET, &format!("/desktops/{id}/proxy/health")).bearer_auth(house.key());
    assert_eq!(proxied.send().await.expect("an answer").status(), 200);
    assert_eq!(house.get(&format!("/computers/{id}/vnc-password")).await.body["password"], password.as_str());
    id
}

/// What the controller alone knows.
async fn keep_token(store: &Store, secrets: &mut Canaries, what: &'static str) {
    let computers = store.all_computers().await.expect("rows");
    assert_eq!(computers.len(), 1);
    secrets.keep(what, computers[0].agent_token.reveal());
}

/// What the guest's own log and folders show to a program in it.
pub async fn seen_inside(house: &RunningController, id: &str) -> String {
    let look = "cat /var/log/hotdesk/*.log 2>/dev/null; ls -ln /run/hotdesk /run/secrets 2>/dev/null; \
                cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true";
    house.bash(id, look).await
}
