//! Revocation of keys: the end of their streams, uploads and tickets, and of no others.
//!
//! A11 and A12 (docs/authentication-rules.md).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use hotdesk::base::ids::{AccountId, GrantId, KeyId, SessionId};
use hotdesk::base::wait;
use hotdesk::domain::desktop::channel::Channel;
use hotdesk::domain::identity::access::Credential;
use hotdesk::store::Store;
use hotdesk::store::identity::sign_in::sessions::NewSession;
use reqwest::Method;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::cast::{add_account, add_key};
use crate::harness::agent::fetch_json;
use crate::harness::caller::{Caller, id_of};
use crate::harness::long_requests::{
    REVOCATION_TIMEOUT, Streams, TIMEOUT, begin, endless, hanging_agent, until,
};
use crate::harness::simulation::Simulation;
use crate::harness::socket::SocketEvent;
use crate::people::loss::{self, assert_closed, assert_refused, open_socket, ticket_path};

/// Waits until all streams have ended because their key was revoked.
async fn expect_revoked(streams: Streams) {
    for answer in streams.end().await {
        assert_eq!(answer.status(), 401);
        assert_eq!(answer.headers()["www-authenticate"], "Bearer error=\"invalid_token\"");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a12_what_goes_on_under_a_deleted_key_ends_and_another_key_s_does_not() {
    let started = Arc::default();
    let controller = Simulation::boot_with(hanging_agent(&started)).await;
    let home = controller.workspace("home").await;
    let computer = controller.computer(&home, "desk").await;
    let exposed = controller.create("/keys", json!({"name": "exposed"})).await;
    let scoped = controller.create("/keys", json!({"name": "scoped", "workspace_id": home})).await;
    let text = |created: &serde_json::Value| created["key"].as_str().expect("a key").to_owned();
    let mut others = [
        Streams::open(&controller, controller.key(), &computer).await,
        Streams::open(&controller, &text(&scoped), &computer).await,
    ];
    let streams = Streams::open(&controller, &text(&exposed), &computer).await;
    until(&started, 6).await;

    assert_eq!(controller.delete(&format!("/keys/{}", id_of(&exposed))).await.status, 200);
    let refused = fetch_json(controller.request_with(&text(&exposed), Method::GET, "/workspaces")).await;
    assert_eq!(refused.status, 401, "{}", refused.body);
    let began = std::time::Instant::now();
    tokio::time::timeout(REVOCATION_TIMEOUT, expect_revoked(streams))
        .await
        .expect("every stream ends within the revocation timeout");
    println!("every stream had ended after {:?}", began.elapsed());
    for other in &mut others {
        other.flow().await;
    }
    // An interrupted request may have been carried out, so the log does not call it refused.
    let log = controller.get(&format!("/audit?key_id={}", id_of(&exposed))).await.body;
    let mut results: Vec<_> =
        log["entries"].as_array().expect("entries").iter().map(|it| &it["result"]).collect();
    results.sort_by_key(|result| result.to_string());
    assert_eq!(results, ["unanswered", "unanswered"], "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_workspace_takes_what_goes_on_under_its_keys_along() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let scoped = controller.create("/keys", json!({"name": "scoped", "workspace_id": home})).await;
    let start = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let body = stream::once(async move { Ok::<_, std::io::Error>(Bytes::from_static(start.as_bytes())) });
    let upload = controller
        .request_with(scoped["key"].as_str().expect("a key"), Method::POST, "/files/upload")
        .header("content-type", "multipart/form-data; boundary=x")
        .body(reqwest::Body::wrap_stream(body.chain(endless())));
    let upload = begin(upload);
    let used = wait::until(TIMEOUT, async || {
        let keys = controller.get("/keys").await.body["keys"].clone();
        keys[1]["last_used_at"].is_string().then_some(())
    });
    assert!(used.await.is_some(), "the upload began");
    assert_eq!(controller.delete(&format!("/workspaces/{home}")).await.status, 200);
    let ended = tokio::time::timeout(REVOCATION_TIMEOUT, upload)
        .await
        .expect("the upload ends within the revocation timeout")
        .expect("no panic");
    // A client that still sends may see its connection close before the answer.
    assert!(ended.is_err() || ended.is_ok_and(|answer| answer.status() == 401));
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_key_that_another_process_removes_ends_too() {
    let started = Arc::default();
    let controller = Simulation::boot_with(hanging_agent(&started)).await;
    let home = controller.workspace("home").await;
    let computer = controller.computer(&home, "desk").await;
    let created = controller.create("/keys", json!({"name": "exposed"})).await;
    let key = created["key"].as_str().expect("a key");
    let streams = Streams::open(&controller, key, &computer).await;
    let mut others = Streams::open(&controller, controller.key(), &computer).await;
    until(&started, 4).await;
    let other_process = controller.store().await;
    assert!(other_process.remove_key(id_of(&created).parse().expect("an id"), None).await.expect("removed"));
    assert_eq!(fetch_json(controller.request_with(key, Method::GET, "/workspaces")).await.status, 401);
    let began = std::time::Instant::now();
    tokio::time::timeout(REVOCATION_TIMEOUT, expect_revoked(streams))
        .await
        .expect("every stream ends within the revocation timeout");
    println!("every stream had ended after {:?}", began.elapsed());
    others.flow().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_tickets_end_with_the_key_that_made_them_used_or_not_and_another_key_s_do_not() {
    let (controller, _, computer, _) = loss::boot_controller().await;
    let channel = Channel::Websockify;
    for by_other_process in [false, true] {
        let created = controller.create("/keys", json!({"name": "exposed"})).await;
        let exposed =
            Caller::new(controller.base.clone(), "/api", created["key"].as_str().expect("a key").to_owned());
        let open = async |who: &Caller| {
            let path = ticket_path(who, &computer, "control").await;
            open_socket(controller.address(), channel, &path).await
        };
        let (revoked_socket, mut live_socket) = (open(&exposed).await, open(&controller).await);
        let (unused, other) = (
            ticket_path(&exposed, &computer, "control").await,
            ticket_path(&controller, &computer, "control").await,
        );
        if by_other_process {
            let store = controller.store().await;
            assert!(store.remove_key(id_of(&created).parse().expect("an id"), None).await.expect("removed"));
        } else {
            assert_eq!(controller.delete(&format!("/keys/{}", id_of(&created))).await.status, 200);
        }
        // No socket holds the credential of this ticket: the controller looks it up.
        assert_refused(controller.address(), &unused, channel).await;
        assert_closed(vec![(channel, revoked_socket)], REVOCATION_TIMEOUT).await;
        live_socket.0.send(Message::text("on")).await.expect("the socket is open");
        assert_eq!(
            live_socket.next().await,
            SocketEvent::Text("on".to_owned()),
            "by another process: {by_other_process}"
        );
        open_socket(controller.address(), channel, &other).await;
    }
}

#[tokio::test]
async fn a11_the_store_tells_which_credentials_are_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("hotdesk.db")).await.expect("a store");
    let account: AccountId = add_account(&store, "person@example").await;
    let text = add_key(&store, account, None).await;
    let digest = hotdesk::controller::identity::auth::keys::digest(&text);
    let key = store.key_owner(&digest).await.expect("a query result").expect("a holder").key;
    let now = hotdesk::base::clock::now();
    let session = async |digest, expires_at| {
        let added = store.add_session(account, &NewSession::new(digest, expires_at)).await;
        Credential::Session(added.expect("a session"))
    };
    let live = session("live", now.plus(Duration::from_secs(60))).await;
    let over = session("over", now.minus(Duration::from_millis(1))).await;
    let grant = Credential::Grant(GrantId::random());
    let all = [Credential::Key(key), live, over, grant];
    assert_eq!(
        store.ended_credentials(&all).await.expect("a query result"),
        [over, grant],
        "one session has expired and the grant does not exist"
    );
    let hold = store.credentials.lease(live);
    let Credential::Session(session) = live else { unreachable!() };
    assert!(store.remove_session(account, session).await.expect("removed"));
    assert!(hold.is_revoked(), "removal must notify the holder");
    store.remove_key(key, None).await.expect("removed");
    assert_eq!(store.ended_credentials(&all).await.expect("a query result"), all);
    let unknown_keys: Vec<_> = (0..1200).map(|_| Credential::Key(KeyId::random())).collect();
    assert_eq!(
        store.ended_credentials(&unknown_keys).await.expect("a query result"),
        unknown_keys,
        "more ids than fit into one query"
    );
    assert_eq!(
        store
            .ended_credentials(&[Credential::Session(SessionId::random())])
            .await
            .expect("a query result")
            .len(),
        1
    );
}
