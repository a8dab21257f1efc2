//! Who may open a live channel, and with which code is a socket closed? (wire.md 10, interface.md "Close codes", access.md A79)

use crate::harness::agent::RunningAgent;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Came, Client};
use hotdesk::domain::channel::{Channel, Failure};
use serde_json::{Value, json};

async fn password(house: &RunningController, id: &str) -> String {
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    got.body["password"].as_str().expect("a password").to_owned()
}

/// Opens a channel; the address is the one that clients derive from the API's.
async fn open(house: &RunningController, reference: &str, channel: Channel, query: &str) -> Client {
    let path = format!("/desktops/{reference}/ws/{}{query}", channel.name());
    Client::open(house.address(), &path, &[]).await.expect("the upgrade is accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_opens_with_the_computer_s_password_and_closes_with_its_codes() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let instance = house.record(&id).await["instance_id"].as_str().expect("an instance").to_owned();
    let password = password(&house, &id).await;
    let unknown = uuid::Uuid::new_v4().to_string();
    for channel in Channel::ALL {
        for (reference, query, failure) in [
            (&id, String::new(), Failure::Unauthenticated),
            (&instance, "?token=".to_owned(), Failure::Unauthenticated),
            (&id, format!("?token={}", house.key()), Failure::Unauthenticated),
            // RFB compares eight characters; a channel compares them all.
            (&id, format!("?token={password}x"), Failure::Unauthenticated),
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
    let Some((house, workspace, id)) = RunningController::with_a_computer().await else { return };
    let other = house.computer(&workspace, "other").await;
    let other = other["id"].as_str().expect("an id");
    let reason = |came: Came| {
        let Came::Closed(4401, reason) = came else { panic!("{came:?}") };
        reason
    };
    for _ in 0..10 {
        let guess = open(&house, &id, Channel::Terminal, "?token=guess").await.next().await;
        assert_eq!(reason(guess), "invalid token");
    }
    let right = format!("?token={}", password(&house, &id).await);
    let late = open(&house, &id, Channel::Terminal, &right).await.next().await;
    assert!(reason(late).contains("too many"));
    // Another computer's right user is not meant.
    let right = format!("?token={}", password(&house, other).await);
    let first = open(&house, other, Channel::Terminal, &right).await.next().await;
    assert!(!matches!(first, Came::Closed(4401, _)), "{first:?}");
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
