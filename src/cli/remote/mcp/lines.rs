//! Lines of standard input with a bounded length.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

/// Longest message in bytes, as on the server.
pub const MAX_MESSAGE: usize = 2 * 1024 * 1024;

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end.
    Complete(Bytes),
    /// A line of more than [`MAX_MESSAGE`] bytes, which was skipped.
    TooLong,
}

/// Splits chunks of input into lines.
pub struct Lines {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    waiting: BytesMut,
    /// Length of the part of `waiting` that is known to have no end of a line.
    searched: usize,
    /// Whether the rest of a line that is too long is being skipped.
    skipping: bool,
    ended: bool,
}

impl Lines {
    /// Creates a reader of these chunks.
    pub fn new(chunks: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self { chunks, waiting: BytesMut::new(), searched: 0, skipping: false, ended: false }
    }

    /// Waits for the next line that is not empty; `None` at the end of the input. Cancel-safe.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            match self.chunks.recv().await.transpose()? {
                Some(chunk) => self.waiting.extend_from_slice(&chunk),
                None => {
                    self.ended = true;
                    // A last line without an end is a line.
                    self.waiting.extend_from_slice(b"\n");
                }
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        loop {
            let Some(end) = self.waiting[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.waiting.len();
                if self.waiting.len() > MAX_MESSAGE {
                    self.waiting.clear();
                    self.searched = 0;
                    if !std::mem::replace(&mut self.skipping, true) {
                        return Some(Line::TooLong);
                    }
                }
                return None;
            };
            let line = self.waiting.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            let line = line.slice(..line.len() - 1);
            if line.len() > MAX_MESSAGE {
                return Some(Line::TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Complete(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_split_and_bounded() {
        let (sender, chunks) = mpsc::channel(16);
        let mut lines = Lines::new(chunks);
        let long = vec![b'x'; MAX_MESSAGE + 1];
        for chunk in [&b"{\"a\""[..], b": 1}\n\r\n{}\n", &long, b"still\nnext\n", b"last"] {
            sender.send(Ok(Bytes::copy_from_slice(chunk))).await.unwrap();
        }
        drop(sender);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(line);
        }
        let complete = |text: &'static str| Line::Complete(text.into());
        assert_eq!(
            read,
            [complete("{\"a\": 1}"), complete("{}"), Line::TooLong, complete("next"), complete("last")]
        );
    }
}
