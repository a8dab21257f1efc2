//! Clipboard events: one per copy, bounded, for every kind of owner.

use std::time::Duration;

use hotdesk::agent::display::{ClipboardItem, Selection};
use hotdesk::base::wait;
use hotdesk::domain::desktop::event::EventKind;
use hotdesk::wire::desktop::event::MAX_CONTENT_BYTES;
use serde_json::{Value, json};

use super::watch::WatchListener;
use crate::display::clipboard::{CLIPBOARD, SelectionOwner, copy};
use crate::display::fixture::{DisplayFixture, TIMEOUT, installed};

fn clipboard_event(screen: &str, content: &str) -> Value {
    json!({"content": content, "screen": screen})
}

#[tokio::test]
async fn text_that_is_copied_is_told_once() {
    if !installed("xclip") {
        return;
    }
    let fixture = DisplayFixture::bare(320, 240).await;
    copy(&fixture.display(), &CLIPBOARD, b"before");
    let listener =
        WatchListener::start(Some(&fixture.displays), fixture.home(), &[EventKind::Clipboard]).await;
    copy(&fixture.display(), &CLIPBOARD, "grüße 😀\n".as_bytes());
    listener.expect("clipboard", clipboard_event("default", "grüße 😀\n")).await;
    copy(&fixture.display(), &CLIPBOARD, "grüße 😀\n".as_bytes());
    copy(&fixture.display(), &["-selection", "primary"], b"marked only");
    listener.expect_none().await;
    fixture.ok("PUT", "/clipboard", json!({"text": "by the API"})).await;
    listener.expect("clipboard", clipboard_event("default", "by the API")).await;
    fixture.ok("POST", "/screens", Value::Null).await;
    // A copy from before the new screen is watched is no event.
    let event = wait::until(TIMEOUT, || async {
        fixture.ok("PUT", "/clipboard?screen=screen-100", json!({"text": "elsewhere"})).await;
        tokio::time::timeout(Duration::from_millis(500), listener.next()).await.ok()
    });
    let event = event.await.expect("an event after the screen is watched");
    assert_eq!(event, ("clipboard".to_owned(), clipboard_event("screen-100", "elsewhere")));
    listener.expect_none().await;
    listener.end().await;
    fixture.close().await;
}

#[tokio::test]
async fn a_long_text_is_told_by_its_beginning() {
    if !installed("xclip") {
        return;
    }
    let fixture = DisplayFixture::bare(320, 240).await;
    let listener =
        WatchListener::start(Some(&fixture.displays), fixture.home(), &[EventKind::Clipboard]).await;
    let at_limit = "j".repeat(MAX_CONTENT_BYTES);
    copy(&fixture.display(), &CLIPBOARD, at_limit.as_bytes());
    listener.expect("clipboard", clipboard_event("default", &at_limit)).await;
    // More than the clipboard routes accept, in an incremental transfer.
    for length in [MAX_CONTENT_BYTES / 2 + 1, 2 * 1024 * 1024] {
        copy(&fixture.display(), &CLIPBOARD, "é".repeat(length).as_bytes());
        let truncated = "é".repeat(MAX_CONTENT_BYTES / 2);
        let truncated = json!({"content": truncated, "truncated": true, "screen": "default"});
        listener.expect("clipboard", truncated).await;
    }
    listener.expect_none().await;
    listener.end().await;
    fixture.close().await;
}

#[tokio::test]
async fn what_is_no_text_lent_or_never_answered_is_not_told_and_holds_nothing_up() {
    if !installed("xclip") {
        return;
    }
    let fixture = DisplayFixture::bare(320, 240).await;
    let listener =
        WatchListener::start(Some(&fixture.displays), fixture.home(), &[EventKind::Clipboard]).await;
    copy(&fixture.display(), &CLIPBOARD, b"mine");
    listener.expect("clipboard", clipboard_event("default", "mine")).await;
    let boot = fixture.boot();
    for _ in 0..2 {
        let loan =
            boot.clipboard_set_temporarily(Selection::Clipboard, ClipboardItem::Text("pasted".into())).await;
        let loan = loan.expect("a loan");
        assert!(boot.clipboard_restore(loan).await.expect("given back"));
    }
    copy(&fixture.display(), &["-selection", "clipboard", "-t", "image/png"], b"\x89PNG\r\n\x1a\nrest");
    listener.expect_none().await;
    // An owner that never answers.
    let owner = SelectionOwner::open(&fixture.display());
    owner.own();
    copy(&fixture.display(), &CLIPBOARD, b"after");
    listener.expect("clipboard", clipboard_event("default", "after")).await;
    listener.expect_none().await;
    listener.end().await;
    fixture.close().await;
}
