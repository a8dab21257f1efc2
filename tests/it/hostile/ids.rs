//! Strangers who look for ids of computers at the sockets: A79 (docs/authentication-rules.md).

use hotdesk::domain::desktop::channel::Channel;
use uuid::Uuid;

use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};

/// More attempts than one address has for one computer (docs/channels.md#password-and-token).
const TRIES: usize = 12;
/// More attempts than one address has in all.
const SEARCH: usize = 110;

async fn first(
    controller: &Simulation,
    computer: &str,
    channel: Channel,
    token: &str,
    from: &str,
) -> SocketEvent {
    let path = format!("/desktops/{computer}/ws/{}?token={token}", channel.name());
    let client = [("x-forwarded-for", from)];
    Client::open(controller.address(), &path, &client).await.expect("accepted").next().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a79_an_unknown_computer_is_answered_like_a_known_one_to_strangers() {
    let controller = Simulation::boot_behind_a_proxy().await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let record = controller.get(&format!("/computers/{computer}")).await.body;
    let instance = record["instance_id"].as_str().expect("an instance");
    for (number, channel) in Channel::BY_PASSWORD.into_iter().enumerate() {
        let unknown = Uuid::new_v4().to_string();
        let mut answers = Vec::new();
        for (at, id) in [&computer, instance, &unknown, "0a1b2c3d", "nonsense"].into_iter().enumerate() {
            let from = format!("192.0.2.{}", 10 * (number + 1) + at);
            let mut heard = Vec::new();
            for _ in 0..TRIES {
                heard.push(first(&controller, id, channel, "guess", &from).await);
            }
            answers.push(heard);
        }
        assert!(answers.iter().all(|heard| *heard == answers[0]), "{answers:?}");
    }
    // A search ends, and a right password still passes.
    let (mut last, from) = (SocketEvent::Cut, "192.0.2.200");
    for _ in 0..SEARCH {
        last = first(&controller, &Uuid::new_v4().to_string(), Channel::Terminal, "guess", from).await;
    }
    assert!(matches!(&last, SocketEvent::Closed(4401, why) if why.contains("too many")), "{last:?}");
    let password = controller.get(&format!("/computers/{computer}/vnc-password")).await.body;
    let password = password["password"].as_str().expect("a password");
    let right = first(&controller, &computer, Channel::Terminal, password, from).await;
    assert!(!matches!(right, SocketEvent::Closed(4401, _)), "{right:?}");
}
