//! The loop of a run: a turn of the model, its calls, their results, and again.
//!
//! ```text
//! begin -> [confirmed call] -> turn -> calls? -- none --> done
//!                               ^        | each: confirmed? steps left? -> execute -> record
//!                               '--------'
//!                                    somebody controls the screen: waits
//! ```
//! Each message and each result is stored when it is there, so that the thread of a killed controller says what
//! was done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::RunServices;
use super::accounting::{ClientAccount, exhausted};
use super::back_end;
use super::conversation::{Conversation, calls};
use super::executor::Executor;
use super::outcome::{EndReason, RunEnd, RunTotals};
use super::registry::ActiveRuns;
use super::reporter::{Reporter, RunEvent};
use super::request::{AllowedTools, RunLimits};
use super::tools;
use crate::chat::threads::RunOutcome;
use crate::web::request_lease::RequestLease;
use hotdesk_base::ids::ThreadId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_model::catalog::ModelHandle;
use hotdesk_model::conversation::{
    Content, Delta, Message, ModelReply, ModelRequest, Role, StopReason, ToolCall, ToolResult, Usage,
};

mod steps;
mod waits;

/// Longest wait for the release of buttons, and for the client of a run that ends with the controller. Both
/// are less than the controller waits for its tasks.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait for the client to take the last event. A client that reads at all takes it in less.
const LAST_EVENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a token in a reply that breaks off: what a token of an English text has on average. Back ends
/// tell the number at the end alone.
const TOKEN_BYTES: u64 = 4;
/// Size of pictures that a model is told before the first one.
const DEFAULT_SIZE: (u32, u32) = (1280, 720);

/// What a run should do.
pub struct RunPlan {
    /// Instructions of hotdesk and of the client.
    pub instructions: String,
    /// New messages, which are not stored yet.
    pub new: Vec<Message>,
    /// Calls of an earlier run that are executed first; the first one is confirmed. The conversation does not
    /// have the new messages then.
    pub approved: Vec<ToolCall>,
    /// Bounds.
    pub limits: RunLimits,
    /// Tools that the model may use.
    pub allowed: AllowedTools,
    /// Tools and actions before which the run ends.
    pub confirm: Vec<String>,
}

/// What a run works with.
pub struct RunParts {
    /// Services of the controller.
    pub services: RunServices,
    /// Runs in progress, which say what each waits for.
    pub active: ActiveRuns,
    /// Leases on the credential and the memberships of the caller.
    pub lease: Arc<RequestLease>,
    /// Execution of calls.
    pub executor: Executor,
    /// The model.
    pub model: ModelHandle,
    /// Whom its cost is counted for.
    pub account: ClientAccount,
    /// The client.
    pub reporter: Reporter,
}

/// A run in progress.
pub struct Run {
    plan: RunPlan,
    parts: RunParts,
    conversation: Conversation,
    done: RunTotals,
    /// New messages of the conversation, without pictures.
    added: Vec<Message>,
    /// What the next recorded step begins with.
    turn: TurnRecord,
    /// Call that is being executed or recorded.
    in_flight: Option<InFlight>,
    /// Turn whose cost is not counted yet.
    uncounted: Option<UncountedTurn>,
    /// Requests for help so far.
    helps: u32,
}

/// A call that the thread does not have yet.
enum InFlight {
    /// It is being executed.
    Executing(ToolCall, Instant),
    /// It waits for a person.
    Waiting(ToolCall, Instant),
    /// It was executed, and a task that nothing cancels records it.
    Recording(JoinHandle<Option<Result<i64>>>, ToolResult),
}

/// A turn of the model from its request until its cost is counted.
struct UncountedTurn {
    /// Id of its cost, so that it is counted once.
    entry: String,
    /// Tokens so far, as the back end told them.
    usage: Usage,
    /// Bytes of the reply so far, from which its tokens are estimated when it breaks off.
    passed: u64,
    /// Whether the reply is complete, and `usage` with it.
    is_complete: bool,
    /// Whether the totals of the run have it.
    is_added: bool,
}

/// Part of a turn that its first step records.
#[derive(Debug, Default)]
struct TurnRecord {
    text: Option<String>,
    usage: Usage,
    microcents: i64,
}

/// How a run ended.
enum EndCause {
    Finished(EndReason),
    Failed(Error),
    Cancelled,
    Stopped,
}

impl Run {
    /// Prepares a run of a thread.
    pub fn new(thread: ThreadId, conversation: Conversation, plan: RunPlan, parts: RunParts) -> Self {
        let done = RunTotals { thread, turns: 0, steps: 0, usage: Usage::default(), microcents: 0 };
        Self {
            plan,
            parts,
            conversation,
            done,
            added: Vec::new(),
            turn: TurnRecord::default(),
            in_flight: None,
            uncounted: None,
            helps: 0,
        }
    }

    /// Runs to the end. `release` gives the screen to the next run; it is called before the client knows of
    /// the end.
    pub async fn execute(
        mut self,
        cancel: CancellationToken,
        stopping: CancellationToken,
        release: impl FnOnce(),
    ) {
        let lease = Arc::clone(&self.parts.lease);
        let ending = tokio::select! {
            biased;
            () = stopping.cancelled() => EndCause::Stopped,
            () = cancel.cancelled() => EndCause::Cancelled,
            error = lease.lost() => EndCause::Failed(error),
            worked = self.work() => worked.map_or_else(EndCause::Failed, EndCause::Finished),
        };
        // A computer that does not answer releases the buttons by itself.
        let _late = tokio::time::timeout(END_TIMEOUT, self.parts.executor.release()).await;
        if let Err(error) = self.record_interruption().await {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not record an interrupted step of a run"
            );
        }
        // The back end bills a turn whose reply was dropped, too.
        if let Err(error) = self.count_turn().await {
            tracing::warn!(error = format_args!("{error:#}"), "could not count the cost of a turn");
        }
        let outcome = self.outcome(&ending);
        let RunTotals { thread, usage, microcents, .. } = self.done;
        if let Err(error) = self.parts.services.threads.finish(thread, outcome, &usage, microcents).await {
            // A sweep marks the thread as interrupted.
            tracing::warn!(error = format_args!("{error:#}"), "could not record the end of a run");
        }
        let event = self.last_event(ending).await;
        release();
        let last_moment = async {
            stopping.cancelled().await;
            tokio::time::sleep(END_TIMEOUT).await;
        };
        tokio::select! {
            () = self.parts.reporter.send(event) => {}
            () = last_moment => {}
            () = tokio::time::sleep(LAST_EVENT_TIMEOUT) => {}
        }
    }

    fn outcome(&self, ending: &EndCause) -> RunOutcome {
        match ending {
            EndCause::Finished(reason) => reason.outcome(self.parts.executor.frame_id()),
            EndCause::Failed(error) => RunOutcome::Failed { message: error.message.clone() },
            EndCause::Cancelled => RunOutcome::Cancelled,
            EndCause::Stopped => RunOutcome::Interrupted,
        }
    }

    async fn last_event(&mut self, ending: EndCause) -> RunEvent {
        let reason = match ending {
            EndCause::Finished(reason) => reason,
            EndCause::Failed(error) => return RunEvent::Failed(Box::new(self.done.explain(error))),
            EndCause::Stopped => return RunEvent::Failed(Box::new(self.done.explain(stopped()))),
            EndCause::Cancelled => {
                let cancelled = Error::conflict("The run was cancelled");
                return RunEvent::Failed(Box::new(self.done.explain(cancelled)));
            }
        };
        let balance = self.parts.account.balance().await.unwrap_or_else(|error| {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not read what is left of a client's cap"
            );
            None
        });
        let messages = std::mem::take(&mut self.added);
        RunEvent::Ended(Box::new(RunEnd { reason, done: self.done, balance, messages }))
    }

    async fn work(&mut self) -> Result<EndReason> {
        self.parts.services.threads.begin(self.done.thread).await?;
        let approved = std::mem::take(&mut self.plan.approved);
        let is_confirmed = !approved.is_empty();
        let ended = if is_confirmed { self.perform(approved, true).await? } else { None };
        // A further call that waits has to stay the last of its thread.
        if !matches!(ended, Some(EndReason::Confirm(_))) {
            for message in std::mem::take(&mut self.plan.new) {
                if is_confirmed {
                    self.conversation.add(message.clone());
                }
                self.store(message).await?;
            }
        }
        if let Some(end) = ended {
            return Ok(end);
        }
        loop {
            if self.plan.limits.microcents.is_some_and(|most| self.done.microcents >= most) {
                return Ok(EndReason::MaxCost);
            }
            self.parts.account.check().await?;
            let reply = self.ask().await?;
            let may_go_on = self.count_turn().await?;
            if !reply.content.is_empty() {
                let message = Message { role: Role::Assistant, content: reply.content.clone() };
                self.conversation.add(message.clone());
                self.store(message).await?;
            }
            let called = calls(&reply.content);
            match reply.stop {
                StopReason::MaxTokens => return Ok(EndReason::MaxTokens),
                StopReason::Refusal => return Ok(EndReason::Refused),
                StopReason::EndTurn | StopReason::ToolCalls => {}
            }
            if called.is_empty() {
                return Ok(EndReason::Done);
            }
            if !may_go_on {
                return Err(exhausted());
            }
            if let Some(end) = self.perform(called, false).await? {
                return Ok(end);
            }
        }
    }

    /// Counts the cost of the last turn, as far as its tokens are known. Returns whether the client may go
    /// on.
    async fn count_turn(&mut self) -> Result<bool> {
        let Some(turn) = &mut self.uncounted else { return Ok(true) };
        let mut usage = turn.usage;
        if !turn.is_complete {
            usage.output_tokens = usage.output_tokens.max(turn.passed / TOKEN_BYTES);
        }
        let cost = self.parts.model.model.prices.cost(&usage);
        let microcents = i64::try_from(cost).unwrap_or(i64::MAX);
        if !turn.is_added {
            turn.is_added = true;
            self.done.add(&usage, microcents);
        }
        let may_go_on = self.parts.account.charge(self.done.thread, &turn.entry, microcents).await?;
        self.uncounted = None;
        Ok(may_go_on)
    }

    /// Asks the model for a turn.
    async fn ask(&mut self) -> Result<ModelReply> {
        self.done.turns += 1;
        self.parts.reporter.turn(self.done.turns).await;
        self.conversation.remove_old_screenshots();
        let entry = format!("run {}", Uuid::new_v4());
        let turn =
            UncountedTurn { entry, usage: Usage::default(), passed: 0, is_complete: false, is_added: false };
        let turn = self.uncounted.insert(turn);
        let RunParts { executor, model, reporter, .. } = &mut self.parts;
        let (width, height) = executor.frame().map_or(DEFAULT_SIZE, |frame| (frame.width, frame.height));
        let request = ModelRequest {
            model: model.model.upstream.clone(),
            system: self.plan.instructions.clone(),
            messages: std::mem::take(&mut self.conversation.messages),
            tools: tools::tools(self.plan.allowed, width, height),
            max_tokens: self.plan.limits.tokens,
            thinking_budget: self.plan.limits.thinking,
        };
        let mut report = |delta: Delta| {
            match &delta {
                Delta::Usage(usage) => turn.usage = *usage,
                Delta::Text(text) | Delta::Thinking(text) => turn.passed += text.len() as u64,
            }
            reporter.delta(delta);
        };
        let asked = model.backend.reply(&request, &mut report).await;
        self.conversation.messages = request.messages;
        let steps = self.done.steps;
        let reply = asked.map_err(|error| back_end::failure(&error, steps))?;
        (turn.usage, turn.is_complete) = (reply.usage, true);
        let cost = self.parts.model.model.prices.cost(&reply.usage);
        let microcents = i64::try_from(cost).unwrap_or(i64::MAX);
        self.turn = TurnRecord { text: text_of(&reply.content), usage: reply.usage, microcents };
        Ok(reply)
    }
}

/// The error of a run that ends with the controller.
fn stopped() -> Error {
    Error::unavailable("The service was stopped during the run")
}

/// The text of a reply; `None` when it has none.
fn text_of(content: &[Content]) -> Option<String> {
    let text = |part: &Content| match part {
        Content::Text { text } => Some(text.clone()),
        Content::Image(_)
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::ToolCall(_)
        | Content::ToolResult(_) => None,
    };
    let texts: Vec<String> = content.iter().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
