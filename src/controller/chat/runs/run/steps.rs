//! Steps of a run: the calls of a turn are executed, recorded and answered.

use std::time::Instant;

use super::{InFlight, Run, TurnRecord};
use crate::chat::runs::executor::{CallExecution, CallResult};
use crate::chat::runs::outcome::EndReason;
use crate::chat::runs::reporter::RunEvent;
use crate::chat::threads::NewStep;
use hotdesk_domain::error::{Error, Result};
use hotdesk_model::conversation::{COMPUTER, Content, Message, Role, ToolCall, ToolResult};

/// Result of a call after one that failed in the same turn: its coordinates or its target may be wrong now.
const SKIPPED: &str = "This call was not executed, because an earlier call of your turn failed.";
/// Result of a call after a wait for a person.
pub(super) const CHANGED: &str =
    "This call was not executed, because a person may have changed the screen since your turn.";
/// Result of a call beyond the last step.
const NO_STEPS: &str = "This call was not executed, because the run has used all of its steps.";
/// Result of a call in progress when a run ended.
const INTERRUPTED: &str = "The run ended while this call was executed. It may have had its effect.";
/// Result of a call that waited for a person when a run ended.
const WAITED: &str = "The run ended while this call waited for a person.";

/// How a run goes on after a step.
pub(super) enum AfterStep {
    /// With the next call of the turn.
    GoOn,
    /// With the next turn: the other calls of this one are skipped, with this result.
    SkipRest(&'static str),
    /// It ends.
    End(EndReason),
}

impl Run {
    /// Executes the calls of a turn. Returns why the run ends, if it does. With `is_confirmed` the first call
    /// needs no confirmation.
    pub(super) async fn perform(
        &mut self,
        calls: Vec<ToolCall>,
        is_confirmed: bool,
    ) -> Result<Option<EndReason>> {
        // Commands show nothing, so the last action of the turn does.
        let last_look = calls.iter().rposition(|call| call.name == COMPUTER);
        let mut calls = calls.into_iter().enumerate();
        while let Some((at, call)) = calls.next() {
            if self.needs_confirmation(&call) && !(is_confirmed && at == 0) {
                return Ok(Some(EndReason::Confirm(call)));
            }
            if self.done.steps >= self.plan.limits.steps {
                self.skip(call, NO_STEPS).await?;
                for (_, call) in calls {
                    self.skip(call, NO_STEPS).await?;
                }
                return Ok(Some(EndReason::MaxSteps));
            }
            let why = match self.step(call, at == 0, last_look == Some(at)).await? {
                AfterStep::GoOn => continue,
                AfterStep::SkipRest(why) => why,
                AfterStep::End(reason) => {
                    for (_, call) in calls {
                        self.skip(call, SKIPPED).await?;
                    }
                    return Ok(Some(reason));
                }
            };
            for (_, call) in calls {
                self.skip(call, why).await?;
            }
            return Ok(None);
        }
        Ok(None)
    }

    fn needs_confirmation(&self, call: &ToolCall) -> bool {
        let action = call.input["action"].as_str().filter(|_| call.name == COMPUTER);
        self.plan.confirm.iter().any(|name| *name == call.name || Some(name.as_str()) == action)
    }

    /// Executes a call and records it, after a wait for a person if it needs one.
    async fn step(&mut self, call: ToolCall, is_first: bool, wants_picture: bool) -> Result<AfterStep> {
        self.parts.reporter.send(RunEvent::Call(call.clone())).await;
        let started = Instant::now();
        self.in_flight = Some(InFlight::Executing(call.clone(), started));
        // When it fails, what came of the call is unknown: it is recorded as interrupted.
        let executed = self.parts.executor.execute(&call, is_first, wants_picture).await?;
        let (result, after) = match executed {
            CallExecution::Done(result) if result.is_error && call.name == COMPUTER => {
                (result, AfterStep::SkipRest(SKIPPED))
            }
            CallExecution::Done(result) => (result, AfterStep::GoOn),
            CallExecution::Held => {
                self.in_flight = Some(InFlight::Waiting(call.clone(), started));
                self.wait_for_control().await?
            }
            CallExecution::HelpWanted(message) => {
                self.in_flight = Some(InFlight::Waiting(call.clone(), started));
                self.wait_for_help(message).await?
            }
        };
        self.record(call, result, started).await?;
        Ok(after)
    }

    /// Records a step, and adds its result to the conversation.
    async fn record(&mut self, call: ToolCall, result: CallResult, started: Instant) -> Result<()> {
        self.done.steps += 1;
        let TurnRecord { text, usage, microcents } = std::mem::take(&mut self.turn);
        let step = NewStep {
            call: call.clone(),
            text,
            result: result.text.clone(),
            is_error: result.is_error,
            action: Some(call.input),
            effect: result.effect,
            screenshot: result.image.clone(),
            usage,
            cost_microcents: microcents,
            took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        let CallResult { text, is_error, image, .. } = result;
        let answer = ToolResult { call: call.id, text, image, is_error };
        let (threads, thread) = (self.parts.services.threads.clone(), self.done.thread);
        let recording = self
            .parts
            .services
            .tasks
            .spawn("record of a step", async move { threads.record_step(thread, step).await });
        self.in_flight = Some(InFlight::Recording(recording, answer));
        self.finish_recording().await
    }

    /// Waits until the executed call is recorded, and adds its result to the conversation.
    async fn finish_recording(&mut self) -> Result<()> {
        let Some(InFlight::Recording(recording, _)) = &mut self.in_flight else { return Ok(()) };
        let recorded = recording.await;
        let Some(InFlight::Recording(_, answer)) = self.in_flight.take() else { return Ok(()) };
        match recorded {
            Ok(Some(recorded)) => {
                let _number = recorded?;
            }
            Ok(None) => return Err(Error::internal("the record of a step panicked")),
            Err(error) => return Err(Error::internal(error)),
        }
        self.answer(answer).await
    }

    async fn skip(&mut self, call: ToolCall, why: &str) -> Result<()> {
        self.answer(ToolResult { call: call.id, text: why.to_owned(), image: None, is_error: true }).await
    }

    async fn answer(&mut self, result: ToolResult) -> Result<()> {
        self.conversation.add_user([Content::ToolResult(result.clone())]);
        self.store(Message { role: Role::User, content: vec![Content::ToolResult(result)] }).await
    }

    /// Stores a new message of the conversation.
    pub(super) async fn store(&mut self, message: Message) -> Result<()> {
        self.parts.services.threads.append(self.done.thread, &message).await?;
        self.added.push(without_pictures(message));
        Ok(())
    }

    /// Records the call that was executed or recorded when the run ended.
    pub(super) async fn record_interruption(&mut self) -> Result<()> {
        let (call, started, text) = match self.in_flight.take() {
            None => return Ok(()),
            Some(InFlight::Executing(call, started)) => (call, started, INTERRUPTED),
            Some(InFlight::Waiting(call, started)) => (call, started, WAITED),
            Some(recording @ InFlight::Recording(..)) => {
                self.in_flight = Some(recording);
                return self.finish_recording().await;
            }
        };
        self.record(call, CallResult::failed(text), started).await
    }
}

/// A message as a client gets it.
fn without_pictures(message: Message) -> Message {
    let bare = |part| match part {
        Content::Image(_) => None,
        Content::ToolResult(result) => Some(Content::ToolResult(ToolResult { image: None, ..result })),
        Content::Text { .. }
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::ToolCall(_) => Some(part),
    };
    Message { role: message.role, content: message.content.into_iter().filter_map(bare).collect() }
}
