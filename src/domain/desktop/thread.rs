//! Chat threads: bounds, the state of the last run, and titles (docs/api/threads.md).

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::name::Name;
use hotdesk_base::ids::ThreadId;
use hotdesk_base::time::UnixMillis;

/// Most threads of one computer. The one that has not changed for the longest time makes room for another,
/// because some programs begin a thread with each request.
pub const MAX_THREADS: i64 = 200;
/// Most bytes of messages and steps in all threads of one computer; the oldest threads make room. With 50
/// computers, an account has at most about 3 GB.
pub const MAX_COMPUTER_BYTES: i64 = 64 * 1024 * 1024;
/// Most messages of one thread. A run of 100 steps has about 200, so a thread has room for twenty such runs.
pub const MAX_MESSAGES: i64 = 4000;
/// Largest message in bytes, as JSON without pictures. The results of tools that a run gives to a model are
/// much smaller.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// Most bytes of all messages of one thread: far more than what the context of a model takes. A run holds
/// them in memory.
pub const MAX_THREAD_BYTES: i64 = 8 * 1024 * 1024;
/// Most steps of one thread; the oldest make room. It is twenty runs of 100 steps.
pub const MAX_STEPS: i64 = 2000;
/// Most bytes of all steps of one thread, without pictures; the oldest make room. A page of steps is in
/// memory as a whole.
pub const MAX_STEPS_BYTES: i64 = 8 * 1024 * 1024;
/// Largest text or JSON value of one step in bytes. A longer text is cut and a larger value is left out: the
/// step is a record for people, and the thread's messages have the whole.
pub const MAX_STEP_FIELD: usize = 64 * 1024;
/// Most steps of one thread that have a picture: the newest. With [`MAX_PICTURE_BYTES`] a thread has at most
/// 200 MiB.
pub const MAX_PICTURES: usize = 50;
/// Largest picture of a step in bytes; a step with a larger one has none. Models take at most 5 MB.
pub const MAX_PICTURE_BYTES: usize = 4 * 1024 * 1024;
/// Longest text about a failed run in characters: several sentences of an upstream error.
const MAX_FAILURE: usize = 2000;

/// Longest title that is made of messages, in characters: one line in a list of threads.
const MADE_TITLE: usize = 60;
/// The title of a thread whose messages have no text.
const UNTITLED: &str = "New thread";

/// State of the last run of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The run is in progress.
    Running,
    /// The model finished.
    Done,
    /// A call waits for the client's confirmation.
    Confirm,
    /// The most calls of tools were executed.
    MaxSteps,
    /// A reply had the most tokens.
    MaxTokens,
    /// The run has cost what the request allows.
    MaxCost,
    /// The model refused.
    Refused,
    /// Somebody else held the screen for longer than the run waits.
    ControlHeld,
    /// The client or the operator ended the run.
    Cancelled,
    /// The run failed.
    Failed,
    /// The controller ended in the middle of the run.
    Interrupted,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 11] = [
        Self::Running,
        Self::Done,
        Self::Confirm,
        Self::MaxSteps,
        Self::MaxTokens,
        Self::MaxCost,
        Self::Refused,
        Self::ControlHeld,
        Self::Cancelled,
        Self::Failed,
        Self::Interrupted,
    ];

    /// Returns the name in the API and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Confirm => "confirm",
            Self::MaxSteps => "max_steps",
            Self::MaxTokens => "max_tokens",
            Self::MaxCost => "max_cost",
            Self::Refused => "refused",
            Self::ControlHeld => "control_held",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Place of a thread in a list of threads, the last changed first. A list that goes on there has no thread
/// twice, unless it changes meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCursor {
    /// Last change of the thread.
    pub updated_at: UnixMillis,
    /// The thread, which orders those of the same millisecond.
    pub thread: ThreadId,
}

impl fmt::Display for ThreadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.updated_at.as_i64(), self.thread)
    }
}

impl FromStr for ThreadCursor {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let (time, thread) = text.split_once('-').ok_or(())?;
        // The parser of numbers also takes a sign.
        if !time.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(());
        }
        Ok(Self { updated_at: UnixMillis::new(time.parse().map_err(|_| ())?), thread: thread.parse()? })
    }
}

/// A call that waits for the client's confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// Id of the call.
    pub call: String,
    /// Id of the picture that the model saw: its coordinates are pixels of it.
    pub frame: Option<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The model finished.
    Done,
    /// A call waits for the client's confirmation.
    Confirm(WaitingCall),
    /// The most calls of tools were executed.
    MaxSteps,
    /// A reply had the most tokens.
    MaxTokens,
    /// The run has cost what the request allows.
    MaxCost,
    /// The model refused.
    Refused,
    /// Somebody else held the screen for longer than the run waits.
    ControlHeld,
    /// The service ended in the middle of the run.
    Interrupted,
    /// The client or the operator ended the run.
    Cancelled,
    /// The run failed.
    Failed {
        /// Why, for the client.
        message: String,
    },
}

impl RunOutcome {
    /// Returns the state of the thread after the run.
    pub fn state(&self) -> RunState {
        match self {
            Self::Done => RunState::Done,
            Self::Confirm(_) => RunState::Confirm,
            Self::MaxSteps => RunState::MaxSteps,
            Self::MaxTokens => RunState::MaxTokens,
            Self::MaxCost => RunState::MaxCost,
            Self::Refused => RunState::Refused,
            Self::ControlHeld => RunState::ControlHeld,
            Self::Interrupted => RunState::Interrupted,
            Self::Cancelled => RunState::Cancelled,
            Self::Failed { .. } => RunState::Failed,
        }
    }

    /// Returns the text about a failure, cut to its bound.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Failed { message } => Some(message.chars().take(MAX_FAILURE).collect()),
            Self::Done
            | Self::Confirm(_)
            | Self::MaxSteps
            | Self::MaxTokens
            | Self::MaxCost
            | Self::Refused
            | Self::ControlHeld
            | Self::Interrupted
            | Self::Cancelled => None,
        }
    }

    /// Returns the call that waits.
    pub fn waiting(&self) -> Option<&WaitingCall> {
        match self {
            Self::Confirm(call) => Some(call),
            Self::Done
            | Self::MaxSteps
            | Self::MaxTokens
            | Self::MaxCost
            | Self::Refused
            | Self::ControlHeld
            | Self::Interrupted
            | Self::Cancelled
            | Self::Failed { .. } => None,
        }
    }
}

/// Trims and checks a title.
///
/// # Errors
/// `Invalid` (`INVALID_REQUEST`) when it is empty, longer than a name, or has a control character.
pub fn check_title(text: &str) -> Result<Name> {
    Name::parse(text).map_err(|_| {
        Error::invalid("title must be 1 to 255 characters without control characters")
            .code(ErrorCode::InvalidRequest)
    })
}

/// Makes a title: the beginning of the first line with words, of the first text that has one.
pub fn title_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let line = texts.into_iter().flat_map(str::lines).find_map(headline);
    line.unwrap_or_else(|| UNTITLED.to_owned())
}

/// The words of a line, cut to the length of a title; `None` without words.
fn headline(line: &str) -> Option<String> {
    let line: String = line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() {
        return None;
    }
    let Some((end, _)) = words.char_indices().nth(MADE_TITLE) else { return Some(words) };
    let beginning = &words[..end];
    // A language without spaces, or a long link, is cut within the word.
    let whole_words = beginning
        .rfind(' ')
        .filter(|at| *at * 2 > end)
        .unwrap_or_else(|| beginning.char_indices().next_back().map_or(0, |(at, _)| at));
    Some(format!("{}…", beginning[..whole_words].trim_end()))
}

/// Cuts a text of a step to its bound, and replaces NUL characters, which PostgreSQL does not store.
pub fn cut_step_text(text: &str) -> String {
    // The replacement has three bytes.
    let mut cut = text[..text.floor_char_boundary(MAX_STEP_FIELD)].replace('\0', "\u{fffd}");
    cut.truncate(cut.floor_char_boundary(MAX_STEP_FIELD));
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        let cursor =
            ThreadCursor { updated_at: UnixMillis::new(1_790_000_000_000), thread: ThreadId::random() };
        let text = cursor.to_string();
        assert_eq!(text.parse(), Ok(cursor), "{text}");
        let id = cursor.thread.to_string();
        for bad in ["", "-", "1", "1-", &id, &format!("-{id}"), &format!("+1-{id}"), &format!("-1-{id}")] {
            assert_eq!(bad.parse::<ThreadCursor>(), Err(()), "{bad}");
        }
        for bad in [format!("99999999999999999999-{id}"), format!("1-{id}x"), format!("1-{}", &id[4..])] {
            assert_eq!(bad.parse::<ThreadCursor>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn titles_are_the_beginning_of_the_first_line_with_words() {
        let long_word = "x".repeat(100);
        let cases: [(&[&str], String); 8] = [
            (&["Open the editor"], "Open the editor".to_owned()),
            (&["", " \n\t\n  Open \t the\u{7} editor \n and type"], "Open the editor".to_owned()),
            (&[], UNTITLED.to_owned()),
            (&["", "\n"], UNTITLED.to_owned()),
            (
                &["Please open the text editor, write a poem about autumn and save it"],
                "Please open the text editor, write a poem about autumn and…".to_owned(),
            ),
            (&[&long_word], format!("{}…", "x".repeat(59))),
            (&["a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"], {
                format!("a {}…", "x".repeat(57))
            }),
            (&["second", "first"], "second".to_owned()),
        ];
        for (texts, expected) in cases {
            let title = title_of(texts.iter().copied());
            assert_eq!(title, expected, "{texts:?}");
            assert!(title.chars().count() <= MADE_TITLE, "{texts:?}");
        }
        let wide = "語".repeat(61);
        assert_eq!(title_of([wide.as_str()]), format!("{}…", "語".repeat(59)));
    }

    #[test]
    fn titles_of_clients_have_the_rule_of_names() {
        assert_eq!(check_title(" a ").unwrap().as_str(), "a");
        for bad in ["", " ", "a\nb", &"x".repeat(256)] {
            let refused = check_title(bad).unwrap_err();
            assert_eq!(refused.code, Some(ErrorCode::InvalidRequest), "{bad:?}");
            assert!(refused.message.starts_with("title must"), "{refused}");
        }
    }

    #[test]
    fn states_have_names_and_failures_are_cut() {
        for state in RunState::ALL {
            assert_eq!(RunState::from_name(state.name()), Some(state));
        }
        assert_eq!(RunState::from_name("paused"), None);
        let failed = RunOutcome::Failed { message: "é".repeat(MAX_FAILURE + 1) };
        assert_eq!((failed.state(), failed.failure()), (RunState::Failed, Some("é".repeat(MAX_FAILURE))));
        assert_eq!((RunOutcome::Done.failure(), RunOutcome::Cancelled.state()), (None, RunState::Cancelled));
    }

    #[test]
    fn texts_of_steps_are_cut_between_characters() {
        assert_eq!(cut_step_text("short\0"), "short\u{fffd}");
        assert!(cut_step_text(&"\0".repeat(MAX_STEP_FIELD)).len() <= MAX_STEP_FIELD);
        let long = format!("a{}", "é".repeat(MAX_STEP_FIELD));
        let cut = cut_step_text(&long);
        assert!(cut.len() <= MAX_STEP_FIELD && cut.len() >= MAX_STEP_FIELD - 1);
    }
}
