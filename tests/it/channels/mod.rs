//! Live channels: authentication and close codes (docs/channels.md; A79, docs/authentication-rules.md).

use crate::harness::agent::RunningAgent;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::socket::{Client, SocketEvent};
use futures_util::SinkExt;
use hotdesk::domain::desktop::channel::{Channel, Failure};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

pub mod broken;
mod ends;
mod video;

/// The channels that the password of any computer opens: video needs ffmpeg, which the small image lacks.
const EVERYWHERE: [Channel; 4] = [Channel::Events, Channel::Terminal, Channel::Audio, Channel::Websockify];

async fn password(controller: &RunningController, id: &str) -> String {
    let answer = controller.get(&format!("/computers/{id}/vnc-password")).await;
    answer.body["password"].as_str().expect("a password").to_owned()
}

/// The password of a new computer.
async fn new_password(controller: &RunningController, workspace: &str) -> String {
    let created = controller.computer(workspace, "other").await;
    password(controller, created["id"].as_str().expect("an id")).await
}

/// Opens a channel at the address that clients derive from the API's address.
async fn open(controller: &RunningController, reference: &str, channel: Channel, query: &str) -> Client {
    let path = format!("/desktops/{reference}/ws/{}{query}", channel.name());
    Client::open(controller.address(), &path, &[]).await.expect("the upgrade is accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_opens_with_the_computer_s_password_and_closes_with_its_codes() {
    let Some((controller, workspace, id)) = RunningController::with_a_computer().await else { return };
    let instance = controller.record(&id).await["instance_id"].as_str().expect("an instance").to_owned();
    let password = password(&controller, &id).await;
    let unknown = uuid::Uuid::new_v4().to_string();
    let neighbour = new_password(&controller, &workspace).await;
    let stranger = new_password(&controller, &controller.workspace("another").await).await;
    // VNC first: only its close code distinguishes another workspace's password, which is not looked up after
    // ten wrong ones.
    for channel in Channel::BY_PASSWORD.into_iter().rev() {
        for (reference, query, failure) in [
            (&id, String::new(), Failure::Unauthenticated),
            (&instance, "?token=".to_owned(), Failure::Unauthenticated),
            (&id, format!("?token={}", controller.key()), Failure::Unauthenticated),
            // RFB compares eight characters; a channel compares them all.
            (&id, format!("?token={password}x"), Failure::Unauthenticated),
            (&id, format!("?token={neighbour}"), Failure::Unauthenticated),
            (&id, format!("?token={stranger}"), Failure::ElsewhereOnly),
            // Only a caller with an API key is told that there is no such computer.
            (&unknown, format!("?token={password}"), Failure::ElsewhereOnly),
            (&unknown, format!("?token={}", controller.key()), Failure::Unknown),
            (&unknown, "?token=x".to_owned(), Failure::Unauthenticated),
            (&"nonsense".to_owned(), "?token=x".to_owned(), Failure::Unauthenticated),
        ] {
            let code = open(&controller, reference, channel, &query).await.closed().await;
            assert_eq!(code, channel.close_code(failure), "{channel:?} {query}");
        }
        // Neither a foreign page nor a request without an upgrade gets that far.
        let path = format!("/desktops/{id}/ws/{}?token={password}", channel.name());
        let foreign = Client::open(controller.address(), &path, &[("origin", "https://evil.example")]).await;
        assert_eq!(foreign.expect("accepted").closed().await, 1008);
        assert_eq!(controller.get(&path).await.status, 400);
    }
    assert_eq!(controller.get(&format!("/desktops/{id}/ws/nonsense")).await.status, 400);

    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
    for channel in Channel::BY_PASSWORD {
        let code = open(&controller, &id, channel, &format!("?token={password}")).await.closed().await;
        assert_eq!(code, channel.close_code(Failure::NotRunning), "{channel:?}");
    }
    let log = controller.log();
    assert!(!log.contains(&password), "the log must not contain the password");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_guesses_is_not_listened_to_for_a_minute() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot_with("trusted_proxies = \"127.0.0.1\"").await;
    let workspace = controller.workspace("demo").await;
    let (one, other) =
        (controller.computer(&workspace, "one").await, controller.computer(&workspace, "other").await);
    let (id, other) = (one["id"].as_str().expect("an id"), other["id"].as_str().expect("an id"));
    // The same address behind the proxy.
    let first = async |computer: &str, token: &str| {
        let path = format!("/desktops/{computer}/ws/{}?token={token}", Channel::Terminal.name());
        let client = [("x-forwarded-for", "192.0.2.1")];
        Client::open(controller.address(), &path, &client).await.expect("accepted").next().await
    };
    let reason = |message: SocketEvent| {
        let SocketEvent::Closed(4401, reason) = message else { panic!("{message:?}") };
        reason
    };
    // Credentials for other computers count as guesses too.
    let stranger = new_password(&controller, &controller.workspace("another").await).await;
    for token in ["guess", &stranger].repeat(5) {
        assert_eq!(reason(first(id, token).await), "invalid token");
    }
    let right = password(&controller, id).await;
    assert!(reason(first(id, &right).await).contains("too many"));
    // A valid password for another computer still works.
    let message = first(other, &password(&controller, other).await).await;
    assert!(!matches!(message, SocketEvent::Closed(4401, _)), "{message:?}");
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
        assert_eq!(foreign.expect("accepted").closed().await, 1008);
    }
    assert_eq!(
        agent.get("/ws/nonsense").await.body["error"],
        Value::from("this path speaks WebSocket: an upgrade is needed")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_side_client_shows_its_token_in_a_header() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let right = format!("Bearer {}", password(&controller, &id).await);
    let agent = RunningAgent::headless().await;
    let own = format!("Bearer {}", agent.token());
    for channel in EVERYWHERE {
        let path = format!("/desktops/{id}/ws/{}", channel.name());
        let wrong = [("authorization", "Bearer wrong")];
        let refused =
            Client::open(controller.address(), &path, &wrong).await.expect("accepted").closed().await;
        assert_eq!(refused, channel.close_code(Failure::Unauthenticated), "{channel:?}");
        let mut client =
            Client::open(controller.address(), &path, &[("authorization", &right)]).await.expect("accepted");
        if channel == Channel::Events {
            client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("the socket is open");
        }
        let message = client.next().await;
        assert!(matches!(message, SocketEvent::Text(_) | SocketEvent::Binary(_)), "{channel:?}: {message:?}");
        assert!(
            !matches!(&message, SocketEvent::Text(text) if text.contains("error")),
            "{channel:?}: {message:?}"
        );
    }
    for path in ["/ws/terminal", "/terminal"] {
        let mut client =
            Client::open(agent.address(), path, &[("authorization", &own)]).await.expect("accepted");
        assert!(matches!(client.next().await, SocketEvent::Text(_)), "{path}");
    }
}
