//! Long clipboard texts between the API and VNC viewers.

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use super::pressed::{open_agent, send, viewer};
use super::{TIMEOUT, read_bytes};
use crate::harness::agent::fetch_json;
use crate::harness::socket::Client;

/// Longest text of a clipboard, in bytes.
const MAX_TEXT: usize = 1024 * 1024;
/// Bytes before the text of a clipboard message in either direction (RFC 6143 sections 7.5.6 and 7.6.4).
const HEADER: usize = 8;

/// The text of the server's next clipboard message; `unread` has the bytes after the message before.
async fn cut_text(viewer: &mut Client, unread: &mut Vec<u8>) -> Vec<u8> {
    let mut length = None;
    loop {
        if length.is_none() && unread.len() >= HEADER {
            assert_eq!(unread[0], 3, "the viewer asked for nothing else");
            let bytes = unread[4..HEADER].try_into().expect("four bytes");
            length = Some(HEADER + usize::try_from(u32::from_be_bytes(bytes)).expect("a length"));
        }
        if let Some(length) = length.filter(|length| unread.len() >= *length) {
            let rest = unread.split_off(length);
            return std::mem::replace(unread, rest).split_off(HEADER);
        }
        unread.extend(read_bytes(viewer, 1).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_gets_the_longest_text_that_the_api_sets() {
    let Some((agent, _window)) = open_agent().await else { return };
    let mut viewer = viewer(&agent).await;
    let mut unread = Vec::new();
    for length in [100, 200_000, MAX_TEXT] {
        let text = "0123456789abcdef".repeat(length.div_ceil(16))[..length].to_owned();
        let set = agent.request(Method::PUT, "/clipboard").json(&json!({"text": text}));
        let set = fetch_json(set).await;
        assert_eq!(set.status, 200, "{}", set.body);
        // Xvnc may repeat an earlier text.
        while cut_text(&mut viewer, &mut unread).await != text.as_bytes() {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_reads_the_longest_text_that_a_viewer_sends() {
    let Some((agent, _window)) = open_agent().await else { return };
    let mut viewer = viewer(&agent).await;
    for length in [100, 300_000, MAX_TEXT] {
        let text = "fedcba9876543210".repeat(length.div_ceil(16))[..length].to_owned();
        let mut message = vec![6, 0, 0, 0];
        message.extend(u32::try_from(length).expect("a length").to_be_bytes());
        message.extend(text.as_bytes());
        send(&mut viewer, message).await;
        let read = || async { agent.get("/clipboard").await.body["text"].as_str().map(str::len) };
        let found = wait::until(TIMEOUT, || async { (read().await == Some(length)).then_some(()) });
        assert!(found.await.is_some(), "{:?} of {length} bytes", read().await);
        assert!(agent.get("/clipboard").await.body["text"] == text, "{length} bytes differ");
    }
}
