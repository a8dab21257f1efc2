//! Clipboard events: the text of a screen's clipboard, published once per change.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::display::{CopiedContent, Screen};
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::event::{Event, EventData, MAX_CONTENT_BYTES};

/// Last published clipboard text of one screen.
#[derive(Debug, Default)]
pub(super) struct ClipboardPublisher {
    published: Option<u64>,
}

impl ClipboardPublisher {
    /// Reads a new clipboard text and publishes it. A repeated text is not published again: some programs set
    /// the clipboard twice for one copy, and clipboard managers set it again. A text above the size limit
    /// always counts as new, because its end is not read.
    pub(super) async fn publish(&mut self, feed: &Feed, screen: &Screen) {
        if !feed.wanted().borrow().contains(EventKind::Clipboard) {
            self.published = None;
            return;
        }
        let text = match screen.clipboard_copied().await {
            Ok(CopiedContent::Text(text)) => text,
            Ok(CopiedContent::Temporary) => return,
            Ok(CopiedContent::Other) => {
                self.published = None;
                return;
            }
            Err(error) => {
                tracing::debug!(
                    screen = screen.id,
                    error = format_args!("{error:#}"),
                    "cannot read the clipboard for an event"
                );
                self.published = None;
                return;
            }
        };
        let now = (text.len() <= MAX_CONTENT_BYTES).then(|| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        });
        if now.is_none() || now != self.published {
            feed.publish(Event::now(EventData::clipboard(text, screen.id.clone())));
        }
        self.published = now;
    }
}
