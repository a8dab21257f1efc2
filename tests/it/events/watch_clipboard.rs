//! Is what is copied told once, bounded, and whoever owns the clipboard?

use std::time::Duration;

use hotdesk::agent::display::{Content, Selection};
use hotdesk::base::wait;
use hotdesk::domain::event::Kind;
use hotdesk::wire::event::MAX_CONTENT_BYTES;
use serde_json::{Value, json};

use super::watch::Hearing;
use crate::display::clipboard::{CLIPBOARD, Peer, copy};
use crate::display::desk::{Desk, TIMEOUT, installed};

fn told(screen: &str, content: &str) -> Value {
    json!({"content": content, "screen": screen})
}

#[tokio::test]
async fn text_that_is_copied_is_told_once() {
    if !installed("xclip") {
        return;
    }
    let desk = Desk::bare(320, 240).await;
    copy(&desk.display(), &CLIPBOARD, b"before");
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &[Kind::Clipboard]).await;
    copy(&desk.display(), &CLIPBOARD, "grüße 😀\n".as_bytes());
    hearing.expect("clipboard", told("default", "grüße 😀\n")).await;
    copy(&desk.display(), &CLIPBOARD, "grüße 😀\n".as_bytes());
    copy(&desk.display(), &["-selection", "primary"], b"marked only");
    hearing.quiet().await;
    desk.ok("PUT", "/clipboard", json!({"text": "by the API"})).await;
    hearing.expect("clipboard", told("default", "by the API")).await;
    desk.ok("POST", "/screens", Value::Null).await;
    // What was copied before the new screen is watched is no news there.
    let heard = wait::until(TIMEOUT, || async {
        desk.ok("PUT", "/clipboard?screen=screen-100", json!({"text": "elsewhere"})).await;
        tokio::time::timeout(Duration::from_millis(500), hearing.next()).await.ok()
    });
    let heard = heard.await.expect("an event once the screen is watched");
    assert_eq!(heard, ("clipboard".to_owned(), told("screen-100", "elsewhere")));
    hearing.quiet().await;
    hearing.end().await;
    desk.close().await;
}

#[tokio::test]
async fn a_long_text_is_told_by_its_beginning() {
    if !installed("xclip") {
        return;
    }
    let desk = Desk::bare(320, 240).await;
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &[Kind::Clipboard]).await;
    let just = "j".repeat(MAX_CONTENT_BYTES);
    copy(&desk.display(), &CLIPBOARD, just.as_bytes());
    hearing.expect("clipboard", told("default", &just)).await;
    // Longer than the clipboard's routes take at all; in pieces.
    for length in [MAX_CONTENT_BYTES / 2 + 1, 2 * 1024 * 1024] {
        copy(&desk.display(), &CLIPBOARD, "é".repeat(length).as_bytes());
        let cut = "é".repeat(MAX_CONTENT_BYTES / 2);
        let cut = json!({"content": cut, "truncated": true, "screen": "default"});
        hearing.expect("clipboard", cut).await;
    }
    hearing.quiet().await;
    hearing.end().await;
    desk.close().await;
}

#[tokio::test]
async fn what_is_no_text_lent_or_never_answered_is_not_told_and_holds_nothing_up() {
    if !installed("xclip") {
        return;
    }
    let desk = Desk::bare(320, 240).await;
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &[Kind::Clipboard]).await;
    copy(&desk.display(), &CLIPBOARD, b"mine");
    hearing.expect("clipboard", told("default", "mine")).await;
    let boot = desk.boot();
    for _ in 0..2 {
        let lent = boot.clipboard_lend(Selection::Clipboard, Content::Text("pasted".into())).await;
        let lent = lent.expect("a loan");
        assert!(boot.clipboard_give_back(lent).await.expect("given back"));
    }
    copy(&desk.display(), &["-selection", "clipboard", "-t", "image/png"], b"\x89PNG\r\n\x1a\nrest");
    hearing.quiet().await;
    // An owner that hangs.
    let peer = Peer::open(&desk.display());
    peer.own();
    copy(&desk.display(), &CLIPBOARD, b"after");
    hearing.expect("clipboard", told("default", "after")).await;
    hearing.quiet().await;
    hearing.end().await;
    desk.close().await;
}
