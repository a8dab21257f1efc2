//! Loss of access to a computer: the password changes, and open sockets, tickets and the stream end at once.
//! The computer itself continues to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::routing::{any, post};
use axum::{Json, Router};
use futures_util::SinkExt;
use hotdesk::base::ids::AccountId;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::domain::desktop::channel::{Channel, Failure};
use hotdesk::domain::error::Kind;
use hotdesk::domain::identity::access::Role;
use hotdesk::http::error_response::HttpError;
use hotdesk::http::socket::{CloseReason, PeerMessage, Sockets, Upgrade};
use hotdesk::store::Store;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::members::{add_member, wide_key};
use crate::harness::agent::fetch_json;
use crate::harness::browser::person;
use crate::harness::caller::{Caller, HttpAnswer};
use crate::harness::controller::RunningController;
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};
use crate::mcp::scene::{consent, initialize, token};

/// Longest time until every socket of an old password ends. The rule is one second; a busy machine gets more.
/// It is below 15 s, when the next sweep would end a socket that the first one missed.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time of a background request to a computer, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An agent whose channels send a greeting and echo messages, and whose streams start at every request.
/// `ended` counts the requests that stop a stream.
fn agent(ended: &Arc<AtomicUsize>) -> Router {
    let (sockets, ended) = (Sockets::new(Tasks::new()), Arc::clone(ended));
    let open = async move |upgrade: Upgrade| {
        sockets
            .open(upgrade, "echo", |sender, mut receiver| async move {
                // A failed send shows in the next receive.
                let _gone = sender.text("hello").await;
                while let Some(PeerMessage::Text(text)) = receiver.receive().await {
                    let _gone = sender.text(text).await;
                }
                CloseReason::new(1000, "")
            })
            .map_err(HttpError)
    };
    let start = async || Json(json!({"success": true, "status": "streaming", "pid": 7}));
    let stop = async move || {
        ended.fetch_add(1, Ordering::SeqCst);
        Json(json!({"success": true}))
    };
    Router::new()
        .route("/ws/{channel}", any(open))
        .route("/stream/start", post(start))
        .route("/stream/stop", post(stop))
}

/// A controller, its workspace, its running computer, and the number of stopped streams.
pub async fn boot_controller() -> (Simulation, String, String, Arc<AtomicUsize>) {
    let ended = Arc::default();
    let controller = Simulation::boot_with(agent(&ended)).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    (controller, home, desk, ended)
}

async fn password(who: &Caller, desk: &str) -> String {
    let record = who.get(&format!("/computers/{desk}/vnc-password")).await;
    record.body["password"].as_str().unwrap_or_else(|| panic!("{}", record.body)).to_owned()
}

/// Opens a socket and waits for its first message.
pub async fn open_socket(address: &str, channel: Channel, path: &str) -> Client {
    let mut client = Client::open(address, path, &[]).await.expect("the upgrade is accepted");
    if channel == Channel::Events {
        client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("it listens");
    }
    let first = client.next().await;
    assert!(matches!(first, SocketEvent::Text(_) | SocketEvent::Binary(_)), "{channel:?}: {first:?}");
    client
}

fn by_password(desk: &str, channel: Channel, password: &str) -> String {
    format!("/desktops/{desk}/ws/{}?token={password}", channel.name())
}

/// An open socket of each channel. A computer whose agent is a `real` one has no encoder for video
/// (`tests/it/channels/video.rs`).
async fn open_all(address: &str, desk: &str, password: &str, real: bool) -> Vec<(Channel, Client)> {
    let mut clients = Vec::new();
    for channel in Channel::BY_PASSWORD.into_iter().filter(|channel| !real || *channel != Channel::Video) {
        clients.push((channel, open_socket(address, channel, &by_password(desk, channel, password)).await));
    }
    clients
}

/// The path of a new stream ticket.
pub async fn ticket_path(who: &Caller, desk: &str, mode: &str) -> String {
    let created = who.create(&format!("/computers/{desk}/stream-tickets"), json!({ "mode": mode })).await;
    let url = created["ws_url"].as_str().expect("a URL");
    url[url.find("/desktops/").expect("a path")..].to_owned()
}

/// Asserts that each socket is closed like one with a wrong password, all of them within `within`.
pub async fn assert_closed(clients: Vec<(Channel, Client)>, within: Duration) {
    let began = Instant::now();
    for (channel, client) in clients {
        let left = within.saturating_sub(began.elapsed());
        let code = tokio::time::timeout(left, client.closed()).await;
        let code = code.unwrap_or_else(|_| panic!("{channel:?} is open after {within:?}"));
        assert_eq!(code, channel.close_code(Failure::Unauthenticated), "{channel:?}");
    }
    println!("every socket had ended after {:?}", began.elapsed());
}

/// Asserts that a socket is closed after its upgrade as unauthenticated.
pub async fn assert_refused(address: &str, path: &str, channel: Channel) {
    let client = Client::open(address, path, &[]).await.expect("the upgrade is accepted");
    assert_eq!(client.closed().await, channel.close_code(Failure::Unauthenticated), "{channel:?}");
}

pub async fn members(who: &Caller, method: Method, home: &str, body: Value) -> HttpAnswer {
    fetch_json(who.request(method, &format!("/workspaces/{home}/members")).json(&body)).await
}

/// Creates a stream connection and starts a stream on a computer.
pub async fn begin_stream(who: &Caller, desk: &str) {
    let connection = json!({"name": "live", "url": "rtmp://live.example.org/app", "key": "k"});
    who.create("/stream/connections", connection).await;
    let start = format!("/computers/{desk}/stream/start");
    let started = who.post(&start, json!({"connection_name": "live"})).await;
    assert_eq!(started.status, 200, "{}", started.body);
}

/// Values that a restart would change, besides the password.
async fn boot(controller: &Simulation, desk: &str) -> (u64, Value, Value) {
    let rows = controller.store().await.all_computers().await.expect("rows");
    let row = rows.into_iter().find(|row| row.id.to_string() == desk).expect("a row");
    let record = controller.get(&format!("/computers/{desk}")).await.body;
    (row.generation, record["instance_id"].clone(), record["status"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_member_s_password_sockets_and_tickets_end_at_once_and_the_computer_goes_on() {
    let (controller, home, desk, _) = boot_controller().await;
    let other = controller.workspace("other").await;
    let elsewhere = controller.computer(&other, "elsewhere").await;
    let elsewhere_password = password(&controller, &elsewhere).await;
    let (member, member_id) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    let known = password(&member, &desk).await;
    let mut clients = open_all(controller.address(), &desk, &known, false).await;
    let used = ticket_path(&member, &desk, "control").await;
    clients.push((Channel::Websockify, open_socket(controller.address(), Channel::Websockify, &used).await));
    let unused = ticket_path(&member, &desk, "control").await;
    let before = boot(&controller, &desk).await;

    let removed = members(&controller, Method::DELETE, &home, json!({ "memberId": member_id })).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_closed(clients, REVOCATION_TIMEOUT).await;
    for channel in Channel::BY_PASSWORD {
        assert_refused(controller.address(), &by_password(&desk, channel, &known), channel).await;
    }
    assert_refused(controller.address(), &unused, Channel::Websockify).await;
    for path in ["", "/vnc-password"] {
        assert_eq!(member.get(&format!("/computers/{desk}{path}")).await.status, 403);
    }
    let now = password(&controller, &desk).await;
    assert_ne!(now, known);
    assert_eq!(controller.get(&format!("/computers/{desk}")).await.body["vnc_password"], now.as_str());
    open_all(controller.address(), &desk, &now, false).await;
    assert_eq!(boot(&controller, &desk).await, before, "the computer must not restart");
    assert_eq!(
        password(&controller, &elsewhere).await,
        elsewhere_password,
        "another workspace must not change"
    );
    // A second removal finds no member.
    assert_eq!(
        members(&controller, Method::DELETE, &home, json!({ "memberId": member_id })).await.status,
        404
    );
    assert_eq!(password(&controller, &desk).await, now);
}

/// The status of an MCP request with a token.
async fn mcp(controller: &Simulation, token: &str) -> u16 {
    let request = controller.bare(Method::POST, "/mcp").bearer_auth(token);
    let request = request.header("accept", "application/json, text/event-stream").json(&initialize());
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_client_s_connection_ends_with_the_membership_and_not_with_a_lesser_role() {
    let (controller, home, _, _) = boot_controller().await;
    let away = controller.workspace("away").await;
    let store = controller.store().await;
    for (email, leaves) in [("removed@x.example", false), ("leaves@x.example", true)] {
        let (member, id) = add_member(&controller, email, &home, Some(Role::Member)).await;
        let account: AccountId = id.parse().expect("an id");
        store.set_member(away.parse().expect("an id"), account, Role::Member).await.expect("a member");
        let (here, elsewhere) = (token(&store, account, &home).await, token(&store, account, &away).await);
        let viewer = json!({"memberId": id, "role": "viewer"});
        assert_eq!(members(&controller, Method::PATCH, &home, viewer).await.status, 200);
        assert_eq!(
            mcp(&controller, &here).await,
            200,
            "{email}: a viewer's connection stays, and its tools refuse"
        );
        assert_eq!(store.connections(account).await.expect("a list").len(), 2, "{email}");

        let by = if leaves { &member } else { &*controller };
        assert_eq!(members(by, Method::DELETE, &home, json!({ "memberId": id })).await.status, 200);
        assert_eq!(mcp(&controller, &here).await, 401, "{email}");
        assert_eq!(mcp(&controller, &elsewhere).await, 200, "{email}: another workspace must not change");
        let left = store.connections(account).await.expect("a list");
        assert_eq!(left.iter().map(|it| &*it.workspace).collect::<Vec<_>>(), ["away"], "{email}");
        // A consent that completes after the removal creates no connection.
        let late = store.add_grant(&consent(account, &home, email)).await;
        assert_eq!(late.map_err(|error| error.kind).err(), Some(Kind::Forbidden), "{email}");
        assert_eq!(store.connections(account).await.expect("a list").len(), 1, "{email}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_looks_from_now_on_knows_no_password_and_who_leaves_sees_nothing() {
    let (controller, home, desk, _) = boot_controller().await;
    let (member, member_id) = add_member(&controller, "m@x.example", &home, Some(Role::Admin)).await;
    let known = password(&member, &desk).await;
    let role = |role: &str| json!({"memberId": member_id, "role": role});
    assert_eq!(members(&controller, Method::PATCH, &home, role("member")).await.status, 200);
    assert_eq!(password(&controller, &desk).await, known, "a member may have the password");
    let clients = open_all(controller.address(), &desk, &known, false).await;
    assert_eq!(members(&controller, Method::PATCH, &home, role("viewer")).await.status, 200);
    assert_closed(clients, REVOCATION_TIMEOUT).await;
    assert_refused(controller.address(), &by_password(&desk, Channel::Terminal, &known), Channel::Terminal)
        .await;
    let next = password(&controller, &desk).await;
    assert_ne!(next, known);
    assert!(member.get(&format!("/computers/{desk}")).await.body["vnc_password"].is_null());

    // A viewer watches with a view ticket until the membership ends.
    let watches =
        open_socket(controller.address(), Channel::Websockify, &ticket_path(&member, &desk, "view").await)
            .await;
    assert_eq!(members(&controller, Method::PATCH, &home, role("viewer")).await.status, 200);
    assert_eq!(password(&controller, &desk).await, next, "no access was lost");
    assert_eq!(members(&member, Method::DELETE, &home, json!({ "memberId": member_id })).await.status, 200);
    assert_closed(vec![(Channel::Websockify, watches)], REVOCATION_TIMEOUT).await;
    assert_ne!(password(&controller, &desk).await, next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a79_who_may_be_many_is_not_shut_out_and_after_ten_wrong_ones_nothing_more_is_looked_up() {
    let (controller, _, desk, _) = boot_controller().await;
    let other = controller.workspace("other").await;
    let elsewhere = controller.computer(&other, "elsewhere").await;
    let channel = Channel::Websockify;
    let code = async |token: &str| {
        let path = by_password(&desk, channel, token);
        Client::open(controller.address(), &path, &[]).await.expect("the upgrade is accepted").closed().await
    };
    let (right, strange) = (password(&controller, &desk).await, password(&controller, &elsewhere).await);
    assert_eq!(code(&strange).await, channel.close_code(Failure::ElsewhereOnly));
    for _ in 0..9 {
        assert_eq!(code("guess").await, channel.close_code(Failure::Unauthenticated));
    }
    assert_eq!(code(&strange).await, channel.close_code(Failure::Unauthenticated), "no further look-up");
    open_socket(controller.address(), channel, &by_password(&desk, channel, &right)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_moves_away_from_somebody_gets_another_password_and_else_keeps_it() {
    let (controller, home, desk, _) = boot_controller().await;
    let away = controller.workspace("away").await;
    let (member, _) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    let known = password(&member, &desk).await;
    let clients = open_all(controller.address(), &desk, &known, false).await;
    let to = async |workspace: &str| {
        let request = controller.request(Method::PATCH, &format!("/computers/{desk}/move"));
        let moved = fetch_json(request.json(&json!({ "workspace_id": workspace }))).await;
        assert_eq!(moved.status, 200, "{}", moved.body);
    };
    to(&away).await;
    assert_closed(clients, REVOCATION_TIMEOUT).await;
    let next = password(&controller, &desk).await;
    assert_ne!(next, known);
    let clients = open_all(controller.address(), &desk, &next, false).await;
    to(&home).await;
    assert_eq!(password(&controller, &desk).await, next, "no one lost access");
    for (channel, mut client) in clients {
        let message = if channel == Channel::Events { r#"{"type":"ping"}"# } else { "on" };
        client.0.send(Message::text(message)).await.expect("it is open");
        assert!(matches!(client.next().await, SocketEvent::Text(_)), "{channel:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_starter_s_membership_and_another_s_does_not() {
    let (controller, home, desk, ended) = boot_controller().await;
    let (first, first_id) = add_member(&controller, "first@x.example", &home, Some(Role::Member)).await;
    let (second, second_id) = add_member(&controller, "second@x.example", &home, Some(Role::Member)).await;
    begin_stream(&controller, &desk).await;
    assert_eq!(
        members(&controller, Method::DELETE, &home, json!({ "memberId": first_id })).await.status,
        200
    );
    assert_eq!(first.get(&format!("/computers/{desk}/stream/status")).await.status, 403);
    begin_stream(&second, &desk).await;
    let viewer = json!({"memberId": second_id, "role": "viewer"});
    assert_eq!(members(&controller, Method::PATCH, &home, viewer).await.status, 200);
    let stopped = wait::until(TIMEOUT, || async { (ended.load(Ordering::SeqCst) > 0).then_some(()) }).await;
    assert!(stopped.is_some(), "the stream did not end");
    assert_eq!(ended.load(Ordering::SeqCst), 1, "the owner's stream must continue");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_computer_does_not_notice_who_loses_it() {
    let Some((controller, home, desk)) = RunningController::with_a_computer().await else { return };
    let store = Store::open(&controller.data_dir().join("hotdesk.db")).await.expect("the store");
    let account = person(&store, "m@x.example").await.id;
    store.set_member(home.parse().expect("an id"), account, Role::Member).await.expect("a member");
    let member = Caller::new(controller.base().to_owned(), "/api", wide_key(&store, account).await);
    let known = password(&member, &desk).await;
    let clients = open_all(controller.address(), &desk, &known, true).await;
    let begun = controller.bash(&desk, "sleep 1000 >/dev/null 2>&1 & echo $!").await;
    let process = begun.trim();

    let removed =
        members(&controller, Method::DELETE, &home, json!({ "memberId": account.to_string() })).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_closed(clients, REVOCATION_TIMEOUT).await;
    assert_refused(
        controller.address(),
        &by_password(&desk, Channel::Websockify, &known),
        Channel::Websockify,
    )
    .await;
    let now = password(&controller, &desk).await;
    assert_ne!(now, known);
    open_all(controller.address(), &desk, &now, true).await;
    let still = controller.bash(&desk, &format!("kill -0 {process} && echo running")).await;
    assert_eq!(still.trim(), "running");
}
