//! MCP tools: their definitions and their registry.
//!
//! Each tool calls its REST handler as a function, with the same checks, limits and errors. Names and
//! arguments are those that such servers commonly have (docs/api/mcp.md).

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use rmcp::handler::server::tool::schema_for_type;
use rmcp::model::ToolAnnotations;
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::answer::ToolResult;
use super::output_schema::output_schema;
use super::progress::CallPhase;
use crate::AppState;
use crate::web::origin::Origin;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::{Caller, Intent};

mod computers;
mod control;
mod desktop;
mod doctor;
mod elements;
mod execution;
mod files;
mod lifecycle;
mod snapshots;
mod stored_files;
mod templates;
mod threads;
mod waiting;
mod workspaces;

pub(super) use desktop::screen_image;

/// Longest text in a result, in bytes. The Python client reads at most 1 MiB at once, and a text is in the
/// message twice, and escaped.
const MAX_TEXT: usize = 64 * 1024;

/// Context of a tool call; cheap to clone.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) origin: Origin,
    /// What the tool works on now, for people.
    pub(super) phase: CallPhase,
    /// Ends when the client cancels the call. Only a wait ends with it: other work continues.
    pub(super) cancelled: CancellationToken,
}

impl Call {
    /// Returns the requested workspace, or the only one that the credential can access.
    ///
    /// # Errors
    /// `Invalid` when there is neither.
    fn workspace_id(&self, requested: Option<String>) -> Result<String> {
        let own = self.caller.scope.as_ref().map(|(id, _)| id.to_string());
        requested.or(own).ok_or_else(|| {
            Error::invalid(
                "workspace_id is missing: this key reaches several workspaces; list_workspaces has their ids",
            )
        })
    }
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
    /// It brings a computer, a file or another thing into a state, but something is lost.
    Discard,
    /// It interrupts what runs, and does so again when repeated.
    Interrupt,
    /// It makes something new each time.
    Create,
    /// It acts on anything, and acts again when repeated.
    Act,
}

impl ToolEffect {
    fn hints(self) -> ToolAnnotations {
        let (look, lose, repeat, world) = match self {
            Self::Read => (true, false, true, false),
            Self::Ensure => (false, false, true, false),
            Self::Discard => (false, true, true, false),
            Self::Interrupt => (false, true, false, false),
            Self::Create => (false, false, false, false),
            Self::Act => (false, true, false, true),
        };
        ToolAnnotations::new().read_only(look).destructive(lose).idempotent(repeat).open_world(world)
    }

    fn intent(self) -> Intent {
        match self {
            Self::Read => Intent::Read,
            Self::Ensure | Self::Discard | Self::Interrupt | Self::Create | Self::Act => Intent::Change,
        }
    }
}

fn tool<A, R, F>(
    name: &'static str,
    effect: ToolEffect,
    description: &'static str,
    run: fn(Call, A) -> F,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + ToSchema + 'static,
    F: Future<Output = Result<ToolResult<R>>> + Send + 'static,
{
    let run: ToolFunction = Box::new(move |call, arguments| {
        Box::pin(async move {
            let read = serde_json::from_value(arguments);
            let arguments = read.map_err(|error| Error::invalid(format!("invalid arguments: {error}")))?;
            run(call, arguments).await?.serialized()
        })
    });
    define(name, effect, description, (*schema_for_type::<A>()).clone(), output_schema::<R>(), run)
}

/// Returns a tool with these schemas. It is no part of [`tool`], whose code exists for each tool.
fn define(
    name: &'static str,
    effect: ToolEffect,
    description: &'static str,
    mut arguments: Map<String, Value>,
    result: Map<String, Value>,
    run: ToolFunction,
) -> Tool {
    // A tool without arguments has no properties, and clients expect the field.
    arguments.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    let mut definition =
        rmcp::model::Tool::new(name, description, arguments).with_annotations(effect.hints());
    definition.output_schema = Some(Arc::new(result));
    Tool { definition, intent: effect.intent(), run }
}

/// All tools, in the order of the list.
pub(super) static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    [
        workspaces::tools(),
        computers::tools(),
        lifecycle::tools(),
        snapshots::tools(),
        templates::tools(),
        desktop::tools(),
        elements::tools(),
        control::tools(),
        execution::tools(),
        files::tools(),
        stored_files::tools(),
        threads::tools(),
        waiting::tools(),
        doctor::tools(),
    ]
    .into_iter()
    .flatten()
    .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Hints of a tool: read-only, destructive, idempotent, open-world.
    type Hints = [bool; 4];

    /// The hints of every tool. They are promises to clients, which ask a person by them or not.
    const HINTS: [(&str, Hints); 67] = [
        ("list_workspaces", READS),
        ("get_workspace", READS),
        ("workspace_by_name", READS),
        ("create_workspace", ADDS),
        ("delete_workspace", LOSES),
        ("list_computers", READS),
        ("get_computer", READS),
        ("create_computer", ADDS),
        ("clone_computer", ADDS),
        ("fork_computer", ADDS),
        ("move_computer", REPEATS),
        ("resize_computer", LOSES),
        ("delete_computer", LOSES),
        ("list_screens", READS),
        ("create_screen", ADDS),
        ("delete_screen", LOSES),
        ("start_computer", REPEATS),
        ("stop_computer", LOSES),
        ("restart_computer", LOSES_AGAIN),
        ("ensure_running", REPEATS),
        ("suspend_computer", REPEATS),
        ("resume_computer", REPEATS),
        ("list_snapshots", READS),
        ("create_snapshot", ADDS),
        ("launch_snapshot", ADDS),
        ("rollback", LOSES),
        ("delete_snapshot", LOSES),
        ("list_templates", READS),
        ("get_template", READS),
        ("template_status", READS),
        ("build_template", REPEATS),
        ("cancel_build", LOSES),
        ("screenshot", READS),
        ("click", ACTS),
        ("move", ACTS),
        ("drag", ACTS),
        ("scroll", ACTS),
        ("type", ACTS),
        ("key", ACTS),
        ("wait", READS),
        ("get_timeline", READS),
        ("list_elements", READS),
        ("marked_screenshot", READS),
        ("click_element", ACTS),
        ("set_element_value", ACTS),
        ("focus_element", ACTS),
        ("get_control", READS),
        ("take_control", REPEATS),
        ("hand_back_control", REPEATS),
        ("answer_help", ADDS),
        ("bash", ACTS),
        ("exec", ACTS),
        ("list_files", READS),
        ("read_file", READS),
        ("write_file", LOSES),
        ("list_workspace_files", READS),
        ("upload_file", ADDS),
        ("export_file", ADDS),
        ("download_file", READS),
        ("list_threads", READS),
        ("get_thread", READS),
        ("thread_steps", READS),
        ("delete_thread", LOSES),
        ("run_agent", ACTS),
        ("wait_for_build", READS),
        ("wait_for_run", READS),
        ("doctor", READS),
    ];
    const READS: Hints = [true, false, true, false];
    const ADDS: Hints = [false, false, false, false];
    const REPEATS: Hints = [false, false, true, false];
    const LOSES: Hints = [false, true, true, false];
    const LOSES_AGAIN: Hints = [false, true, false, false];
    const ACTS: Hints = [false, true, false, true];

    #[test]
    fn every_tool_has_its_hints() {
        let found = ALL.iter().map(|tool| {
            let hints = tool.definition.annotations.as_ref().unwrap();
            let hints =
                [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint];
            (&*tool.definition.name, hints.map(Option::unwrap))
        });
        assert_eq!(found.collect::<Vec<_>>(), HINTS);
        for tool in ALL.iter() {
            let is_read = tool.definition.annotations.as_ref().unwrap().read_only_hint == Some(true);
            assert_eq!(is_read, tool.intent == Intent::Read, "{}", tool.definition.name);
        }
    }
}
