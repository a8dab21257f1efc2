//! What was copied? The text of a screen's clipboard, told once when it changes.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::display::{Copied, Screen};
use hotdesk_domain::event::Kind;
use hotdesk_http::feed::Feed;
use hotdesk_wire::event::{Data, Event, MAX_CONTENT_BYTES};

/// What was told last of one screen's clipboard.
#[derive(Debug, Default)]
pub(super) struct Clipboard {
    told: Option<u64>,
}

impl Clipboard {
    /// Reads what a program has just put on the clipboard, and tells it. Some programs do so twice for one copy, and
    /// clipboard managers do it again: the same text is not told again. Of a text that is too long to be told whole
    /// the rest is not known, so it always counts as another.
    pub(super) async fn tell(&mut self, feed: &Feed, screen: &Screen) {
        if !feed.wanted().borrow().contains(Kind::Clipboard) {
            self.told = None;
            return;
        }
        let text = match screen.clipboard_copied().await {
            Ok(Copied::Text(text)) => text,
            Ok(Copied::Passing) => return,
            Ok(Copied::Other) => {
                self.told = None;
                return;
            }
            Err(error) => {
                tracing::debug!(screen = screen.id, %error, "what was copied could not be read");
                self.told = None;
                return;
            }
        };
        let now = (text.len() <= MAX_CONTENT_BYTES).then(|| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        });
        if now.is_none() || now != self.told {
            feed.publish(Event::now(Data::clipboard(text, screen.id.clone())));
        }
        self.told = now;
    }
}
