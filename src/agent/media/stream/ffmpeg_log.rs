//! What does ffmpeg say? Its last lines, without the key, and whose fault they tell of.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use hotdesk_base::secret::Secret;

/// Lines that are kept: a failure is told in two or three.
const KEPT_LINES: usize = 3;
/// Longest line that is looked at, in bytes; of a longer one nothing is, since a key may lie across its end.
const LONGEST_LINE: usize = 4096;
/// Longest part of a line that is kept, in characters.
const KEPT_CHARACTERS: usize = 140;
/// Shortest part of a key that is looked for: shorter ones are words that mean something else. A key that is itself shorter
/// is cut out where it stands alone, and not of other words.
const LEAST_PART: usize = 6;

/// The last words of an encoder.
#[derive(Debug)]
pub struct Words {
    secrets: Vec<Secret>,
    lines: Mutex<VecDeque<String>>,
}

impl Words {
    /// Words in which this key does not occur: a server may quote the stream's name without its parameters, or one of
    /// those, so that parts count as well.
    pub fn without(key: &Secret) -> Self {
        let parts = key.reveal().split(['?', '&', '=', '/']).filter(|part| part.len() >= LEAST_PART);
        // The whole first: its parts would break it up.
        let secrets = std::iter::once(key.reveal()).chain(parts).map(Secret::new).collect();
        Self { secrets, lines: Mutex::default() }
    }

    /// Takes a line; what is kept of it.
    pub fn hear(&self, line: &str) -> Option<String> {
        let mut line = line.trim().to_owned();
        for secret in &self.secrets {
            line = cut(&line, secret.reveal());
        }
        // `[rtmp @ 0x5581e8c0] ` names a part of ffmpeg by its address.
        let said = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            Some((who, said)) if who.contains(" @ 0x") => said,
            _ => &line,
        };
        let said: String = said.chars().filter(|c| !c.is_control()).take(KEPT_CHARACTERS).collect();
        if said.is_empty() {
            return None;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(said.clone());
        Some(said)
    }

    /// The last lines as one.
    pub fn last(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }

    /// Whether they tell of the way to the server, and not of the screen or the encoder.
    pub fn blame_the_server(&self) -> bool {
        blames_the_server(&self.last())
    }

    /// Whether they tell of the virtual speaker.
    pub fn blame_the_speaker(&self) -> bool {
        self.last().contains(super::encoder::SPEAKER)
    }
}

/// A line without a secret.
fn cut(line: &str, secret: &str) -> String {
    if secret.len() >= LEAST_PART {
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

/// The outputs' names, and what the system calls a connection that ended.
fn blames_the_server(words: &str) -> bool {
    ["rtmp://", "rtmps://", "tcp://", "tls://", "Broken pipe", "Connection ", "Peer certificate"]
        .iter()
        .any(|sign| words.contains(sign))
}

/// Lines of a pipe: the next one, empty when it was too long; `None` at the end.
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

    /// Reads on. Nothing is lost when this is dropped before it is done.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.held.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                let rest = self.held.split_off(end + 1);
                let line = std::mem::replace(&mut self.held, rest);
                let skipped = std::mem::take(&mut self.skipping);
                let text = if skipped { "".into() } else { String::from_utf8_lossy(&line[..end]) };
                return Some(text.into_owned());
            }
            if self.held.len() > LONGEST_LINE {
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
    fn a_key_and_its_parts_are_cut_out() {
        let words = Words::without(&Secret::new("live_hunter2?token=correcthorse&x=1"));
        for (said, kept) in [
            ("publish live_hunter2?token=correcthorse&x=1 failed", "publish *** failed"),
            ("no live_hunter2 here", "no *** here"),
            ("[rtmp @ 0x55b95ed11e80] Server error: correcthorse", "Server error: ***"),
            ("[info] x", "[info] x"),
            ("a\u{1b}[31mb\0", "a[31mb"),
        ] {
            assert_eq!(words.hear(said).as_deref(), Some(kept));
        }
        assert_eq!(words.last(), "Server error: ***; [info] x; a[31mb");
        assert_eq!(words.hear("  "), None);
        assert!(words.hear(&"x".repeat(4000)).is_some_and(|line| line.len() == KEPT_CHARACTERS));
    }

    #[test]
    fn a_short_key_is_cut_out_alone() {
        for (key, said, kept) in [
            ("live", "no live delivery to x/live: olive", "no *** delivery to x/***: olive"),
            ("r", "Server error: r", "Server error: ***"),
            ("aa", "aaa aa aa", "aaa *** ***"),
            ("é", "été é", "été ***"),
        ] {
            assert_eq!(Words::without(&Secret::new(key)).hear(said).as_deref(), Some(kept));
        }
        assert_eq!(Words::without(&Secret::new("")).hear("as it is").as_deref(), Some("as it is"));
    }

    #[test]
    fn the_server_s_fault_is_told_from_the_screen_s() {
        for server in [
            "rtmp://203.0.113.7:1935/: Input/output error",
            "Cannot open connection tcp://203.0.113.7:1?tcp_nodelay=0",
            "av_interleaved_write_frame(): Broken pipe",
            "Error writing trailer: Connection reset by peer",
            "Peer certificate failed verification",
        ] {
            assert!(blames_the_server(server), "{server}");
        }
        for other in [
            "Cannot get the image data event_error: response_type:0 error_code:8",
            "Cannot open display :99, error 1.",
            "Error while opening encoder for output stream",
            "hotdesk_speaker.monitor: No such process",
        ] {
            assert!(!blames_the_server(other), "{other}");
        }
    }

    #[tokio::test]
    async fn lines_are_whole_or_left_out() {
        let long = "x".repeat(100_000);
        let text = format!("one\ntwo\r{long}secret\nthree\nhalf");
        let mut lines = Lines::of(text.as_bytes());
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            assert!(lines.held.capacity() < 4 * LONGEST_LINE);
            all.push(line);
        }
        assert_eq!(all, ["one", "two", "", "three"]);
    }
}
