//! Last log lines of ffmpeg, without the stream key, and the fault that they name.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::SPEAKER;
use hotdesk_base::secret::Secret;

/// Lines that are stored: a failure takes two or three.
const MAX_LINES: usize = 3;
/// Longest line in bytes; a longer line is dropped as a whole, because the key may be at the cut.
const MAX_LINE_BYTES: usize = 4096;
/// Most characters stored of a line.
const MAX_LINE_CHARS: usize = 140;
/// Shortest part of a key that is removed; shorter parts are common words. A whole key that is shorter is
/// removed only where it is a separate word.
const MIN_SECRET_PART: usize = 6;

/// Last log lines of an encoder.
#[derive(Debug)]
pub struct FfmpegLog {
    secrets: Vec<Secret>,
    lines: Mutex<VecDeque<String>>,
}

impl FfmpegLog {
    /// Creates a log that removes this key. A server may quote the stream's name without its parameters, or
    /// one of them, so parts of the key are removed too.
    pub fn without(key: &Secret) -> Self {
        let parts = key.reveal().split(['?', '&', '=', '/']).filter(|part| part.len() >= MIN_SECRET_PART);
        // The whole key first: its parts would split it.
        let secrets = std::iter::once(key.reveal()).chain(parts).map(Secret::new).collect();
        Self { secrets, lines: Mutex::default() }
    }

    /// Adds a line; returns its stored form.
    pub fn push(&self, line: &str) -> Option<String> {
        let mut line = line.trim().to_owned();
        for secret in &self.secrets {
            line = redact(&line, secret.reveal());
        }
        // ffmpeg prefixes lines with the address of a component: `[rtmp @ 0x5581e8c0] `.
        let said = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            Some((who, said)) if who.contains(" @ 0x") => said,
            _ => &line,
        };
        let said: String = said.chars().filter(|c| !c.is_control()).take(MAX_LINE_CHARS).collect();
        if said.is_empty() {
            return None;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(said.clone());
        Some(said)
    }

    /// The last lines, joined.
    pub fn last(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }

    /// Whether they name the connection to the server, not the screen or the encoder.
    pub fn blames_server(&self) -> bool {
        names_server(&self.last())
    }

    /// Whether they name the virtual speaker.
    pub fn blames_speaker(&self) -> bool {
        self.last().contains(SPEAKER)
    }
}

/// Removes a secret from a line.
fn redact(line: &str, secret: &str) -> String {
    if secret.len() >= MIN_SECRET_PART {
        return line.replace(secret, "***");
    }
    let mut left = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(secret).filter(|_| !secret.is_empty()) {
        left.push_str(before);
        let goes_on = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
        let stands_alone = !goes_on(left.chars().next_back()) && !goes_on(after.chars().next());
        left.push_str(if stands_alone { "***" } else { secret });
        rest = after;
    }
    left + rest
}

/// Looks for output URLs and for system errors of a closed connection.
fn names_server(text: &str) -> bool {
    ["rtmp://", "rtmps://", "tcp://", "tls://", "Broken pipe", "Connection ", "Peer certificate"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// Reader of a pipe's lines: an empty line for one that was too long; `None` at the end.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    held: Vec<u8>,
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn of(reader: R) -> Self {
        Self { reader, held: Vec::new(), skipping: false }
    }

    /// Returns the next line. Cancel-safe.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.held.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                let rest = self.held.split_off(end + 1);
                let line = std::mem::replace(&mut self.held, rest);
                let skipped = std::mem::take(&mut self.skipping);
                let text = if skipped { "".into() } else { String::from_utf8_lossy(&line[..end]) };
                return Some(text.into_owned());
            }
            if self.held.len() > MAX_LINE_BYTES {
                self.held.clear();
                self.skipping = true;
            }
            let mut piece = [0; 1024];
            match self.reader.read(&mut piece).await {
                Ok(read @ 1..) => self.held.extend_from_slice(&piece[..read]),
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_parts_are_removed() {
        let log = FfmpegLog::without(&Secret::new("live_hunter2?token=correcthorse&x=1"));
        for (said, kept) in [
            ("publish live_hunter2?token=correcthorse&x=1 failed", "publish *** failed"),
            ("no live_hunter2 here", "no *** here"),
            ("[rtmp @ 0x55b95ed11e80] Server error: correcthorse", "Server error: ***"),
            ("[info] x", "[info] x"),
            ("a\u{1b}[31mb\0", "a[31mb"),
        ] {
            assert_eq!(log.push(said).as_deref(), Some(kept));
        }
        assert_eq!(log.last(), "Server error: ***; [info] x; a[31mb");
        assert_eq!(log.push("  "), None);
        assert!(log.push(&"x".repeat(4000)).is_some_and(|line| line.len() == MAX_LINE_CHARS));
    }

    #[test]
    fn a_short_key_is_removed_as_a_word() {
        for (key, said, kept) in [
            ("live", "no live delivery to x/live: olive", "no *** delivery to x/***: olive"),
            ("r", "Server error: r", "Server error: ***"),
            ("aa", "aaa aa aa", "aaa *** ***"),
            ("é", "été é", "été ***"),
        ] {
            assert_eq!(FfmpegLog::without(&Secret::new(key)).push(said).as_deref(), Some(kept));
        }
        assert_eq!(FfmpegLog::without(&Secret::new("")).push("as it is").as_deref(), Some("as it is"));
    }

    #[test]
    fn server_failures_differ_from_screen_failures() {
        for server in [
            "rtmp://203.0.113.7:1935/: Input/output error",
            "Cannot open connection tcp://203.0.113.7:1?tcp_nodelay=0",
            "av_interleaved_write_frame(): Broken pipe",
            "Error writing trailer: Connection reset by peer",
            "Peer certificate failed verification",
        ] {
            assert!(names_server(server), "{server}");
        }
        for other in [
            "Cannot get the image data event_error: response_type:0 error_code:8",
            "Cannot open display :99, error 1.",
            "Error while opening encoder for output stream",
            "hotdesk_speaker.monitor: No such process",
        ] {
            assert!(!names_server(other), "{other}");
        }
    }

    #[tokio::test]
    async fn lines_are_complete_or_dropped() {
        let long = "x".repeat(100_000);
        let text = format!("one\ntwo\r{long}secret\nthree\nhalf");
        let mut lines = Lines::of(text.as_bytes());
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            assert!(lines.held.capacity() < 4 * MAX_LINE_BYTES);
            all.push(line);
        }
        assert_eq!(all, ["one", "two", "", "three"]);
    }
}
