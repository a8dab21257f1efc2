//! Tools for chat threads and runs of models.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::State;
use serde_json::{Value, json};

use super::{Call, MAX_TEXT, Tool, ToolEffect, tool};
use crate::api::chat::threads;
use crate::chat::runs::RunRequest;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::{ToolResult, cut};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::extract::{Path, Query};
use hotdesk_wire::chat::completion::{ChatCompletionRequest, ChatMessage, MessageContent};
use hotdesk_wire::chat::thread::{
    ThreadListQuery, ThreadMessage, ThreadStepPage, ThreadStepQuery, ThreadStepRecord,
};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::tool::threads::{
    ListThreads, OneThread, StartRun, StartedRun, StepsOfThread, ThreadPage, ThreadWithMessages,
};

/// Threads in one result: 50 are about 25 KB.
const PAGE: usize = 50;
/// Steps in one result, each with up to five texts of [`MAX_STEP_TEXT`]: about 200 KB.
const STEPS_PAGE: u32 = 10;
/// Longest text of a step in a result, in bytes.
const MAX_STEP_TEXT: usize = 4096;
/// Longest page of the REST twin in bytes: all steps of a thread have at most 8 MiB, and JSON escapes them.
const MAX_STEPS_BODY: usize = 64 * 1024 * 1024;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "list_threads",
            ToolEffect::Read,
            "Lists the chat threads of a computer, the last changed first, without their messages.",
            list_threads,
        ),
        tool(
            "get_thread",
            ToolEffect::Read,
            "Returns a chat thread with its newest messages, the state of its last run, and why it failed.",
            get_thread,
        ),
        tool(
            "thread_steps",
            ToolEffect::Read,
            "Lists the steps of a chat thread: calls of tools, their results, and links to the screen after each.",
            thread_steps,
        ),
        tool(
            "delete_thread",
            ToolEffect::Discard,
            "Deletes a chat thread with its messages, steps and pictures. A run that writes to it fails. This \
             cannot be undone.",
            delete_thread,
        ),
        tool(
            "run_agent",
            ToolEffect::Act,
            "Lets a language model work on a computer until it has done what the prompt says. It returns when \
             the run has started; wait_for_run waits for its end and returns what the model said.",
            run_agent,
        ),
    ]
}

async fn list_threads(call: Call, arguments: ListThreads) -> Result<ToolResult<ThreadPage>> {
    let ListThreads { computer_id, offset } = arguments;
    let query = ThreadListQuery { desktop_id: None, computer_id: Some(computer_id) };
    let Json(list) = threads::list(State(call.app), AuthenticatedCaller(call.caller), Query(query)).await?;
    let (offset, total) = (offset.unwrap_or(0) as usize, list.threads.len());
    let mut threads: Vec<_> = list.threads.into_iter().skip(offset).take(PAGE).collect();
    threads.iter_mut().for_each(|thread| thread.messages.clear());
    let next = offset.saturating_add(threads.len());
    let next_offset = (next < total && !threads.is_empty()).then_some(next as u64);
    Ok(ToolResult::of(ThreadPage { threads, total: total as u64, next_offset }))
}

async fn get_thread(
    call: Call,
    OneThread { thread_id }: OneThread,
) -> Result<ToolResult<ThreadWithMessages>> {
    Ok(ToolResult::of(read_thread(call, thread_id).await?))
}

/// Reads a thread with its newest messages.
///
/// # Errors
/// Those of `GET /chat/threads/{id}`.
pub(super) async fn read_thread(call: Call, thread_id: String) -> Result<ThreadWithMessages> {
    let caller = AuthenticatedCaller(call.caller);
    let Json(mut thread) = threads::read(State(call.app), caller, Path(thread_id)).await?;
    let all = thread.messages.len();
    thread.messages = newest(thread.messages);
    let omitted_messages = (all - thread.messages.len()) as u64;
    Ok(ThreadWithMessages { thread, omitted_messages })
}

/// The newest messages, oldest first, of at most [`MAX_TEXT`] bytes.
fn newest(messages: Vec<ThreadMessage>) -> Vec<ThreadMessage> {
    let mut left = MAX_TEXT;
    let kept = messages.into_iter().rev().map_while(|message| {
        // Texts are not empty, so that only the newest one finds all the room.
        let is_first = left == MAX_TEXT;
        let content = if is_first { cut(message.content, MAX_TEXT).0 } else { message.content };
        left = left.checked_sub(content.len()).or(is_first.then_some(0))?;
        Some(ThreadMessage { content, ..message })
    });
    let mut kept: Vec<_> = kept.collect();
    kept.reverse();
    kept
}

async fn thread_steps(call: Call, arguments: StepsOfThread) -> Result<ToolResult<ThreadStepPage>> {
    let StepsOfThread { thread_id, cursor } = arguments;
    let query = Query(ThreadStepQuery { cursor, limit: Some(STEPS_PAGE) });
    let caller = AuthenticatedCaller(call.caller);
    let listed = threads::steps(State(call.app), caller, call.origin, Path(thread_id), query).await?;
    let body = to_bytes(listed.into_body(), MAX_STEPS_BODY).await.map_err(Error::internal)?;
    let ThreadStepPage { steps, next_cursor } = serde_json::from_slice(&body).map_err(Error::internal)?;
    let steps = steps.into_iter().map(short_step).collect();
    Ok(ToolResult::of(ThreadStepPage { steps, next_cursor }))
}

/// A step without the middle of its texts and without its large values.
fn short_step(mut step: ThreadStepRecord) -> ThreadStepRecord {
    step.text = step.text.map(|text| cut(text, MAX_STEP_TEXT).0);
    step.result = cut(step.result, MAX_STEP_TEXT).0;
    step.call.input = short_value(step.call.input);
    step.action = step.action.map(short_value);
    step.effect = step.effect.map(short_value);
    step
}

/// A value, or what the REST API has in place of a large one.
fn short_value(value: Value) -> Value {
    let bytes = value.to_string().len();
    if bytes <= MAX_STEP_TEXT { value } else { json!({"omitted_bytes": bytes}) }
}

async fn delete_thread(
    call: Call,
    OneThread { thread_id }: OneThread,
) -> Result<ToolResult<Acknowledgement>> {
    let caller = AuthenticatedCaller(call.caller);
    let Json(answer) = threads::remove(State(call.app), caller, Path(thread_id)).await?;
    Ok(ToolResult::of(answer))
}

/// Starts a run in the background: clients give up calls long before most runs end.
async fn run_agent(call: Call, arguments: StartRun) -> Result<ToolResult<StartedRun>> {
    let StartRun { computer_id, prompt, thread_id, model, max_steps } = arguments;
    let prompt = ChatMessage { role: "user".to_owned(), content: Some(MessageContent::Text(prompt)) };
    let wanted = ChatCompletionRequest {
        computer_id,
        messages: vec![prompt],
        model,
        thread_id,
        max_steps,
        background: Some(true),
        ..ChatCompletionRequest::default()
    };
    let run = call.app.runs.start(&call.caller, RunRequest::from_completion(wanted, None)?).await?;
    Ok(ToolResult::of(StartedRun { thread_id: run.thread.to_string(), model: run.model.clone() }))
}

#[cfg(test)]
mod tests {
    use hotdesk_wire::chat::thread::ThreadRole;

    use super::*;

    #[test]
    fn the_newest_messages_are_kept() {
        let message = |bytes| ThreadMessage { role: ThreadRole::User, content: "x".repeat(bytes) };
        let lengths = |sizes: &[usize]| {
            let kept = newest(sizes.iter().map(|bytes| message(*bytes)).collect());
            kept.iter().map(|message| message.content.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1, 2]), [1, 2]);
        assert_eq!(lengths(&[1, MAX_TEXT, 3]), [3], "no gap between messages");
        let long = lengths(&[1, 2 * MAX_TEXT]);
        assert!(long.len() == 1 && long[0] < MAX_TEXT + 100, "the last one is cut: {long:?}");
    }

    #[test]
    fn a_large_value_is_left_out() {
        assert_eq!(short_value(json!({"a": 1})), json!({"a": 1}));
        let bytes = MAX_STEP_TEXT + 2;
        assert_eq!(short_value("x".repeat(MAX_STEP_TEXT).into()), json!({"omitted_bytes": bytes}));
    }
}
