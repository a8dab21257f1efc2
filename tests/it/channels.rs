//! Who may open a live channel, and with which code is a socket closed? (wire.md 10, interface.md "Close codes", access.md A79)

use crate::harness::agent::RunningAgent;
use crate::harness::controller::{RunningController, no_computers_here};
use crate::harness::socket::{Came, Client};
use futures_util::SinkExt;
use hotdesk::domain::channel::{Channel, Failure};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

mod broken;
mod ends;

async fn password(house: &RunningController, id: &str) -> String {
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    got.body["password"].as_str().expect("a password").to_owned()
}

/// The password of a computer made for it.
async fn password_of_a_new(house: &RunningController, workspace: &str) -> String {
    let made = house.computer(workspace, "other").await;
    password(house, made["id"].as_str().expect("an id")).await
}

/// Opens a channel; the address is the one that clients derive from the API's.
async fn open(house: &RunningController, reference: &str, channel: Channel, query: &str) -> Client {
    let path = format!("/desktops/{reference}/ws/{}{query}", channel.name());
    Client::open(house.address(), &path, &[]).await.expect("the upgrade is accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_opens_with_the_computer_s_password_and_closes_with_its_codes() {
    let Some((house, workspace, id)) = RunningController::with_a_computer().await else { return };
    let instance = house.record(&id).await["instance_id"].as_str().expect("an instance").to_owned();
    let password = password(&house, &id).await;
    let unknown = uuid::Uuid::new_v4().to_string();
    let neighbour = password_of_a_new(&house, &workspace).await;
    let stranger = password_of_a_new(&house, &house.workspace("another").await).await;
    // VNC's first: its code alone tells of another workspace's password, and nobody looks for one after ten that are wrong.
    for channel in Channel::ALL.into_iter().rev() {
        for (reference, query, failure) in [
            (&id, String::new(), Failure::Unauthenticated),
            (&instance, "?token=".to_owned(), Failure::Unauthenticated),
            (&id, format!("?token={}", house.key()), Failure::Unauthenticated),
            // RFB compares eight characters; a channel compares them all.
            (&id, format!("?token={password}x"), Failure::Unauthenticated),
            (&id, format!("?token={neighbour}"), Failure::Unauthenticated),
            (&id, format!("?token={stranger}"), Failure::ElsewhereOnly),
            (&unknown, format!("?token={password}"), Failure::Unknown),
            (&"nonsense".to_owned(), "?token=x".to_owned(), Failure::Unknown),
        ] {
            let code = open(&house, reference, channel, &query).await.closed().await;
            assert_eq!(code, channel.close_code(failure), "{channel:?} {query}");
        }
        // Neither a page of somebody else's nor a request that is no upgrade gets as far as that.
        let path = format!("/desktops/{id}/ws/{}?token={password}", channel.name());
        let foreign = Client::open(house.address(), &path, &[("origin", "https://evil.example")]).await;
        assert_eq!(foreign.err(), Some(403));
        assert_eq!(house.get(&path).await.status, 400);
    }
    assert_eq!(house.get(&format!("/desktops/{id}/ws/nonsense")).await.status, 400);

    assert_eq!(house.act(&id, "stop", json!({})).await.status, 200);
    house.until_status(&id, "stopped").await;
    for channel in Channel::ALL {
        let code = open(&house, &id, channel, &format!("?token={password}")).await.closed().await;
        assert_eq!(code, channel.close_code(Failure::NotRunning), "{channel:?}");
    }
    let log = house.log();
    assert!(!log.contains(&password), "the password is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_guesses_is_not_listened_to_for_a_minute() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot_with("trusted_proxies = \"127.0.0.1\"").await;
    let workspace = house.workspace("demo").await;
    let (one, other) = (house.computer(&workspace, "one").await, house.computer(&workspace, "other").await);
    let (id, other) = (one["id"].as_str().expect("an id"), other["id"].as_str().expect("an id"));
    // From one place behind the proxy.
    let first = async |computer: &str, token: &str| {
        let path = format!("/desktops/{computer}/ws/{}?token={token}", Channel::Terminal.name());
        let client = [("x-forwarded-for", "192.0.2.1")];
        Client::open(house.address(), &path, &client).await.expect("accepted").next().await
    };
    let reason = |came: Came| {
        let Came::Closed(4401, reason) = came else { panic!("{came:?}") };
        reason
    };
    // Neither is a credential of elsewhere a way to guess on.
    let stranger = password_of_a_new(&house, &house.workspace("another").await).await;
    for guess in ["guess", &stranger].repeat(5) {
        assert_eq!(reason(first(id, guess).await), "invalid token");
    }
    let right = password(&house, id).await;
    assert!(reason(first(id, &right).await).contains("too many"));
    // Another computer's right user is not meant.
    let came = first(other, &password(&house, other).await).await;
    assert!(!matches!(came, Came::Closed(4401, _)), "{came:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_s_own_channels_want_its_token() {
    let agent = RunningAgent::headless().await;
    for channel in Channel::ALL {
        for query in ["", "?token=wrong"] {
            let path = format!("/ws/{}{query}", channel.name());
            let socket = Client::open(agent.address(), &path, &[]).await.expect("accepted");
            assert_eq!(socket.closed().await, channel.close_code(Failure::Unauthenticated), "{channel:?}");
        }
        let path = format!("/ws/{}", channel.name());
        let foreign = Client::open(agent.address(), &path, &[("origin", "https://evil.example")]).await;
        assert_eq!(foreign.err(), Some(403));
    }
    assert_eq!(
        agent.get("/ws/nonsense").await.body["error"],
        Value::from("this path speaks WebSocket: an upgrade is needed")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_side_client_shows_its_token_in_a_header() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let right = format!("Bearer {}", password(&house, &id).await);
    let agent = RunningAgent::headless().await;
    let own = format!("Bearer {}", agent.token());
    for channel in Channel::ALL {
        let path = format!("/desktops/{id}/ws/{}", channel.name());
        let wrong = [("authorization", "Bearer wrong")];
        let refused = Client::open(house.address(), &path, &wrong).await.expect("accepted").closed().await;
        assert_eq!(refused, channel.close_code(Failure::Unauthenticated), "{channel:?}");
        let mut client =
            Client::open(house.address(), &path, &[("authorization", &right)]).await.expect("accepted");
        if channel == Channel::Events {
            client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("it listens");
        }
        let came = client.next().await;
        assert!(matches!(came, Came::Text(_) | Came::Binary(_)), "{channel:?}: {came:?}");
        assert!(!matches!(&came, Came::Text(text) if text.contains("error")), "{channel:?}: {came:?}");
    }
    for path in ["/ws/terminal", "/terminal"] {
        let mut client =
            Client::open(agent.address(), path, &[("authorization", &own)]).await.expect("accepted");
        assert!(matches!(client.next().await, Came::Text(_)), "{path}");
    }
}
