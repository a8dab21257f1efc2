//! Does whoever loses a computer lose it at once: its password, what is open by it, its tickets, and its stream? And does the
//! computer not notice?

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::routing::{any, post};
use axum::{Json, Router};
use futures_util::SinkExt;
use hotdesk::base::ids::AccountId;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::domain::access::Role;
use hotdesk::domain::channel::{Channel, Failure};
use hotdesk::domain::error::Kind;
use hotdesk::http::socket::{Closing, Heard, Sockets, Upgrade};
use hotdesk::store::Store;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::members::{somebody, wide_key};
use crate::harness::agent::answered;
use crate::harness::browser::person;
use crate::harness::caller::{Answered, Caller};
use crate::harness::controller::RunningController;
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Came, Client};
use crate::mcp::scene::{consent, initialize, token};

/// Within what time everything ends that was open by a password that is none any more. A second is meant; a busy machine is
/// given more, and less than the 15 s after which what was missed is ended again.
const AT_ONCE: Duration = Duration::from_secs(10);
/// How long what is told to a computer in the background may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An agent whose channels say hello and repeat what they hear, and that streams at every request; it counts how often it
/// was told to end that.
fn agent(ended: &Arc<AtomicUsize>) -> Router {
    let (sockets, ended) = (Sockets::new(Tasks::new()), Arc::clone(ended));
    let open = async move |upgrade: Upgrade| {
        sockets.open(upgrade, "echo", |sender, mut receiver| async move {
            // Whoever is gone is heard as that.
            let _gone = sender.text("hello").await;
            while let Some(Heard::Text(text)) = receiver.receive().await {
                let _gone = sender.text(text).await;
            }
            Closing::new(1000, "")
        })
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

/// A house with a running computer, and how often its streams were ended.
pub async fn house() -> (Simulation, String, String, Arc<AtomicUsize>) {
    let ended = Arc::default();
    let house = Simulation::boot_with(agent(&ended)).await;
    let home = house.workspace("home").await;
    let desk = house.computer(&home, "desk").await;
    (house, home, desk, ended)
}

async fn password(who: &Caller, desk: &str) -> String {
    let told = who.get(&format!("/computers/{desk}/vnc-password")).await;
    told.body["password"].as_str().unwrap_or_else(|| panic!("{}", told.body)).to_owned()
}

/// A socket at a path at which somebody answers.
pub async fn live(address: &str, channel: Channel, path: &str) -> Client {
    let mut client = Client::open(address, path, &[]).await.expect("the upgrade is accepted");
    if channel == Channel::Events {
        client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("it listens");
    }
    let came = client.next().await;
    assert!(matches!(came, Came::Text(_) | Came::Binary(_)), "{channel:?}: {came:?}");
    client
}

fn by_password(desk: &str, channel: Channel, password: &str) -> String {
    format!("/desktops/{desk}/ws/{}?token={password}", channel.name())
}

/// An open socket of each channel.
async fn all(address: &str, desk: &str, password: &str) -> Vec<(Channel, Client)> {
    let mut clients = Vec::new();
    for channel in Channel::ALL {
        clients.push((channel, live(address, channel, &by_password(desk, channel, password)).await));
    }
    clients
}

/// Where a ticket leads.
pub async fn ticket(who: &Caller, desk: &str, mode: &str) -> String {
    let made = who.made(&format!("/computers/{desk}/stream-tickets"), json!({ "mode": mode })).await;
    let url = made["ws_url"].as_str().expect("a URL");
    url[url.find("/desktops/").expect("a path")..].to_owned()
}

/// Each socket is closed as by a wrong password, all of them within a time.
pub async fn closed(clients: Vec<(Channel, Client)>, within: Duration) {
    let began = Instant::now();
    for (channel, client) in clients {
        let left = within.saturating_sub(began.elapsed());
        let code = tokio::time::timeout(left, client.closed()).await;
        let code = code.unwrap_or_else(|_| panic!("{channel:?} is open after {within:?}"));
        assert_eq!(code, channel.close_code(Failure::Unauthenticated), "{channel:?}");
    }
    println!("every socket had ended after {:?}", began.elapsed());
}

/// A socket that does not open.
pub async fn refused(address: &str, path: &str, channel: Channel) {
    let client = Client::open(address, path, &[]).await.expect("the upgrade is accepted");
    assert_eq!(client.closed().await, channel.close_code(Failure::Unauthenticated), "{channel:?}");
}

pub async fn members(who: &Caller, method: Method, home: &str, body: Value) -> Answered {
    answered(who.request(method, &format!("/workspaces/{home}/members")).json(&body)).await
}

/// Streams a computer over a connection of one's own.
pub async fn begin_stream(who: &Caller, desk: &str) {
    let connection = json!({"name": "live", "url": "rtmp://live.example.org/app", "key": "k"});
    who.made("/stream/connections", connection).await;
    let start = format!("/computers/{desk}/stream/start");
    let started = who.post(&start, json!({"connection_name": "live"})).await;
    assert_eq!(started.status, 200, "{}", started.body);
}

/// What a restart would change beside the password.
async fn boot(house: &Simulation, desk: &str) -> (u64, Value, Value) {
    let rows = house.store().await.all_computers().await.expect("rows");
    let row = rows.into_iter().find(|row| row.id.to_string() == desk).expect("a row");
    let told = house.get(&format!("/computers/{desk}")).await.body;
    (row.generation, told["instance_id"].clone(), told["status"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_member_s_password_sockets_and_tickets_end_at_once_and_the_computer_goes_on() {
    let (house, home, desk, _) = house().await;
    let other = house.workspace("other").await;
    let elsewhere = house.computer(&other, "elsewhere").await;
    let apart = password(&house, &elsewhere).await;
    let (member, member_id) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    let known = password(&member, &desk).await;
    let mut clients = all(house.address(), &desk, &known).await;
    let used = ticket(&member, &desk, "control").await;
    clients.push((Channel::Websockify, live(house.address(), Channel::Websockify, &used).await));
    let unused = ticket(&member, &desk, "control").await;
    let before = boot(&house, &desk).await;

    let removed = members(&house, Method::DELETE, &home, json!({ "memberId": member_id })).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    closed(clients, AT_ONCE).await;
    for channel in Channel::ALL {
        refused(house.address(), &by_password(&desk, channel, &known), channel).await;
    }
    refused(house.address(), &unused, Channel::Websockify).await;
    for path in ["", "/vnc-password"] {
        assert_eq!(member.get(&format!("/computers/{desk}{path}")).await.status, 403);
    }
    let now = password(&house, &desk).await;
    assert_ne!(now, known);
    assert_eq!(house.get(&format!("/computers/{desk}")).await.body["vnc_password"], now.as_str());
    all(house.address(), &desk, &now).await;
    assert_eq!(boot(&house, &desk).await, before, "the computer goes on as it was");
    assert_eq!(password(&house, &elsewhere).await, apart, "another workspace is not meant");
    // Nobody is removed twice.
    assert_eq!(members(&house, Method::DELETE, &home, json!({ "memberId": member_id })).await.status, 404);
    assert_eq!(password(&house, &desk).await, now);
}

/// What the MCP endpoint says to a token.
async fn mcp(house: &Simulation, token: &str) -> u16 {
    let request = house.bare(Method::POST, "/mcp").bearer_auth(token);
    let request = request.header("accept", "application/json, text/event-stream").json(&initialize());
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_client_s_connection_ends_with_the_membership_and_not_with_a_lesser_role() {
    let (house, home, _, _) = house().await;
    let away = house.workspace("away").await;
    let store = house.store().await;
    for (email, leaves) in [("removed@x.example", false), ("leaves@x.example", true)] {
        let (member, id) = somebody(&house, email, &home, Some(Role::Member)).await;
        let account: AccountId = id.parse().expect("an id");
        store.set_member(away.parse().expect("an id"), account, Role::Member).await.expect("a member");
        let (here, elsewhere) = (token(&store, account, &home).await, token(&store, account, &away).await);
        let viewer = json!({"memberId": id, "role": "viewer"});
        assert_eq!(members(&house, Method::PATCH, &home, viewer).await.status, 200);
        assert_eq!(mcp(&house, &here).await, 200, "{email}: a viewer keeps it, and its tools refuse");
        assert_eq!(store.connections(account).await.expect("a list").len(), 2, "{email}");

        let by = if leaves { &member } else { &*house };
        assert_eq!(members(by, Method::DELETE, &home, json!({ "memberId": id })).await.status, 200);
        assert_eq!(mcp(&house, &here).await, 401, "{email}");
        assert_eq!(mcp(&house, &elsewhere).await, 200, "{email}: another workspace is not meant");
        let left = store.connections(account).await.expect("a list");
        assert_eq!(left.iter().map(|it| &*it.workspace).collect::<Vec<_>>(), ["away"], "{email}");
        // A consent that was on its way meanwhile leaves none behind.
        let late = store.add_grant(&consent(account, &home, email)).await;
        assert_eq!(late.map_err(|error| error.kind).err(), Some(Kind::Forbidden), "{email}");
        assert_eq!(store.connections(account).await.expect("a list").len(), 1, "{email}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_looks_from_now_on_knows_no_password_and_who_leaves_sees_nothing() {
    let (house, home, desk, _) = house().await;
    let (member, member_id) = somebody(&house, "m@x.example", &home, Some(Role::Admin)).await;
    let known = password(&member, &desk).await;
    let role = |role: &str| json!({"memberId": member_id, "role": role});
    assert_eq!(members(&house, Method::PATCH, &home, role("member")).await.status, 200);
    assert_eq!(password(&house, &desk).await, known, "a member may know it");
    let clients = all(house.address(), &desk, &known).await;
    assert_eq!(members(&house, Method::PATCH, &home, role("viewer")).await.status, 200);
    closed(clients, AT_ONCE).await;
    refused(house.address(), &by_password(&desk, Channel::Terminal, &known), Channel::Terminal).await;
    let next = password(&house, &desk).await;
    assert_ne!(next, known);
    assert!(member.get(&format!("/computers/{desk}")).await.body["vnc_password"].is_null());

    // A viewer watches by a ticket, and until it leaves.
    let watches = live(house.address(), Channel::Websockify, &ticket(&member, &desk, "view").await).await;
    assert_eq!(members(&house, Method::PATCH, &home, role("viewer")).await.status, 200);
    assert_eq!(password(&house, &desk).await, next, "nothing was lost");
    assert_eq!(members(&member, Method::DELETE, &home, json!({ "memberId": member_id })).await.status, 200);
    closed(vec![(Channel::Websockify, watches)], AT_ONCE).await;
    assert_ne!(password(&house, &desk).await, next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a79_who_may_be_many_is_not_shut_out_and_after_ten_wrong_ones_nothing_more_is_looked_up() {
    let (house, _, desk, _) = house().await;
    let other = house.workspace("other").await;
    let elsewhere = house.computer(&other, "elsewhere").await;
    let channel = Channel::Websockify;
    let code = async |token: &str| {
        let path = by_password(&desk, channel, token);
        Client::open(house.address(), &path, &[]).await.expect("the upgrade is accepted").closed().await
    };
    let (right, strange) = (password(&house, &desk).await, password(&house, &elsewhere).await);
    assert_eq!(code(&strange).await, channel.close_code(Failure::ElsewhereOnly));
    for _ in 0..9 {
        assert_eq!(code("guess").await, channel.close_code(Failure::Unauthenticated));
    }
    assert_eq!(code(&strange).await, channel.close_code(Failure::Unauthenticated), "nobody looks for it");
    live(house.address(), channel, &by_password(&desk, channel, &right)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_moves_away_from_somebody_gets_another_password_and_else_keeps_it() {
    let (house, home, desk, _) = house().await;
    let away = house.workspace("away").await;
    let (member, _) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    let known = password(&member, &desk).await;
    let clients = all(house.address(), &desk, &known).await;
    let to = async |workspace: &str| {
        let request = house.request(Method::PATCH, &format!("/computers/{desk}/move"));
        let moved = answered(request.json(&json!({ "workspace_id": workspace }))).await;
        assert_eq!(moved.status, 200, "{}", moved.body);
    };
    to(&away).await;
    closed(clients, AT_ONCE).await;
    let next = password(&house, &desk).await;
    assert_ne!(next, known);
    let clients = all(house.address(), &desk, &next).await;
    to(&home).await;
    assert_eq!(password(&house, &desk).await, next, "nobody lost it");
    for (channel, mut client) in clients {
        let said = if channel == Channel::Events { r#"{"type":"ping"}"# } else { "on" };
        client.0.send(Message::text(said)).await.expect("it is open");
        assert!(matches!(client.next().await, Came::Text(_)), "{channel:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_starter_s_membership_and_another_s_does_not() {
    let (house, home, desk, ended) = house().await;
    let (first, first_id) = somebody(&house, "first@x.example", &home, Some(Role::Member)).await;
    let (second, second_id) = somebody(&house, "second@x.example", &home, Some(Role::Member)).await;
    begin_stream(&house, &desk).await;
    assert_eq!(members(&house, Method::DELETE, &home, json!({ "memberId": first_id })).await.status, 200);
    assert_eq!(first.get(&format!("/computers/{desk}/stream/status")).await.status, 403);
    begin_stream(&second, &desk).await;
    let viewer = json!({"memberId": second_id, "role": "viewer"});
    assert_eq!(members(&house, Method::PATCH, &home, viewer).await.status, 200);
    let told = wait::until(TIMEOUT, || async { (ended.load(Ordering::SeqCst) > 0).then_some(()) }).await;
    assert!(told.is_some(), "the stream goes on");
    assert_eq!(ended.load(Ordering::SeqCst), 1, "the owner's stream was let go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_computer_does_not_notice_who_loses_it() {
    let Some((house, home, desk)) = RunningController::with_a_computer().await else { return };
    let store = Store::open(&house.data_dir().join("hotdesk.db")).await.expect("the store");
    let account = person(&store, "m@x.example").await.id;
    store.set_member(home.parse().expect("an id"), account, Role::Member).await.expect("a member");
    let member = Caller::new(house.base().to_owned(), "/api", wide_key(&store, account).await);
    let known = password(&member, &desk).await;
    let clients = all(house.address(), &desk, &known).await;
    let begun = house.bash(&desk, "sleep 1000 >/dev/null 2>&1 & echo $!").await;
    let process = begun.trim();

    let removed = members(&house, Method::DELETE, &home, json!({ "memberId": account.to_string() })).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    closed(clients, AT_ONCE).await;
    refused(house.address(), &by_password(&desk, Channel::Websockify, &known), Channel::Websockify).await;
    let now = password(&house, &desk).await;
    assert_ne!(now, known);
    all(house.address(), &desk, &now).await;
    let still = house.bash(&desk, &format!("kill -0 {process} && echo it goes on")).await;
    assert_eq!(still.trim(), "it goes on");
}
