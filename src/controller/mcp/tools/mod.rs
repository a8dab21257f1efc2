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
use serde_json::Value;
use utoipa::ToSchema;

use super::answer::ToolResult;
use super::output_schema::output_schema;
use crate::AppState;
use crate::web::origin::Origin;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::{Caller, Intent};

mod computers;
mod desktop;
mod elements;
mod execution;
mod files;
mod lifecycle;
mod snapshots;
mod stored_files;
mod templates;
mod threads;
mod workspaces;

pub(super) use desktop::screen_image;

/// Longest text in a result, in bytes. The Python client reads at most 1 MiB at once, and a text is in the
/// message twice, and escaped.
const MAX_TEXT: usize = 64 * 1024;

/// Context of a tool call.
pub(super) struct Call {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) origin: Origin,
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
    /// The same, but something is lost.
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
    let mut schema = (*schema_for_type::<A>()).clone();
    // A tool without arguments has no properties, and clients expect the field.
    schema.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    let mut definition = rmcp::model::Tool::new(name, description, schema).with_annotations(effect.hints());
    definition.output_schema = Some(Arc::new(output_schema::<R>()));
    let run: ToolFunction = Box::new(move |call, arguments| {
        Box::pin(async move {
            let read = serde_json::from_value(arguments);
            let arguments = read.map_err(|error| Error::invalid(format!("invalid arguments: {error}")))?;
            run(call, arguments).await?.serialized()
        })
    });
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
        execution::tools(),
        files::tools(),
        stored_files::tools(),
        threads::tools(),
    ]
    .into_iter()
    .flatten()
    .collect()
});
