//! Parser of server-sent events, with a bound for each event (WHATWG HTML, section 9.2).
//!
//! Lines end with LF, CRLF or CR, and chunks may break anywhere. Comments, ids and retry times are ignored.

use std::mem;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Name of its type; empty for none.
    pub name: String,
    /// Its data lines, joined by LF.
    pub data: String,
}

/// An event that exceeds the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// Parser of one stream.
#[derive(Debug)]
pub(crate) struct SseParser {
    /// Largest event, and largest line, in bytes.
    max_event: usize,
    line: Vec<u8>,
    pending: SseEvent,
    has_data: bool,
    /// Whether the last byte was a CR, of which an LF would be a part.
    after_cr: bool,
    is_first_line: bool,
}

impl SseParser {
    /// A parser that refuses events of more than `max_event` bytes.
    pub fn new(max_event: usize) -> Self {
        Self {
            max_event,
            line: Vec::new(),
            pending: SseEvent::default(),
            has_data: false,
            after_cr: false,
            is_first_line: true,
        }
    }

    /// Takes the next bytes of the stream. Appends the events that they complete to `events`, in order.
    ///
    /// # Errors
    /// [`EventTooLarge`]. The parser must not be used afterwards.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLarge> {
        let mut rest = bytes;
        if mem::take(&mut self.after_cr) {
            match rest.first() {
                Some(b'\n') => rest = &rest[1..],
                Some(_) => {}
                None => self.after_cr = true,
            }
        }
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend_line(&rest[..at])?;
            let is_cr = rest[at] == b'\r';
            rest = &rest[at + 1..];
            match rest.first() {
                Some(b'\n') if is_cr => rest = &rest[1..],
                Some(_) => {}
                None => self.after_cr = is_cr,
            }
            events.extend(self.end_line());
        }
        self.extend_line(rest)
    }

    /// Returns the event that the stream's end left without its blank line. Some servers omit it after the
    /// last event.
    pub fn finish(mut self) -> Option<SseEvent> {
        let last = if self.line.is_empty() { None } else { self.end_line() };
        last.or_else(|| self.dispatch())
    }

    fn extend_line(&mut self, part: &[u8]) -> Result<(), EventTooLarge> {
        let held = self.line.len() + self.pending.data.len() + self.pending.name.len();
        if held + part.len() > self.max_event {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let bytes = mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let line = if mem::take(&mut self.is_first_line) {
            text.strip_prefix('\u{feff}').unwrap_or(&text)
        } else {
            &text
        };
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.pending.data.push('\n');
                }
                self.pending.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.pending.name),
            // A comment has an empty field name.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = mem::take(&mut self.pending);
        mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 64 * 1024;

    fn parsed(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let (mut parser, mut events) = (SseParser::new(MAX), Vec::new());
        for chunk in chunks {
            parser.push(chunk, &mut events).expect("small events");
        }
        events.extend(parser.finish());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    #[test]
    fn fields_comments_and_line_ends_are_those_of_the_standard() {
        for (stream, expected) in [
            ("data: a\n\n", vec![("", "a")]),
            ("data:a\r\n\r\n", vec![("", "a")]),
            ("data:  a\r\r", vec![("", " a")]),
            ("\u{feff}data: a\n\n", vec![("", "a")]),
            ("event: ping\ndata: {}\n\n", vec![("ping", "{}")]),
            ("data: a\ndata: b\n\n", vec![("", "a\nb")]),
            ("data: a\n: keep-alive\ndata\n\n", vec![("", "a\n")]),
            (": comment\n\n\n\n", vec![]),
            ("event: lost\n\ndata: a\n\n", vec![("", "a")]),
            ("id: 7\nretry: 10\nfoo: bar\ndata: a\n\n", vec![("", "a")]),
            ("data: a\n\ndata: [DONE]", vec![("", "a"), ("", "[DONE]")]),
            ("data: a\n\ndata: b\n", vec![("", "a"), ("", "b")]),
        ] {
            let expected: Vec<(String, String)> =
                expected.into_iter().map(|(name, data)| (name.to_owned(), data.to_owned())).collect();
            assert_eq!(parsed(&[stream.as_bytes()]), expected, "{stream:?}");
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(parsed(&bytes), expected, "{stream:?} byte by byte");
        }
    }

    #[test]
    fn an_event_or_line_above_the_bound_is_refused() {
        let mut events = Vec::new();
        let mut parser = SseParser::new(16);
        assert_eq!(parser.push(b"data: 0123456789\n\n", &mut events), Ok(()));
        assert_eq!(parser.push(&[b'x'; 17], &mut events), Err(EventTooLarge));
        let mut parser = SseParser::new(16);
        // Many short lines of one event.
        let lines = b"data: 01\n".repeat(8);
        assert_eq!(parser.push(&lines, &mut events), Err(EventTooLarge));
        let mut parser = SseParser::new(16);
        // Comments need no memory.
        assert_eq!(parser.push(&b": 01\n".repeat(100), &mut events), Ok(()));
    }

    fn event() -> impl Strategy<Value = (String, Vec<String>)> {
        ("[a-z_]{0,8}", proptest::collection::vec("[^\r\n]{0,20}", 1..4))
    }

    proptest! {
        #[test]
        fn chunks_and_line_ends_change_nothing(
            sent in proptest::collection::vec((event(), 0..3_usize, any::<bool>()), 0..8),
            cuts in proptest::collection::vec(1..40_usize, 1..30),
        ) {
            let (mut stream, mut expected) = (String::new(), Vec::new());
            for ((name, lines), end, has_comment) in sent {
                let end = ["\n", "\r\n", "\r"][end];
                if has_comment {
                    stream += &format!(": é{end}");
                }
                if !name.is_empty() {
                    stream += &format!("event: {name}{end}");
                }
                for line in &lines {
                    stream += &format!("data: {line}{end}");
                }
                stream += end;
                expected.push((name, lines.join("\n")));
            }
            let (mut rest, mut chunks) = (stream.as_bytes(), Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(parsed(&chunks), expected);
        }

        #[test]
        fn no_bytes_exceed_the_bound_or_panic(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..32),
        ) {
            let (mut parser, mut events) = (SseParser::new(100), Vec::new());
            for chunk in &chunks {
                if parser.push(chunk, &mut events).is_err() {
                    return Ok(());
                }
            }
            events.extend(parser.finish());
            // A byte that is not UTF-8 becomes a character of three bytes.
            prop_assert!(events.iter().all(|event| event.data.len() + event.name.len() <= 300));
        }
    }
}
