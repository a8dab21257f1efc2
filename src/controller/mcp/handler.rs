//! Handler of MCP requests: lists and calls tools.

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, ErrorCode as JsonRpcCode, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use super::answer::{ToolResult, call_result};
use super::tools::{self, Call, Tool};
use crate::web::origin::Origin;
use crate::web::request_lease;
use crate::{AppState, audit};
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::edge::RequestId;

/// Concurrent tool calls of one account. Calls of a disconnected client continue.
const MAX_CALLS: usize = 32;
/// Characters of a method's name that its refusal repeats: several times the longest name of the protocol.
const MAX_METHOD_NAME: usize = 100;
/// Instructions for models.
const INSTRUCTIONS: &str = "Virtual Linux desktops. \
    Look first (list_computers, screenshot), then act (click, type, key, scroll, bash). \
    Coordinates are screen pixels; if a screenshot is smaller than the screen, quote its frame. \
    A suspended computer resumes when it is used.";

/// Server for one request or one session.
#[derive(Clone)]
pub(super) struct McpHandler(pub(super) AppState);

/// Error of an unknown method. The name is truncated, because it may be as long as a request.
fn unknown(method: &str) -> ErrorData {
    let named: String = method.chars().take(MAX_METHOD_NAME).collect();
    ErrorData::new(JsonRpcCode::METHOD_NOT_FOUND, format!("unknown method: {named}"), None)
}

impl McpHandler {
    async fn call(&self, tool: &Tool, arguments: Value, parts: &Parts) -> Result<ToolResult> {
        let (Some(caller), Some(origin)) =
            (parts.extensions.get::<Caller>(), parts.extensions.get::<Origin>())
        else {
            return Err(Error::internal("a tool call without a caller"));
        };
        let app = &self.0;
        let caller = Caller { intent: tool.intent, ..caller.clone() };
        let call = Call { app: app.clone(), caller: caller.clone(), origin: origin.clone() };
        let work = async {
            let busy = || Error::rate_limited(1).code(ErrorCode::TooManyCalls);
            let _permit = app.mcp.calls.try_acquire(call.caller.account, MAX_CALLS).ok_or_else(busy)?;
            tool.call(call, arguments).await
        };
        // The name is a constant, not client input.
        let route = format!("/mcp tools/call {}", tool.definition.name);
        // In a session the task of a call is not the task of its request.
        audit::record_call(app, &caller, parts, &route, request_lease::belonging(work)).await
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.server_info = Implementation::new("hotdesk", env!("CARGO_PKG_VERSION"));
        config.with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::ALL.iter().map(|tool| tool.definition.clone()).collect()))
    }

    // rmcp responds to undeclared features with empty lists; the protocol has an error for that.
    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<ListPromptsResult, ErrorData> {
        Err(unknown("prompts/list"))
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<ListResourcesResult, ErrorData> {
        Err(unknown("resources/list"))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<ListResourceTemplatesResult, ErrorData> {
        Err(unknown("resources/templates/list"))
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<CompleteResult, ErrorData> {
        Err(unknown("completion/complete"))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<CustomResult, ErrorData> {
        Err(unknown(&request.method))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        tools::find(name).map(|tool| tool.definition.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let tool = tools::find(&request.name)
            .ok_or_else(|| ErrorData::invalid_params("There is no such tool", None))?;
        // The parts are those of each request, also in a session: its token was checked and determines its
        // access.
        let parts = context.extensions.get::<Parts>();
        let parts = parts.ok_or_else(|| ErrorData::internal_error("a tool call without a request", None))?;
        let id = parts.extensions.get::<RequestId>().map_or("", |RequestId(id)| id);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(call_result(self.call(tool, arguments, parts).await, id).into())
    }
}
