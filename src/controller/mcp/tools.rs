//! Which tools are there, and what does each do? Each is its REST twin, called as a function: the same doors, the same limits,
//! the same refusals. Names and arguments are those that such servers have (wire.md 15).

use std::sync::LazyLock;

use axum::Json;
use axum::extract::State;
use futures_util::future::BoxFuture;
use rmcp::handler::server::tool::schema_for_type;
use rmcp::model::ToolAnnotations;
use rmcp::schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{Answer, cut};
use crate::Shared;
use crate::api::desktop::{actions, exec, screenshot};
use crate::api::fleet::{computers, lifecycle, suspension};
use crate::auth::Authenticated;
use crate::origin::Origin;
use hotdesk_domain::access::{Caller, Intent};
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_guest::Acted;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_http::idempotency::IdempotencyKey;
use hotdesk_wire::action::{Click, Key, ScreenQuery, Type};
use hotdesk_wire::computer::{Computer, ListQuery};
use hotdesk_wire::effect::Options;
use hotdesk_wire::exec::Bash;
use hotdesk_wire::screenshot::{ScreenshotBase64, ScreenshotQuery};
use hotdesk_wire::tool::{
    BashRan, ClickAt, ListComputers, OneComputer, PressKey, RunBash, Screenshot, Seen, TypeText,
};

/// Computers in one answer: 50 records are about 50 KB.
const PAGE: u32 = 50;
/// Largest image in bytes: as base64 in a message it stays below 1 MiB, which is what the Python client reads at once.
const MAX_IMAGE: u64 = 700_000;
/// Longest output of a command in bytes, for the same reason: it is in the message twice, and as escapes.
const MAX_OUTPUT: usize = 64 * 1024;

/// Who calls a tool, and where.
pub(super) struct Call {
    pub(super) app: Shared,
    pub(super) caller: Caller,
    pub(super) origin: Origin,
}

type Run = Box<dyn Fn(Call, Value) -> BoxFuture<'static, Result<Answer>> + Send + Sync>;

/// One tool.
pub(super) struct Tool {
    /// What clients are told of it.
    pub(super) told: rmcp::model::Tool,
    /// What using it is.
    pub(super) intent: Intent,
    run: Run,
}

impl Tool {
    /// Uses it.
    ///
    /// # Errors
    /// `Invalid` for arguments that are not its; whatever its REST twin answers.
    pub(super) async fn call(&self, call: Call, arguments: Value) -> Result<Answer> {
        (self.run)(call, arguments).await
    }
}

/// The tool of a name.
pub(super) fn find(name: &str) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.told.name == name)
}

/// What a tool does to the world, as clients are told.
#[derive(Clone, Copy)]
enum Kind {
    /// It looks.
    Look,
    /// It brings a computer into a state, and may be repeated.
    Bring,
    /// The same, and what was in the computer's memory is lost.
    Lose,
    /// It acts, and acts again when repeated, on whatever there is.
    Act,
}

impl Kind {
    fn hints(self) -> ToolAnnotations {
        let (look, lose, repeat, world) = match self {
            Self::Look => (true, false, true, false),
            Self::Bring => (false, false, true, false),
            Self::Lose => (false, true, true, false),
            Self::Act => (false, true, false, true),
        };
        ToolAnnotations::new().read_only(look).destructive(lose).idempotent(repeat).open_world(world)
    }

    fn intent(self) -> Intent {
        match self {
            Self::Look => Intent::Read,
            Self::Bring | Self::Lose | Self::Act => Intent::Change,
        }
    }
}

fn tool<A, F>(name: &'static str, kind: Kind, description: &'static str, run: fn(Call, A) -> F) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = Result<Answer>> + Send + 'static,
{
    let told =
        rmcp::model::Tool::new(name, description, schema_for_type::<A>()).with_annotations(kind.hints());
    let run: Run = Box::new(move |call, arguments| {
        Box::pin(async move {
            let read = serde_json::from_value(arguments);
            let arguments = read.map_err(|error| Error::invalid(format!("invalid arguments: {error}")))?;
            run(call, arguments).await
        })
    });
    Tool { told, intent: kind.intent(), run }
}

/// Every tool, in the order in which they are told.
pub(super) static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        tool(
            "list_computers",
            Kind::Look,
            "The computers of this connection's workspace, oldest first.",
            list_computers,
        ),
        tool("get_computer", Kind::Look, "One computer: its status, size and screen.", get_computer),
        tool(
            "start_computer",
            Kind::Bring,
            "Starts a stopped computer, and wakes a suspended one with its memory. It answers at once; the other tools wait \
             for a computer that is on its way up.",
            start_computer,
        ),
        tool(
            "stop_computer",
            Kind::Lose,
            "Stops a computer. Its disk is kept, what was in its memory is gone.",
            stop_computer,
        ),
        tool(
            "suspend_computer",
            Kind::Bring,
            "Saves a computer's memory and puts it to sleep: windows and programs go on when it wakes.",
            suspend_computer,
        ),
        tool("resume_computer", Kind::Bring, "Wakes a suspended computer.", resume_computer),
        tool(
            "screenshot",
            Kind::Look,
            "What a computer's screen shows, as an image, with its size in pixels and its name (frame).",
            take_screenshot,
        ),
        tool("click", Kind::Act, "Clicks at a point of the screen.", click),
        tool("type", Kind::Act, "Types a text into the window that has the keyboard.", type_text),
        tool("key", Kind::Act, "Presses a key or a combination of keys.", press_key),
        tool(
            "bash",
            Kind::Act,
            "Runs a shell command on a computer and answers its output and exit code.",
            run_bash,
        ),
    ]
});

async fn list_computers(call: Call, asked: ListComputers) -> Result<Answer> {
    let query = ListQuery {
        workspace_id: call.caller.scope.as_ref().map(|(id, _)| id.to_string()),
        status: asked.status,
        name: asked.name,
        limit: Some(PAGE),
        offset: asked.offset,
        ..ListQuery::default()
    };
    let Json(list) =
        computers::list(State(call.app), Authenticated(call.caller), call.origin, Query(query)).await?;
    Answer::of(&json!({"computers": list.computers, "total": list.total, "next_offset": list.next_offset}))
}

async fn get_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<Answer> {
    let Json(computer) =
        computers::get(State(call.app), Authenticated(call.caller), call.origin, Path(computer_id)).await?;
    // A model needs no password, and whatever it reads may be read on.
    Answer::of(&Computer { vnc_password: None, ..computer })
}

async fn start_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<Answer> {
    let Json(answer) =
        lifecycle::start(State(call.app), Authenticated(call.caller), Path(computer_id)).await?;
    Answer::of(&answer)
}

async fn stop_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<Answer> {
    let Json(answer) =
        lifecycle::stop(State(call.app), Authenticated(call.caller), Path(computer_id)).await?;
    Answer::of(&answer)
}

async fn suspend_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<Answer> {
    let (_, Json(answer)) =
        suspension::suspend(State(call.app), Authenticated(call.caller), Path(computer_id)).await?;
    Answer::of(&answer)
}

async fn resume_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<Answer> {
    let (_, Json(answer)) =
        suspension::resume(State(call.app), Authenticated(call.caller), Path(computer_id)).await?;
    Answer::of(&answer)
}

async fn take_screenshot(call: Call, asked: Screenshot) -> Result<Answer> {
    let query = ScreenshotQuery {
        format: Some(asked.format.unwrap_or_else(|| "jpeg".to_owned())),
        scale: asked.scale,
        region: asked.region,
        max_bytes: Some(MAX_IMAGE),
        screen: asked.screen,
        ..ScreenshotQuery::default()
    };
    let computer = call.app.find_computer(&call.caller, &asked.computer_id).await?;
    let guest = call.app.fleet.guest_to_read(&computer).await?;
    let image = screenshot::taken(&guest, &query).await?;
    if image.bytes.len() as u64 > MAX_IMAGE {
        return Err(Error::failed("The computer's agent sent a larger picture than was asked for"));
    }
    let ScreenshotBase64 { image, mime_type, width, height, shown, .. } = screenshot::encoded(&image)?;
    let seen = Seen { width, height, mime_type: mime_type.clone(), shown };
    Ok(Answer::of(&seen)?.with_image(image, mime_type))
}

async fn click(call: Call, asked: ClickAt) -> Result<Answer> {
    let body = Click {
        x: asked.x,
        y: asked.y,
        button: asked.button,
        double: asked.double,
        count: None,
        modifiers: asked.modifiers,
        options: Options { frame: asked.frame, ..Options::default() },
    };
    let (computer, screen) = (Path(asked.computer_id), Query(ScreenQuery { screen: asked.screen }));
    let key = IdempotencyKey(None);
    let Acted { answer: done, .. } =
        actions::click(State(call.app), Authenticated(call.caller), key, computer, screen, Body(body))
            .await?;
    Answer::of(&done)
}

async fn type_text(call: Call, asked: TypeText) -> Result<Answer> {
    let options = Options::default();
    let body = Type { text: asked.text, mode: None, stop_on_focus_change: None, options };
    let (computer, screen) = (Path(asked.computer_id), Query(ScreenQuery { screen: asked.screen }));
    let key = IdempotencyKey(None);
    let Acted { answer: done, .. } =
        actions::type_text(State(call.app), Authenticated(call.caller), key, computer, screen, Body(body))
            .await?;
    Answer::of(&done)
}

async fn press_key(call: Call, asked: PressKey) -> Result<Answer> {
    let body = Key { key: Some(asked.key), repeat: asked.repeat, ..Key::default() };
    let (computer, screen) = (Path(asked.computer_id), Query(ScreenQuery { screen: asked.screen }));
    let key = IdempotencyKey(None);
    let Acted { answer: done, .. } =
        actions::key(State(call.app), Authenticated(call.caller), key, computer, screen, Body(body)).await?;
    Answer::of(&done)
}

async fn run_bash(call: Call, asked: RunBash) -> Result<Answer> {
    let body = Bash { command: asked.command, timeout: asked.timeout, cwd: asked.cwd, ..Bash::default() };
    let (computer, key) = (Path(asked.computer_id), IdempotencyKey(None));
    let Acted { answer: ran, .. } =
        exec::bash(State(call.app), Authenticated(call.caller), key, computer, Body(body)).await?;
    let (output, left_out) = cut(ran.output, MAX_OUTPUT);
    let omitted_bytes = ran.omitted_bytes.saturating_add(left_out);
    let (success, exit_code, timeout) = (ran.success, ran.exit_code, ran.timeout);
    Answer::of(&BashRan { success, exit_code, output, omitted_bytes, timeout })
}
