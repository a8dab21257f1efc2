//! What is said to a client that asks what there is and wants something done?

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, ErrorCode, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use super::answer::{Answer, told};
use super::tools::{self, Call, Tool};
use crate::auth::grounds;
use crate::origin::Origin;
use crate::{Shared, audit};
use hotdesk_domain::access::Caller;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::edge::RequestId;

/// Tools that one account uses at once: a client that goes away leaves those that it began at work.
const MAX_CALLS: usize = 32;
/// Characters of a method's name that its refusal repeats: several times the longest that the protocol has.
const MAX_NAMED: usize = 100;
/// What a model is told beforehand.
const INSTRUCTIONS: &str = "Virtual Linux desktops. Look first (list_computers, screenshot), then act (click, type, key, bash). \
    Coordinates are screen pixels; if a screenshot is smaller than the screen, quote its frame. A computer that sleeps wakes \
    when it is used.";

/// The server, for one request or one session.
#[derive(Clone)]
pub(super) struct Desk(pub(super) Shared);

/// The refusal of what is no method here. What the client wrote is cut: it may be as long as a request.
fn unknown(method: &str) -> ErrorData {
    let named: String = method.chars().take(MAX_NAMED).collect();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method: {named}"), None)
}

impl Desk {
    async fn call(&self, tool: &Tool, arguments: Value, parts: &Parts) -> Result<Answer> {
        let (Some(caller), Some(origin)) =
            (parts.extensions.get::<Caller>(), parts.extensions.get::<Origin>())
        else {
            return Err(Error::internal("a tool is called by nobody"));
        };
        let app = &self.0;
        let caller = Caller { intent: tool.intent, ..caller.clone() };
        let call = Call { app: app.clone(), caller: caller.clone(), origin: origin.clone() };
        let work = async {
            let busy = || Error::rate_limited(1).code("too_many_calls");
            let _seat = app.mcp.calls.admit(call.caller.account, MAX_CALLS).ok_or_else(busy)?;
            tool.call(call, arguments).await
        };
        // A name of ours: nothing that the client wrote.
        let route = format!("/mcp tools/call {}", tool.told.name);
        // In a session its task is not the request's.
        audit::call(app.clone(), &caller, parts, &route, grounds::belonging(work)).await
    }
}

impl ServerHandler for Desk {
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
        Ok(ListToolsResult::with_all_items(tools::ALL.iter().map(|tool| tool.told.clone()).collect()))
    }

    // The crate answers empty lists to whoever asks for what was not declared; the protocol knows a word for that.
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
        tools::find(name).map(|tool| tool.told.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let tool = tools::find(&request.name)
            .ok_or_else(|| ErrorData::invalid_params("There is no such tool", None))?;
        // Of each request, in a session too: its token was looked at, and says what it may.
        let parts = context.extensions.get::<Parts>();
        let parts = parts.ok_or_else(|| ErrorData::internal_error("a tool is called by no request", None))?;
        let id = parts.extensions.get::<RequestId>().map_or("", |RequestId(id)| id);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(told(self.call(tool, arguments, parts).await, id).into())
    }
}
