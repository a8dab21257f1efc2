//! Many viewers of one screen: all of them connect at once, and their number has a bound.

use std::path::Path;

use futures_util::future::join_all;
use hotdesk::base::wait;

use super::TIMEOUT;
use crate::harness::agent::RunningAgent;
use crate::harness::capability::Capability;
use crate::harness::socket::{Client, SocketEvent};

/// Viewers that a screen may have (docs/channels.md).
const MAX_VIEWERS: usize = 64;

async fn open(agent: &RunningAgent) -> (Client, SocketEvent) {
    let path = format!("/ws/websockify?token={}", agent.token());
    let mut viewer = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    let first = viewer.next().await;
    (viewer, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_serves_all_viewers_that_come_at_once_and_refuses_one_more_with_the_reason() {
    let Some(agent) = RunningAgent::with_screen().await else { return };
    if !Path::new("/usr/bin/Xvnc").exists() {
        return Capability::X11.skip("Xvnc is not installed");
    }
    let version = SocketEvent::Binary(b"RFB 003.008\n".to_vec());
    let mut viewers = join_all((0..MAX_VIEWERS).map(|_| open(&agent))).await;
    let refused: Vec<_> = viewers.iter().map(|(_, first)| first).filter(|first| **first != version).collect();
    assert!(refused.is_empty(), "{} of {MAX_VIEWERS}: {refused:?}", refused.len());
    let (_, first) = open(&agent).await;
    let SocketEvent::Closed(4500, reason) = first else { panic!("one more: {first:?}") };
    assert!(reason.contains("64 viewers"), "{reason}");
    // The place of a viewer that leaves is free again.
    drop(viewers.pop());
    let admitted = wait::until(TIMEOUT, || async { (open(&agent).await.1 == version).then_some(()) });
    admitted.await.expect("a place");
}
