//! Server-sent events of a response.

use reqwest::{Method, Response};

use super::api::{Api, REQUEST_TIMEOUT};
use super::socket::SILENCE_TIMEOUT;
use crate::failure::Outcome;

/// Longest line in bytes: a line of a service's log has at most 16 KiB, and JSON needs up to six bytes for one of them.
const MAX_LINE: usize = 128 * 1024;

/// A response that is a stream of events.
pub struct EventStream<'a> {
    api: &'a Api,
    response: Response,
    /// Beginning of a line that is not complete.
    waiting: Vec<u8>,
    /// Longest line in bytes.
    max_line: usize,
}

impl<'a> EventStream<'a> {
    /// Requests a stream of events.
    ///
    /// # Errors
    /// When the server refuses the request or is unreachable.
    pub async fn open(api: &'a Api, path: &[&str], query: &[(&str, &str)]) -> Outcome<Self> {
        let request = api.request(Method::GET, api.url(path)).query(query);
        let opening = tokio::time::timeout(REQUEST_TIMEOUT, api.open(request));
        let response = opening.await.map_err(|_| "the server did not answer in a minute; try again")??;
        Ok(Self::of(api, response, MAX_LINE))
    }

    /// Reads the events of a response, with lines of at most `max_line` bytes.
    pub fn of(api: &'a Api, response: Response, max_line: usize) -> Self {
        Self { api, response, waiting: Vec::new(), max_line }
    }

    /// Waits for the next event and returns its data; `None` at the end of the stream.
    ///
    /// # Errors
    /// When the connection breaks, the server is silent for 75 s (it sends a comment every 15 s), or a line is too long.
    pub async fn next_data(&mut self) -> Outcome<Option<String>> {
        loop {
            while let Some(end) = self.waiting.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.waiting.drain(..=end).collect();
                if let Some(data) = data_of(&line) {
                    return Ok(Some(data));
                }
            }
            if self.waiting.len() > self.max_line {
                return Err(format!("the server sent an event of over {} bytes", self.max_line).into());
            }
            let received = tokio::time::timeout(SILENCE_TIMEOUT, self.response.chunk()).await;
            let received = received.map_err(|_| "the server is silent: is it still reachable?")?;
            match received.map_err(|error| self.api.transport_failure(error))? {
                Some(bytes) => self.waiting.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }
}

/// The data of a line; `None` for comments and empty lines. Each event of the server has one line of data.
fn data_of(line: &[u8]) -> Option<String> {
    let data = line.strip_prefix(b"data:")?;
    Some(String::from_utf8_lossy(data.trim_ascii()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_lines_are_events() {
        assert_eq!(data_of(b"data: {\"line\": \"hi\"}\r\n").as_deref(), Some("{\"line\": \"hi\"}"));
        assert_eq!(data_of(b"data:x\n").as_deref(), Some("x"));
        for line in [&b": keep-alive\n"[..], b":\n", b"\n", b"event: end\n"] {
            assert_eq!(data_of(line), None);
        }
    }
}
