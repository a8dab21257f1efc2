//! MCP tools: their definitions and their registry.
//!
//! Each tool calls its REST handler as a function, with the same checks, limits and errors. Names and
//! arguments are those that such servers commonly have (docs/api/mcp.md).

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use rmcp::handler::server::tool::schema_for_type;
use rmcp::model::ToolAnnotations;
use rmcp::schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::ToolResult;
use crate::AppState;
use crate::web::origin::Origin;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::{Caller, Intent};

mod computers;
mod desktop;
mod execution;
mod files;

/// Longest text in a result, in bytes. The Python client reads at most 1 MiB at once, and a text is in the
/// message twice, and escaped.
const MAX_TEXT: usize = 64 * 1024;

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
    /// The same, but something is lost.
    Discard,
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
            Self::Create => (false, false, false, false),
            Self::Act => (false, true, false, true),
        };
        ToolAnnotations::new().read_only(look).destructive(lose).idempotent(repeat).open_world(world)
    }

    fn intent(self) -> Intent {
        match self {
            Self::Read => Intent::Read,
            Self::Ensure | Self::Discard | Self::Create | Self::Act => Intent::Change,
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
    let mut schema = (*schema_for_type::<A>()).clone();
    // A tool without arguments has no properties, and clients expect the field.
    schema.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    let definition = rmcp::model::Tool::new(name, description, schema).with_annotations(effect.hints());
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
    [computers::tools(), desktop::tools(), execution::tools(), files::tools()].into_iter().flatten().collect()
});
