//! `hotdesk chat`: a language model that works on a computer, with its text and its steps as they happen.
//!
//! ```text
//! POST v1/chat/completions {stream}   the text, to standard output
//! GET  chat/threads/ID/steps          the steps, to standard error
//! POST chat/threads/ID/stop           on Ctrl-C
//! ```

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use crate::client::api::{Api, REQUEST_TIMEOUT};
use crate::client::event_stream::EventStream;
use crate::client::interrupts::Interrupts;
use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use crate::{output, read_text};
use hotdesk_wire::chat::completion::{
    ChatCompletionChunk, ChatCompletionRequest, ChatErrorBody, ChatMessage, MessageContent, RunProgress,
    RunSummary,
};
use hotdesk_wire::chat::thread::{ThreadStepPage, ThreadStepRecord, ThreadStopped};

/// Header of an answer with the id of the run's thread.
const THREAD_HEADER: &str = "x-thread-id";
/// Data of the last event of a stream.
const LAST_EVENT: &str = "[DONE]";
/// `ended` of a run that did what it was asked for.
const DONE: &str = "done";
/// Longest line of the stream in bytes. A chunk is a piece of one reply, and a reply has at most 64,000
/// tokens.
const MAX_LINE: usize = 4 * 1024 * 1024;
/// Time between two looks at the steps while the model says nothing. Requests are rate-limited per key.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pause in the text from which on it counts as that of another turn, before which steps may have happened.
const TURN_PAUSE: Duration = Duration::from_millis(250);
/// Steps of one look: the largest page of the API.
const PAGE: &str = "200";
/// Longest text of a step in characters: two lines of a terminal.
const MAX_STEP: usize = 160;
/// Timeout of a stop: the server answers within 5 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// `hotdesk chat`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// What the model should do. `-` reads it from standard input.
    #[arg(required_unless_present = "approve")]
    message: Option<String>,
    /// Thread to continue; default: a new one.
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Model; default: that of the service.
    #[arg(long)]
    model: Option<String>,
    /// Screen id; default: the boot screen.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
    /// Most steps (server default: 100).
    #[arg(long, value_name = "COUNT")]
    max_steps: Option<u32>,
    /// Calls before which the run ends and waits for --approve, separated by commas: `computer`, `bash`, or
    /// an action such as `type`.
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    confirm: Option<Vec<String>>,
    /// Execute the call that the thread waits to have confirmed, and go on.
    #[arg(long, requires = "thread")]
    approve: bool,
    /// Print no steps.
    #[arg(long, short)]
    quiet: bool,
}

/// Sends the message and prints what the model says and does until the run ends. The exit code is 0 when the
/// model has finished, and 1 when the run ended otherwise. With `--json` each line is a chunk of the stream.
///
/// # Errors
/// When the server refuses the request or is unreachable, or the run fails; `Interrupted` on Ctrl-C, which
/// ends the run.
pub async fn run(options: Options, session: &Session) -> Outcome {
    let computer = options.computer.clone();
    // Before signals are handled: a read of standard input blocks this thread.
    let message = options.message.clone().map(read_text).transpose()?;
    let mut interrupts = Interrupts::receive()?;
    let mut chat = ChatRun::new(session, &options);
    let ended = tokio::select! {
        ended = chat.run(options, message) => Some(ended),
        _ = interrupts.next() => None,
    };
    chat.end_line()?;
    match (ended, chat.thread) {
        (Some(Ok(summary)), _) => {
            eprintln!("{}", ending(&summary, &computer));
            Ok(if summary.ended == DONE { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        (Some(Err(failure)), Some(thread)) => {
            eprintln!("{}", continuation(&computer, &thread));
            Err(failure)
        }
        (Some(Err(failure)), None) => Err(failure),
        (None, Some(thread)) => {
            // The end of the connection ends the run, too; the answer to a stop says that it has ended.
            let stopped = match stop(&session.api, &thread).await {
                Ok(true) => "stopped the run".to_owned(),
                Ok(false) => "the run has ended".to_owned(),
                Err(failure) => {
                    format!("the run ends without its client; its stop failed: {}", failure.text())
                }
            };
            Err(Failure::Interrupted(format!("{stopped}. {}", continuation(&computer, &thread))))
        }
        (None, None) => Err(Failure::Interrupted("stopped before the run began".to_owned())),
    }
}

/// A run, and what was printed of it.
struct ChatRun<'a> {
    session: &'a Session,
    /// Thread of the run, once the server has begun it.
    thread: Option<String>,
    /// Number of the last step that is printed or older than the run; `None` to print none.
    last_step: Option<i64>,
    /// When the last text came.
    last_text: Instant,
    /// Whether the text on standard output ends within a line.
    is_in_line: bool,
}

impl<'a> ChatRun<'a> {
    fn new(session: &'a Session, options: &Options) -> Self {
        let last_step = (!options.quiet).then_some(0);
        Self { session, thread: None, last_step, last_text: Instant::now(), is_in_line: false }
    }

    /// Begins the run, and prints it to its end.
    async fn run(&mut self, options: Options, message: Option<String>) -> Outcome<RunSummary> {
        let session = self.session;
        let api = &session.api;
        let computer_id = resolve::computer(api, &options.computer).await?;
        if let (Some(thread), Some(_)) = (&options.thread, self.last_step) {
            self.last_step = Some(last_step(api, thread).await?);
        }
        let message = message
            .map(|text| ChatMessage { role: "user".to_owned(), content: Some(MessageContent::Text(text)) });
        let body = ChatCompletionRequest {
            computer_id,
            messages: message.into_iter().collect(),
            model: options.model,
            stream: Some(true),
            thread_id: options.thread,
            screen: options.screen,
            max_steps: options.max_steps,
            confirm: options.confirm,
            approve: options.approve.then_some(true),
            ..ChatCompletionRequest::default()
        };
        let request = api.request(Method::POST, api.url(&["v1", "chat", "completions"])).json(&body);
        let response = api.stream(request).await?;
        if !response.status().is_success() {
            return Err(api.refusal(response).await);
        }
        let thread = response.headers().get(THREAD_HEADER).and_then(|value| value.to_str().ok());
        self.thread = thread.map(str::to_owned);
        let mut events = EventStream::of(api, response, MAX_LINE);
        let mut summary = None;
        while let Some(data) = self.next_event(&mut events).await? {
            if data == LAST_EVENT {
                self.print_last_steps().await?;
                return summary.ok_or_else(|| "the server did not say how the run ended".into());
            }
            let chunk = chunk(&data)?;
            if self.session.json {
                write(format!("{data}\n").as_bytes())?;
            }
            for choice in chunk.choices {
                self.print_text(&choice.delta.content.unwrap_or_default()).await?;
            }
            if let Some(progress) = chunk.progress {
                self.end_line()?;
                eprintln!("{}", waiting(&progress));
            }
            summary = chunk.orgo.or(summary);
        }
        Err("the server ended the answer before the run".into())
    }

    /// Waits for the next event. Prints the steps that happen meanwhile.
    async fn next_event(&mut self, events: &mut EventStream<'_>) -> Outcome<Option<String>> {
        let mut next = pin!(events.next_data());
        loop {
            tokio::select! {
                data = &mut next => return data,
                () = tokio::time::sleep(POLL_INTERVAL) => self.print_steps().await?,
            }
        }
    }

    /// Prints text of the model, without control characters, which could change the terminal.
    async fn print_text(&mut self, text: &str) -> Outcome<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.last_text.elapsed() >= TURN_PAUSE {
            self.print_steps().await?;
        }
        self.last_text = Instant::now();
        if self.session.json {
            return Ok(());
        }
        self.is_in_line = !text.ends_with('\n');
        let shown = text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "");
        write(shown.as_bytes())
    }

    /// Prints the steps since the last look. Without an answer it prints none: the next look asks again.
    async fn print_steps(&mut self) -> Outcome<()> {
        let (Some(thread), Some(last)) = (&self.thread, self.last_step) else { return Ok(()) };
        match steps(&self.session.api, thread, last).await {
            Ok(page) => self.print_page(&page),
            Err(_) => Ok(()),
        }
    }

    /// Prints all steps that are left at the end of the run.
    async fn print_last_steps(&mut self) -> Outcome<()> {
        while let (Some(thread), Some(last)) = (&self.thread, self.last_step) {
            match steps(&self.session.api, thread, last).await {
                Ok(page) => {
                    self.print_page(&page)?;
                    if page.next_cursor.is_none() || page.steps.is_empty() {
                        break;
                    }
                }
                Err(failure) => {
                    eprintln!("hotdesk: the last steps are missing: {}", failure.text());
                    break;
                }
            }
        }
        Ok(())
    }

    fn print_page(&mut self, page: &ThreadStepPage) -> Outcome<()> {
        // On a terminal both streams share the line.
        if !page.steps.is_empty() && io::stdout().is_terminal() {
            self.end_line()?;
        }
        for step in &page.steps {
            eprintln!("{}", step_line(step));
            self.last_step = Some(step.number);
        }
        Ok(())
    }

    /// Ends the line of the text, if it is within one.
    fn end_line(&mut self) -> Outcome<()> {
        if !std::mem::take(&mut self.is_in_line) {
            return Ok(());
        }
        write(b"\n")
    }
}

/// Writes to standard output.
///
/// # Errors
/// When the write fails, or the reader has gone: then the run ends, too.
fn write(content: &[u8]) -> Outcome<()> {
    if output::stream(content)? { Ok(()) } else { Err("the reader of standard output has gone".into()) }
}

/// Parses an event of the stream.
///
/// # Errors
/// When the run failed, or the event has another shape.
fn chunk(data: &str) -> Outcome<ChatCompletionChunk> {
    serde_json::from_str(data).map_err(|error| match serde_json::from_str::<ChatErrorBody>(data) {
        Ok(ChatErrorBody { error, .. }) => {
            format!("the run failed: {} ({}, request {})", error.message, error.code, error.request_id).into()
        }
        Err(_) => format!("cannot parse an event of the server: {error}").into(),
    })
}

/// Asks for the steps of a thread behind a number.
async fn steps(api: &Api, thread: &str, last: i64) -> Outcome<ThreadStepPage> {
    let cursor = last.to_string();
    let query = [("cursor", cursor.as_str()), ("limit", PAGE)];
    api.get(&["chat", "threads", thread, "steps"], &query, REQUEST_TIMEOUT).await?.decode()
}

/// Returns the number of the last step of a thread; 0 without one.
async fn last_step(api: &Api, thread: &str) -> Outcome<i64> {
    let mut last = 0;
    loop {
        let page = steps(api, thread, last).await?;
        last = page.steps.last().map_or(last, |step| step.number);
        if page.next_cursor.is_none() || page.steps.is_empty() {
            return Ok(last);
        }
    }
}

/// Ends the run of a thread, and returns whether there was one.
async fn stop(api: &Api, thread: &str) -> Outcome<bool> {
    let path = ["chat", "threads", thread, "stop"];
    let stopped: ThreadStopped = api.call(Method::POST, &path, None::<&()>, STOP_TIMEOUT).await?.decode()?;
    Ok(stopped.stopped)
}

/// A step on one line: its number, the call, and why it failed.
fn step_line(step: &ThreadStepRecord) -> String {
    let failed = if step.is_error { format!("  failed: {}", step.result) } else { String::new() };
    let line = format!("[{}] {}{failed}", step.number, call(&step.call.name, &step.call.input));
    bounded(&line)
}

/// A call in words: the action or the command first, then the other arguments.
fn call(tool: &str, input: &Value) -> String {
    let Some(arguments) = input.as_object() else { return format!("{tool} {input}") };
    let mut words = vec![tool.to_owned()];
    words.extend(
        ["action", "command"].iter().filter_map(|name| Some(arguments.get(*name)?.as_str()?.to_owned())),
    );
    let others = arguments
        .iter()
        .filter(|(name, value)| !(["action", "command"].contains(&name.as_str()) && value.is_string()));
    words.extend(others.map(|(name, value)| format!("{name}={value}")));
    words.join(" ")
}

/// Text without control characters, cut to [`MAX_STEP`] characters.
fn bounded(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let shown: String = characters.by_ref().take(MAX_STEP).collect();
    if characters.next().is_some() { format!("{shown}...") } else { shown }
}

/// What a run waits for.
fn waiting(progress: &RunProgress) -> String {
    let holder = progress.holder.as_ref().map(|holder| match &holder.id {
        Some(id) => format!(" ({} {id})", holder.kind),
        None => format!(" ({})", holder.kind),
    });
    bounded(&match (progress.waiting_for.as_deref(), &progress.message) {
        (None, _) => "The run goes on.".to_owned(),
        (Some("help"), Some(message)) => format!("The model asks for help: {message}"),
        (Some("control"), _) => {
            format!("The run waits: somebody else controls the screen{}.", holder.unwrap_or_default())
        }
        (Some(other), _) => format!("The run waits for {other}."),
    })
}

/// How a run ended, and the command that continues it.
fn ending(summary: &RunSummary, computer: &str) -> String {
    let RunSummary { thread_id, steps, cost_cents, ended, pending, .. } = summary;
    let next = continuation(computer, thread_id);
    match pending {
        Some(pending) => {
            let (call, computer) = (bounded(&call(&pending.name, &pending.input)), quoted(computer));
            format!("To confirm {call}: hotdesk chat {computer} --thread {thread_id} --approve\n{next}")
        }
        None => format!("Ended: {ended}, steps: {steps}, cost: {cost_cents:.2} cents. {next}"),
    }
}

/// The command that continues a thread.
fn continuation(computer: &str, thread: &str) -> String {
    format!("To continue: hotdesk chat {} --thread {thread} TEXT", quoted(computer))
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "-_.".contains(character);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_told_with_its_action_first() {
        for (tool, input, expected) in [
            (
                "computer",
                json!({"action": "left_click", "coordinate": [10, 20]}),
                "computer left_click coordinate=[10,20]",
            ),
            ("computer", json!({"action": "type", "text": "a b"}), "computer type text=\"a b\""),
            ("bash", json!({"command": "ls -l"}), "bash ls -l"),
            ("bash", json!({"command": 7}), "bash command=7"),
            ("computer", json!({}), "computer"),
            ("computer", json!("x"), "computer \"x\""),
        ] {
            assert_eq!(call(tool, &input), expected);
        }
    }

    #[test]
    fn a_step_is_one_bounded_line() {
        assert_eq!(bounded("a\n\x1b[2Jb"), "a  [2Jb");
        let long = bounded(&"ü".repeat(MAX_STEP + 1));
        assert_eq!((long.chars().count(), long.ends_with("ü...")), (MAX_STEP + 3, true));
        assert_eq!(bounded(&"x".repeat(MAX_STEP)).len(), MAX_STEP);
    }

    #[test]
    fn a_name_is_one_word_of_the_shell() {
        for (name, expected) in [("c1", "c1"), ("first light", "'first light'"), ("a'b", r"'a'\''b'")] {
            assert_eq!(quoted(name), expected);
        }
    }

    #[test]
    fn a_failure_within_the_stream_is_told() {
        let failed = json!({"error": {"type": "api_error", "message": "no model", "code": "model_unavailable",
            "request_id": "r1", "steps": 2}});
        let failure = chunk(&failed.to_string()).unwrap_err();
        assert_eq!(failure.text(), "the run failed: no model (model_unavailable, request r1)");
        assert!(chunk("{}").unwrap_err().text().starts_with("cannot parse"));
    }
}
