//! MCP tools.
//!
//! Each tool calls its REST handler as a function, with the same checks, limits and errors. Names and
//! arguments are those that such servers commonly have (docs/api/mcp.md).

use std::sync::LazyLock;

use axum::Json;
use axum::extract::State;
use futures_util::future::BoxFuture;
use rmcp::handler::server::tool::schema_for_type;
use rmcp::model::ToolAnnotations;
use rmcp::schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{ToolResult, cut};
use crate::AppState;
use crate::api::desktop::actions;
use crate::api::desktop::display::screenshot;
use crate::api::desktop::execution::exec;
use crate::api::fleet::{computers, lifecycle, suspension};
use crate::identity::auth::AuthenticatedCaller;
use crate::web::origin::Origin;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::{Caller, Intent};
use hotdesk_guest::ActionReply;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_http::idempotency::IdempotencyKey;
use hotdesk_wire::computer::{Computer, ComputerListQuery};
use hotdesk_wire::desktop::action::{Action, Click, KeyPress, ScreenQuery, Type};
use hotdesk_wire::desktop::effect::Options;
use hotdesk_wire::desktop::screenshot::{ScreenshotBase64, ScreenshotQuery};
use hotdesk_wire::programs::exec::Bash;
use hotdesk_wire::tool::{
    BashOutput, ClickAt, ListComputers, OneComputer, PressKey, RunBash, Screenshot, ScreenshotInfo, TypeText,
};

/// Computers in one result: 50 records are about 50 KB.
const PAGE: u32 = 50;
/// Largest image in bytes. As base64 in a message it stays below 1 MiB, which the Python client reads at
/// once.
const MAX_IMAGE: u64 = 700_000;
/// Longest output of a command in bytes, for the same reason: it is in the message twice, and escaped.
const MAX_OUTPUT: usize = 64 * 1024;

/// Context of a tool call.
pub(super) struct Call {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) origin: Origin,
}

type ToolFunction = Box<dyn Fn(Call, Value) -> BoxFuture<'static, Result<ToolResult>> + Send + Sync>;

/// One tool.
pub(super) struct Tool {
    /// Its definition for clients.
    pub(super) definition: rmcp::model::Tool,
    /// Whether it reads or changes.
    pub(super) intent: Intent,
    run: ToolFunction,
}

impl Tool {
    /// Calls the tool.
    ///
    /// # Errors
    /// `Invalid` for invalid arguments; the errors of its REST handler.
    pub(super) async fn call(&self, call: Call, arguments: Value) -> Result<ToolResult> {
        (self.run)(call, arguments).await
    }
}

/// Returns the tool with a name.
pub(super) fn find(name: &str) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.definition.name == name)
}

/// Effect of a tool, from which its hints for clients follow.
#[derive(Clone, Copy)]
enum ToolEffect {
    /// It only reads.
    Read,
    /// It brings a computer into a state; repeating it changes nothing.
    Ensure,
    /// The same, but the contents of the computer's memory are lost.
    Discard,
    /// It acts on anything, and acts again when repeated.
    Act,
}

impl ToolEffect {
    fn hints(self) -> ToolAnnotations {
        let (look, lose, repeat, world) = match self {
            Self::Read => (true, false, true, false),
            Self::Ensure => (false, false, true, false),
            Self::Discard => (false, true, true, false),
            Self::Act => (false, true, false, true),
        };
        ToolAnnotations::new().read_only(look).destructive(lose).idempotent(repeat).open_world(world)
    }

    fn intent(self) -> Intent {
        match self {
            Self::Read => Intent::Read,
            Self::Ensure | Self::Discard | Self::Act => Intent::Change,
        }
    }
}

fn tool<A, F>(
    name: &'static str,
    effect: ToolEffect,
    description: &'static str,
    run: fn(Call, A) -> F,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = Result<ToolResult>> + Send + 'static,
{
    let definition =
        rmcp::model::Tool::new(name, description, schema_for_type::<A>()).with_annotations(effect.hints());
    let run: ToolFunction = Box::new(move |call, arguments| {
        Box::pin(async move {
            let read = serde_json::from_value(arguments);
            let arguments = read.map_err(|error| Error::invalid(format!("invalid arguments: {error}")))?;
            run(call, arguments).await
        })
    });
    Tool { definition, intent: effect.intent(), run }
}

/// All tools, in the order of the list.
pub(super) static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        tool(
            "list_computers",
            ToolEffect::Read,
            "Lists the computers of this connection's workspace, oldest first.",
            list_computers,
        ),
        tool(
            "get_computer",
            ToolEffect::Read,
            "Returns one computer: its status, size and screen.",
            get_computer,
        ),
        tool(
            "start_computer",
            ToolEffect::Ensure,
            "Starts a stopped computer, or resumes a suspended one with its memory. It returns immediately; \
             the other tools wait for a computer that is starting.",
            start_computer,
        ),
        tool(
            "stop_computer",
            ToolEffect::Discard,
            "Stops a computer. Its disk stays; the contents of its memory are lost.",
            stop_computer,
        ),
        tool(
            "suspend_computer",
            ToolEffect::Ensure,
            "Suspends a computer and saves its memory: windows and programs continue when it resumes.",
            suspend_computer,
        ),
        tool("resume_computer", ToolEffect::Ensure, "Resumes a suspended computer.", resume_computer),
        tool(
            "screenshot",
            ToolEffect::Read,
            "Takes a screenshot: an image with its size in pixels and its name (frame).",
            take_screenshot,
        ),
        tool("click", ToolEffect::Act, "Clicks at a point of the screen.", click),
        tool("type", ToolEffect::Act, "Types a text into the focused window.", type_text),
        tool("key", ToolEffect::Act, "Presses a key or a combination of keys.", press_key),
        tool(
            "bash",
            ToolEffect::Act,
            "Runs a shell command on a computer and returns its output and exit code.",
            run_bash,
        ),
    ]
});

async fn list_computers(call: Call, arguments: ListComputers) -> Result<ToolResult> {
    let query = ComputerListQuery {
        workspace_id: call.caller.scope.as_ref().map(|(id, _)| id.to_string()),
        status: arguments.status,
        name: arguments.name,
        limit: Some(PAGE),
        offset: arguments.offset,
        ..ComputerListQuery::default()
    };
    let Json(list) =
        computers::list(State(call.app), AuthenticatedCaller(call.caller), call.origin, Query(query)).await?;
    ToolResult::of(
        &json!({"computers": list.computers, "total": list.total, "next_offset": list.next_offset}),
    )
}

async fn get_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let Json(computer) =
        computers::get(State(call.app), AuthenticatedCaller(call.caller), call.origin, Path(computer_id))
            .await?;
    // A model needs no password, and what it reads may be passed on.
    ToolResult::of(&Computer { vnc_password: None, ..computer })
}

async fn start_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let Json(answer) =
        lifecycle::start(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn stop_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let Json(answer) =
        lifecycle::stop(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn suspend_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let (_, Json(answer)) =
        suspension::suspend(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn resume_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let (_, Json(answer)) =
        suspension::resume(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn take_screenshot(call: Call, arguments: Screenshot) -> Result<ToolResult> {
    let query = ScreenshotQuery {
        format: Some(arguments.format.unwrap_or_else(|| "jpeg".to_owned())),
        scale: arguments.scale,
        region: arguments.region,
        max_bytes: Some(MAX_IMAGE),
        screen: arguments.screen,
        ..ScreenshotQuery::default()
    };
    let computer = call.app.directory.find_computer(&call.caller, &arguments.computer_id).await?;
    let guest = call.app.fleet.guest_to_read(&computer).await?;
    let image = screenshot::take(&guest, &query).await?;
    if image.bytes.len() as u64 > MAX_IMAGE {
        return Err(Error::failed("The computer's agent sent a larger image than requested"));
    }
    let ScreenshotBase64 { image, mime_type, width, height, shown, .. } = screenshot::encode_base64(&image)?;
    let seen = ScreenshotInfo { width, height, mime_type: mime_type.clone(), shown };
    Ok(ToolResult::of(&seen)?.with_image(image, mime_type))
}

async fn click(call: Call, arguments: ClickAt) -> Result<ToolResult> {
    let body = Click {
        x: arguments.x,
        y: arguments.y,
        button: arguments.button,
        double: arguments.double,
        count: None,
        modifiers: arguments.modifiers,
        options: Options { frame: arguments.frame, ..Options::default() },
    };
    act(call, arguments.computer_id, arguments.screen, Action::Click(body)).await
}

async fn type_text(call: Call, arguments: TypeText) -> Result<ToolResult> {
    let options = Options::default();
    let body = Type { text: arguments.text, mode: None, stop_on_focus_change: None, options };
    act(call, arguments.computer_id, arguments.screen, Action::Type(body)).await
}

async fn press_key(call: Call, arguments: PressKey) -> Result<ToolResult> {
    let body = KeyPress { key: Some(arguments.key), repeat: arguments.repeat, ..KeyPress::default() };
    act(call, arguments.computer_id, arguments.screen, Action::Key(body)).await
}

/// Performs an action on a screen of a computer.
async fn act(call: Call, computer_id: String, screen: Option<String>, action: Action) -> Result<ToolResult> {
    let (caller, key) = (AuthenticatedCaller(call.caller), IdempotencyKey(None));
    let query = ScreenQuery { screen };
    let ActionReply { answer: done, .. } =
        actions::perform(State(call.app), caller, Path(computer_id), query, action, key).await?;
    ToolResult::of(&done)
}

async fn run_bash(call: Call, arguments: RunBash) -> Result<ToolResult> {
    let body = Bash {
        command: arguments.command,
        timeout: arguments.timeout,
        cwd: arguments.cwd,
        ..Bash::default()
    };
    let (computer, key) = (Path(arguments.computer_id), IdempotencyKey(None));
    let ActionReply { answer: ran, .. } =
        exec::bash(State(call.app), AuthenticatedCaller(call.caller), key, computer, Body(body)).await?;
    let (output, left_out) = cut(ran.output, MAX_OUTPUT);
    let omitted_bytes = ran.omitted_bytes.saturating_add(left_out);
    let (success, exit_code, timeout) = (ran.success, ran.exit_code, ran.timeout);
    ToolResult::of(&BashOutput { success, exit_code, output, omitted_bytes, timeout })
}
