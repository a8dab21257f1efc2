//! Ends of runs: why a run ended, and what it did until then.

use hotdesk_base::ids::ThreadId;
use hotdesk_domain::desktop::thread::{RunOutcome, WaitingCall};
use hotdesk_domain::error::{Error, Kind};
use hotdesk_model::conversation::{Message, ToolCall, Usage};
use hotdesk_wire::chat::completion::{ChatUsage, PendingCall, PromptTokensDetails, RunSummary};

/// Millionths of a cent in a cent.
const MICROCENTS: f64 = 1_000_000.0;

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EndReason {
    /// The model has finished.
    Done,
    /// The most calls of tools were executed.
    MaxSteps,
    /// A reply had the most tokens.
    MaxTokens,
    /// The run costs more than the request allows.
    MaxCost,
    /// The model refused.
    Refused,
    /// A call waits for the client's confirmation.
    Confirm(ToolCall),
    /// Somebody else held the screen for longer than the run waits.
    ControlHeld,
}

/// End of a run.
#[derive(Debug)]
pub struct RunEnd {
    /// Why it ended.
    pub reason: EndReason,
    /// What it did.
    pub done: RunTotals,
    /// What is left of the client's monthly cap, in micro-dollars.
    pub balance: Option<i64>,
    /// New messages of the conversation.
    pub messages: Vec<Message>,
}

/// What a run did so far.
#[derive(Clone, Copy, Debug)]
pub struct RunTotals {
    /// Its thread.
    pub thread: ThreadId,
    /// Turns of the model.
    pub turns: u32,
    /// Executed calls.
    pub steps: u32,
    /// Tokens of all turns.
    pub usage: Usage,
    /// Cost in millionths of a cent.
    pub microcents: i64,
}

impl EndReason {
    /// `finish_reason` in the OpenAI API.
    pub fn finish_reason(&self) -> &'static str {
        match self {
            Self::Done | Self::Confirm(_) => "stop",
            // The wait is one of the request's bounds.
            Self::MaxSteps | Self::MaxTokens | Self::MaxCost | Self::ControlHeld => "length",
            Self::Refused => "content_filter",
        }
    }

    /// `ended` of the summary.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::MaxSteps => "max_steps",
            Self::MaxTokens => "max_tokens",
            Self::MaxCost => "max_cost",
            Self::Refused => "refused",
            Self::Confirm(_) => "confirm",
            Self::ControlHeld => "control_held",
        }
    }

    /// The outcome that the thread stores. `frame` is the picture that the model saw last.
    pub fn outcome(&self, frame: Option<&str>) -> RunOutcome {
        match self {
            Self::Done => RunOutcome::Done,
            Self::MaxSteps => RunOutcome::MaxSteps,
            Self::MaxTokens => RunOutcome::MaxTokens,
            Self::MaxCost => RunOutcome::MaxCost,
            Self::Refused => RunOutcome::Refused,
            Self::Confirm(call) => {
                RunOutcome::Confirm(WaitingCall { call: call.id.clone(), frame: frame.map(str::to_owned) })
            }
            Self::ControlHeld => RunOutcome::ControlHeld,
        }
    }

    /// Why the model has not finished, for people; `None` when it has.
    pub fn explanation(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::MaxSteps => Some("The run has used all of its steps".to_owned()),
            Self::MaxTokens => Some("A reply of the model was longer than max_tokens".to_owned()),
            Self::MaxCost => Some("The run has cost what it may cost".to_owned()),
            Self::Refused => Some("The model refused the request".to_owned()),
            Self::Confirm(call) => Some(format!("A call of {} waits to be confirmed", call.name)),
            Self::ControlHeld => {
                Some("Somebody else controls the screen; continue the thread when it is free".to_owned())
            }
        }
    }
}

impl RunTotals {
    /// Adds a turn.
    pub fn add(&mut self, usage: &Usage, microcents: i64) {
        let all = &mut self.usage;
        all.input_tokens = all.input_tokens.saturating_add(usage.input_tokens);
        all.output_tokens = all.output_tokens.saturating_add(usage.output_tokens);
        all.cache_read_tokens = all.cache_read_tokens.saturating_add(usage.cache_read_tokens);
        all.cache_write_tokens = all.cache_write_tokens.saturating_add(usage.cache_write_tokens);
        self.microcents = self.microcents.saturating_add(microcents);
    }

    /// Adds to an error what the run had done. After a step the request is not safe to repeat: the error has
    /// no `Retry-After`, and no status that asks for another attempt.
    pub fn explain(&self, error: Error) -> Error {
        let (steps, thread) = (self.steps, self.thread);
        let done = match steps {
            0 => "The run had executed nothing".to_owned(),
            1 => "The run had executed 1 step".to_owned(),
            steps => format!("The run had executed {steps} steps"),
        };
        let message = format!("{}. {done}; see thread {thread}", error.message.trim_end_matches('.'));
        let mut error = Error { message, ..error };
        if steps > 0 {
            error.retry_after = None;
            if error.kind == Kind::RateLimited {
                error.kind = Kind::Unavailable;
            }
        }
        error.text("thread_id", thread.to_string()).number("steps", steps.into())
    }
}

impl RunEnd {
    /// The tokens of the run.
    pub fn usage(&self) -> ChatUsage {
        let usage = &self.done.usage;
        let cached = usage.cache_read_tokens;
        let prompt = usage.input_tokens.saturating_add(cached).saturating_add(usage.cache_write_tokens);
        ChatUsage {
            prompt_tokens: prompt,
            completion_tokens: usage.output_tokens,
            total_tokens: prompt.saturating_add(usage.output_tokens),
            prompt_tokens_details: PromptTokensDetails { cached_tokens: cached },
        }
    }

    /// What the run did, for the client.
    pub fn summary(&self) -> RunSummary {
        let pending = match &self.reason {
            EndReason::Confirm(ToolCall { id, name, input }) => {
                Some(PendingCall { id: id.clone(), name: name.clone(), input: input.clone() })
            }
            EndReason::Done
            | EndReason::MaxSteps
            | EndReason::MaxTokens
            | EndReason::MaxCost
            | EndReason::Refused
            | EndReason::ControlHeld => None,
        };
        RunSummary {
            thread_id: self.done.thread.to_string(),
            steps: self.done.steps,
            cost_cents: self.done.microcents as f64 / MICROCENTS,
            // A cent has 10,000 micro-dollars.
            credit_balance_cents: self.balance.map(|left| left as f64 / 10_000.0),
            ended: self.reason.name().to_owned(),
            pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::error::Field;

    fn totals() -> RunTotals {
        let thread = ThreadId::random();
        RunTotals { thread, turns: 0, steps: 0, usage: Usage::default(), microcents: 0 }
    }

    #[test]
    fn an_error_says_what_the_run_had_done() {
        for (steps, expected) in [
            (0, "No answer. The run had executed nothing; see thread"),
            (1, "No answer. The run had executed 1 step; see thread"),
            (7, "No answer. The run had executed 7 steps; see thread"),
        ] {
            let done = RunTotals { steps, ..totals() };
            let error = done.explain(Error::unavailable("No answer."));
            assert_eq!(error.message, format!("{expected} {}", done.thread));
            let fields = vec![
                ("thread_id", Field::Text(done.thread.to_string())),
                ("steps", Field::Number(steps.into())),
            ];
            assert_eq!(error.fields, fields);
        }
    }

    #[test]
    fn a_failure_after_a_step_does_not_ask_for_another_attempt() {
        for (steps, kind, retry) in [(0, Kind::RateLimited, Some(9)), (1, Kind::Unavailable, None)] {
            let done = RunTotals { steps, ..totals() };
            let error = done.explain(Error::rate_limited(9));
            assert_eq!((error.kind, error.retry_after), (kind, retry), "{steps}");
            let error = done.explain(Error::unavailable("Busy").retry_after(9));
            assert_eq!((error.kind, error.retry_after), (Kind::Unavailable, retry), "{steps}");
        }
    }

    #[test]
    fn the_thread_stores_the_name_of_the_end() {
        let call = ToolCall { id: "1".to_owned(), name: "bash".to_owned(), input: Default::default() };
        for reason in [
            EndReason::Done,
            EndReason::MaxSteps,
            EndReason::MaxTokens,
            EndReason::MaxCost,
            EndReason::Refused,
            EndReason::Confirm(call),
            EndReason::ControlHeld,
        ] {
            assert_eq!(reason.outcome(None).state().name(), reason.name());
        }
    }

    #[test]
    fn tokens_and_costs_of_all_turns_add_up() {
        let mut done = totals();
        let turn =
            Usage { input_tokens: 10, output_tokens: 5, cache_read_tokens: 100, cache_write_tokens: 20 };
        done.add(&turn, 1_500_000);
        done.add(&turn, 250_000);
        let end = RunEnd { reason: EndReason::Done, done, balance: Some(123_456), messages: Vec::new() };
        let usage = end.usage();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (260, 10, 270));
        assert_eq!(usage.prompt_tokens_details.cached_tokens, 200);
        let summary = end.summary();
        assert_eq!((summary.cost_cents, summary.credit_balance_cents), (1.75, Some(12.3456)));
    }
}
