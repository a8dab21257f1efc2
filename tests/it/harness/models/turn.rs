//! Turns of the scripted server.

use std::time::Duration;

use serde_json::Value;

/// Events of a reply as the server sends them, one by one. An endless turn has no last one.
pub(super) type Frames = Box<dyn Iterator<Item = String> + Send>;

/// What a request gets.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(super) kind: TurnKind,
    pub(super) pieces: Vec<Piece>,
    pub(super) is_endless: bool,
    pub(super) pause: Duration,
    pub(super) end: StreamEnd,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cached_tokens: u64,
    /// Reason for the end; `None`: that of the pieces.
    pub(super) stop: Option<String>,
    /// Whether the OpenAI side leaves out ids of calls, usage and `[DONE]`, as some servers do.
    pub(super) is_sparse: bool,
}

/// Kind of a turn.
#[derive(Clone, Debug)]
pub(super) enum TurnKind {
    /// A reply.
    Stream,
    /// An error instead of a reply.
    Refusal { status: u16, retry_after: Option<String> },
    /// Nothing at all: the request stays open.
    Silence,
    /// JSON instead of a stream.
    NoStream,
}

/// Part of a reply.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Thinking(String),
    /// A call with the text of its arguments.
    Call {
        name: String,
        arguments: String,
    },
}

/// End of a reply. Frames are events; the first ones have no text.
#[derive(Clone, Debug)]
pub(super) enum StreamEnd {
    /// As documented.
    Complete,
    /// The connection breaks after so many frames.
    Cut { after: usize },
    /// Nothing comes after so many frames.
    Stall { after: usize },
    /// An error within the stream comes after so many frames.
    Error { after: usize, kind: String },
}

impl Turn {
    fn new(kind: TurnKind, pieces: Vec<Piece>) -> Self {
        Self {
            kind,
            pieces,
            is_endless: false,
            pause: Duration::ZERO,
            end: StreamEnd::Complete,
            input_tokens: 100,
            output_tokens: 10,
            cached_tokens: 0,
            stop: None,
            is_sparse: false,
        }
    }

    /// A reply with a text, which is sent word by word.
    pub fn text(text: &str) -> Self {
        Self::new(TurnKind::Stream, vec![Piece::Text(text.to_owned())])
    }

    /// A reply with a call.
    pub fn call(name: &str, input: &Value) -> Self {
        Self::new(TurnKind::Stream, Vec::new()).then_call(name, input)
    }

    /// An error instead of a reply. 529 is Anthropic's for an overload.
    pub fn refused(status: u16) -> Self {
        Self::new(TurnKind::Refusal { status, retry_after: None }, Vec::new())
    }

    /// No answer at all.
    pub fn silent() -> Self {
        Self::new(TurnKind::Silence, Vec::new())
    }

    /// A document of JSON instead of a stream.
    pub fn no_stream() -> Self {
        Self::new(TurnKind::NoStream, Vec::new())
    }

    /// A reply whose text has no end.
    pub fn endless() -> Self {
        Self { is_endless: true, ..Self::text("on and ") }
    }

    /// Adds text.
    pub fn then_text(mut self, text: &str) -> Self {
        self.pieces.push(Piece::Text(text.to_owned()));
        self
    }

    /// Adds thinking.
    pub fn then_thinking(mut self, text: &str) -> Self {
        self.pieces.push(Piece::Thinking(text.to_owned()));
        self
    }

    /// Adds a call.
    pub fn then_call(self, name: &str, input: &Value) -> Self {
        self.then_malformed_call(name, &input.to_string())
    }

    /// Adds a call with this text instead of arguments.
    pub fn then_malformed_call(mut self, name: &str, arguments: &str) -> Self {
        self.pieces.push(Piece::Call { name: name.to_owned(), arguments: arguments.to_owned() });
        self
    }

    /// Adds `Retry-After` to an error.
    pub fn retry_after(mut self, value: &str) -> Self {
        if let TurnKind::Refusal { retry_after, .. } = &mut self.kind {
            *retry_after = Some(value.to_owned());
        }
        self
    }

    /// Pauses between the frames.
    pub fn slowly(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Breaks the connection after so many frames.
    pub fn cut_after(self, frames: usize) -> Self {
        Self { end: StreamEnd::Cut { after: frames }, ..self }
    }

    /// Sends nothing after so many frames.
    pub fn stalled_after(self, frames: usize) -> Self {
        Self { end: StreamEnd::Stall { after: frames }, ..self }
    }

    /// Sends an error of this type, such as `overloaded_error`, after so many frames.
    pub fn fails_after(self, frames: usize, kind: &str) -> Self {
        Self { end: StreamEnd::Error { after: frames, kind: kind.to_owned() }, ..self }
    }

    /// Sets the numbers of tokens: of the request, without cached ones, and of the reply.
    pub fn tokens(self, input: u64, output: u64) -> Self {
        Self { input_tokens: input, output_tokens: output, ..self }
    }

    /// Sets the number of cached tokens of the request.
    pub fn cached(self, tokens: u64) -> Self {
        Self { cached_tokens: tokens, ..self }
    }

    /// Sets the reason for the end, in the words of the vendor.
    pub fn stop(self, reason: &str) -> Self {
        Self { stop: Some(reason.to_owned()), ..self }
    }

    /// Leaves out what servers on the OpenAI side leave out: ids of calls, usage and `[DONE]`.
    pub fn sparse(self) -> Self {
        Self { is_sparse: true, ..self }
    }

    pub(super) fn has_calls(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Call { .. }))
    }
}
