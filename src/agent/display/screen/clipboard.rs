//! Clipboard methods of a screen.

use tokio::sync::oneshot;

use super::Screen;
use crate::display::clipboard::thread::{Command, NewContent};
use crate::display::clipboard::{
    ClipboardContents, ClipboardItem, CopiedContent, Selection, Snapshot, TemporaryContent,
};
use crate::display::fault::restarting;
use hotdesk_domain::error::Result;

impl Screen {
    /// Reads a clipboard: text, else a PNG image.
    ///
    /// # Errors
    /// `TimedOut` when its owner does not answer, `TooLarge` when it is past the limits of [`ClipboardItem`],
    /// `Unavailable` when the screen is down or the clipboard's queue is full.
    pub async fn clipboard_get(&self, selection: Selection) -> Result<ClipboardContents> {
        self.ask_clipboard(|reply| Command::Get { selection, reply }).await
    }

    /// Reads what a program copied to `CLIPBOARD`, for the event of the change.
    ///
    /// # Errors
    /// `TimedOut` when its owner does not answer, `Unavailable` when the screen is down or the clipboard's
    /// queue is full.
    pub async fn clipboard_copied(&self) -> Result<CopiedContent> {
        self.ask_clipboard(|reply| Command::Copied { reply }).await
    }

    /// Puts text or an image on a clipboard.
    ///
    /// # Errors
    /// `Invalid` or `TooLarge` from [`ClipboardItem::check`]; `Unavailable` when the screen is down, the
    /// queue is full, or another program takes the clipboard at the same moment.
    pub async fn clipboard_set(&self, selection: Selection, content: ClipboardItem) -> Result<()> {
        content.check()?;
        let content = NewContent::Item(content);
        let set = |reply| Command::Set { selection, content, temporary: false, reply };
        self.ask_clipboard(set).await.map(drop)
    }

    /// Reads a clipboard in every representation that its owner offers.
    ///
    /// # Errors
    /// `TimedOut` when its owner does not answer, `Unavailable` when the screen is down or the queue is full.
    /// Representations that are too large are left out.
    pub async fn clipboard_snapshot(&self, selection: Selection) -> Result<Snapshot> {
        self.ask_clipboard(|reply| Command::Snapshot { selection, reply }).await
    }

    /// Puts content on a clipboard until [`Screen::clipboard_restore`].
    ///
    /// # Errors
    /// Those of [`Screen::clipboard_snapshot`] and [`Screen::clipboard_set`]; the clipboard is unchanged
    /// then.
    pub async fn clipboard_set_temporarily(
        &self,
        selection: Selection,
        content: ClipboardItem,
    ) -> Result<TemporaryContent> {
        content.check()?;
        let previous = self.clipboard_snapshot(selection).await?;
        let content = NewContent::Item(content);
        let set = |reply| Command::Set { selection, content, temporary: true, reply };
        let (serial, fetches) = self.ask_clipboard(set).await?;
        Ok(TemporaryContent { selection, previous, serial, fetches })
    }

    /// Restores the content before [`Screen::clipboard_set_temporarily`]. Returns false and changes nothing
    /// when a program put something else there meanwhile.
    ///
    /// # Errors
    /// `Unavailable` when the screen is down or the queue is full.
    pub async fn clipboard_restore(&self, content: TemporaryContent) -> Result<bool> {
        let TemporaryContent { selection, previous, serial, .. } = content;
        self.ask_clipboard(|reply| Command::Restore { selection, serial, previous, reply }).await
    }

    async fn ask_clipboard<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command,
    ) -> Result<T> {
        if !self.is_ready() {
            return Err(restarting(&self.display_name()));
        }
        self.clipboard.ask(command).await
    }
}
