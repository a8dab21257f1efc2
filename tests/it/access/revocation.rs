//! Does everything end that goes on under a key that ends, and nothing else? (access.md A11, A12)

use std::sync::Arc;

use axum::body::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use hotdesk::base::ids::{AccountId, GrantId, KeyId, SessionId};
use hotdesk::base::wait;
use hotdesk::domain::access::Credential;
use hotdesk::domain::channel::Channel;
use hotdesk::store::Store;
use reqwest::Method;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::cast::{add_account, add_key};
use crate::harness::agent::answered;
use crate::harness::caller::{Caller, id_of};
use crate::harness::simulation::Simulation;
use crate::harness::socket::Came;
use crate::harness::underway::{TIMEOUT, SOON, Streams, begin, endless, patient_agent, until};
use crate::people::loss::{self, closed, live, refused, ticket};

/// Waits until all of them have ended, because their key has.
async fn end(streams: Streams) {
    for answer in streams.end().await {
        assert_eq!(answer.status(), 401);
        assert_eq!(answer.headers()["www-authenticate"], "Bearer error=\"invalid_token\"");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a12_what_goes_on_under_a_deleted_key_ends_and_another_key_s_does_not() {
    let begun = Arc::default();
    let house = Simulation::boot_with(patient_agent(&begun)).await;
    let home = house.workspace("home").await;
    let computer = house.computer(&home, "desk").await;
    let exposed = house.made("/keys", json!({"name": "exposed"})).await;
    let scoped = house.made("/keys", json!({"name": "scoped", "workspace_id": home})).await;
    let text = |made: &serde_json::Value| made["key"].as_str().expect("a key").to_owned();
    let mut others = [
        Streams::open(&house, house.key(), &computer).await,
        Streams::open(&house, &text(&scoped), &computer).await,
    ];
    let streams = Streams::open(&house, &text(&exposed), &computer).await;
    until(&begun, 6).await;

    assert_eq!(house.delete(&format!("/keys/{}", id_of(&exposed))).await.status, 200);
    let refused = answered(house.request_with(&text(&exposed), Method::GET, "/workspaces")).await;
    assert_eq!(refused.status, 401, "{}", refused.body);
    let began = std::time::Instant::now();
    tokio::time::timeout(SOON, end(streams)).await.expect("every stream has ended");
    println!("every stream had ended after {:?}", began.elapsed());
    for other in &mut others {
        other.flow().await;
    }
    // What was cut short may have been carried out: the log does not say that it was refused.
    let log = house.get(&format!("/audit?key_id={}", id_of(&exposed))).await.body;
    let mut told: Vec<_> =
        log["entries"].as_array().expect("entries").iter().map(|it| &it["result"]).collect();
    told.sort_by_key(|result| result.to_string());
    assert_eq!(told, ["unanswered", "unanswered"], "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_workspace_takes_what_goes_on_under_its_keys_along() {
    let house = Simulation::boot().await;
    let home = house.workspace("home").await;
    let scoped = house.made("/keys", json!({"name": "scoped", "workspace_id": home})).await;
    let start = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let body = stream::once(async move { Ok::<_, std::io::Error>(Bytes::from_static(start.as_bytes())) });
    let upload = house
        .request_with(scoped["key"].as_str().expect("a key"), Method::POST, "/files/upload")
        .header("content-type", "multipart/form-data; boundary=x")
        .body(reqwest::Body::wrap_stream(body.chain(endless())));
    let upload = begin(upload);
    let used = wait::until(TIMEOUT, async || {
        let keys = house.get("/keys").await.body["keys"].clone();
        keys[1]["last_used_at"].is_string().then_some(())
    });
    assert!(used.await.is_some(), "the upload began");
    assert_eq!(house.delete(&format!("/workspaces/{home}")).await.status, 200);
    let ended = tokio::time::timeout(SOON, upload).await.expect("the upload has ended").expect("no panic");
    // A client that still sends may see its connection closed before the answer.
    assert!(ended.is_err() || ended.is_ok_and(|answer| answer.status() == 401));
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_key_that_another_process_removes_ends_too() {
    let begun = Arc::default();
    let house = Simulation::boot_with(patient_agent(&begun)).await;
    let home = house.workspace("home").await;
    let computer = house.computer(&home, "desk").await;
    let made = house.made("/keys", json!({"name": "exposed"})).await;
    let key = made["key"].as_str().expect("a key");
    let streams = Streams::open(&house, key, &computer).await;
    let mut others = Streams::open(&house, house.key(), &computer).await;
    until(&begun, 4).await;
    let elsewhere = house.store().await;
    assert!(elsewhere.remove_key(id_of(&made).parse().expect("an id"), None).await.expect("removed"));
    assert_eq!(answered(house.request_with(key, Method::GET, "/workspaces")).await.status, 401);
    let began = std::time::Instant::now();
    tokio::time::timeout(SOON, end(streams)).await.expect("every stream has ended");
    println!("every stream had ended after {:?}", began.elapsed());
    others.flow().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_tickets_end_with_the_key_that_made_them_used_or_not_and_another_key_s_do_not() {
    let (house, _, desk, _) = loss::house().await;
    let channel = Channel::Websockify;
    for elsewhere in [false, true] {
        let made = house.made("/keys", json!({"name": "exposed"})).await;
        let exposed =
            Caller::new(house.base.clone(), "/api", made["key"].as_str().expect("a key").to_owned());
        let open = async |who: &Caller| {
            let path = ticket(who, &desk, "control").await;
            live(house.address(), channel, &path).await
        };
        let (ending, mut going) = (open(&exposed).await, open(&house).await);
        let (unused, other) =
            (ticket(&exposed, &desk, "control").await, ticket(&house, &desk, "control").await);
        if elsewhere {
            let store = house.store().await;
            assert!(store.remove_key(id_of(&made).parse().expect("an id"), None).await.expect("removed"));
        } else {
            assert_eq!(house.delete(&format!("/keys/{}", id_of(&made))).await.status, 200);
        }
        // Nobody holds what made this one: it is looked for.
        refused(house.address(), &unused, channel).await;
        closed(vec![(channel, ending)], SOON).await;
        going.0.send(Message::text("on")).await.expect("it is open");
        assert_eq!(going.next().await, Came::Text("on".to_owned()), "by another process: {elsewhere}");
        live(house.address(), channel, &other).await;
    }
}

#[tokio::test]
async fn a11_the_store_tells_which_credentials_are_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("hotdesk.db")).await.expect("a store");
    let account: AccountId = add_account(&store, "person@example").await;
    let text = add_key(&store, account, None).await;
    let digest = hotdesk::controller::auth::keys::digest(&text);
    let key = store.holder(&digest).await.expect("a look").expect("a holder").key;
    let now = hotdesk::base::clock::now_ms();
    let live = store.add_session(account, "live", now + 60_000).await.expect("a session");
    let over = store.add_session(account, "over", now - 1).await.expect("a session");
    let (live, over) = (Credential::Session(live), Credential::Session(over));
    let grant = Credential::Grant(GrantId::random());
    let all = [Credential::Key(key), live, over, grant];
    assert_eq!(
        store.gone(&all).await.expect("a look"),
        [over, grant],
        "the time of one is over, and one never was"
    );
    let hold = store.live.hold(live);
    let Credential::Session(session) = live else { unreachable!() };
    store.remove_session(session).await.expect("removed");
    assert!(hold.has_ended(), "whoever removes it tells");
    store.remove_key(key, None).await.expect("removed");
    assert_eq!(store.gone(&all).await.expect("a look"), all);
    let strangers: Vec<_> = (0..1200).map(|_| Credential::Key(KeyId::random())).collect();
    assert_eq!(store.gone(&strangers).await.expect("a look"), strangers, "more than one question asks");
    assert_eq!(store.gone(&[Credential::Session(SessionId::random())]).await.expect("a look").len(), 1);
}
