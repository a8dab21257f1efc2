//! Handler of MCP requests: tools, and the screens of computers as resources.

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, ErrorCode as JsonRpcCode, Implementation, InputRequiredResult, InputResponses,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::answer::{ToolResult, call_result};
use super::confirmation::{self, Consent};
use super::progress::{self, CallPhase};
use super::subscriptions::{self, Subscriptions};
use super::tools::{self, Call, Tool};
use crate::web::origin::Origin;
use crate::web::request_lease;
use crate::{AppState, audit};
use hotdesk_base::ids::AccountId;
use hotdesk_base::keyed_semaphore::Permit;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{Caller, Intent};
use hotdesk_http::edge::RequestId;

mod resources;

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
pub(super) struct McpHandler {
    app: AppState,
    /// Those of the session; a request without one has none.
    subscriptions: Subscriptions,
}

/// A call of a tool, as its client sent it.
struct ToolCall<'a> {
    tool: &'static Tool,
    arguments: Value,
    /// Answers to what the server asked instead of the result of an earlier request.
    answers: Option<InputResponses>,
    parts: &'a Parts,
    context: &'a RequestContext<RoleServer>,
}

/// Outcome of a call.
enum CallOutcome {
    /// The tool ran.
    Done(Box<ToolResult>),
    /// The person has to be asked first.
    Question(InputRequiredResult),
}

/// Error of an unknown method. The name is truncated, because it may be as long as a request.
fn unknown(method: &str) -> ErrorData {
    let named: String = method.chars().take(MAX_METHOD_NAME).collect();
    ErrorData::new(JsonRpcCode::METHOD_NOT_FOUND, format!("unknown method: {named}"), None)
}

/// The HTTP request of a message. Its token was checked and determines its access, also in a session.
fn parts(context: &RequestContext<RoleServer>) -> std::result::Result<&Parts, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    parts.ok_or_else(|| ErrorData::internal_error("a message without a request", None))
}

impl McpHandler {
    /// Creates the server of one request or one session.
    pub(super) fn new(app: AppState) -> Self {
        Self { app, subscriptions: Subscriptions::default() }
    }

    /// Returns the id of a request; empty if it has none.
    pub(super) fn request_id(parts: &Parts) -> &str {
        parts.extensions.get::<RequestId>().map_or("", |RequestId(id)| id)
    }

    /// Returns the context of a call by the sender of a request.
    ///
    /// # Errors
    /// `Internal` when the request was not authenticated.
    pub(super) fn call_of(&self, parts: &Parts, intent: Intent) -> Result<Call> {
        let (Some(caller), Some(origin)) =
            (parts.extensions.get::<Caller>(), parts.extensions.get::<Origin>())
        else {
            return Err(Error::internal("a call without a caller"));
        };
        let caller = Caller { intent, ..caller.clone() };
        let (phase, cancelled) = (CallPhase::default(), CancellationToken::new());
        Ok(Call { app: self.app.clone(), caller, origin: origin.clone(), phase, cancelled })
    }

    /// Takes one of the concurrent calls of the caller's account.
    ///
    /// # Errors
    /// `RateLimited` (`too_many_calls`) when they are all taken.
    pub(super) fn permit(&self, call: &Call) -> Result<Permit<AccountId>> {
        let permit = self.app.mcp.calls.try_acquire(call.caller.account, MAX_CALLS);
        permit.ok_or_else(|| Error::rate_limited(1).code(ErrorCode::TooManyCalls))
    }

    async fn call(&self, wanted: ToolCall<'_>, phase: CallPhase) -> Result<CallOutcome> {
        let ToolCall { tool, arguments, answers, parts, context } = wanted;
        let cancelled = context.ct.clone();
        let call = Call { phase, cancelled, ..self.call_of(parts, tool.intent)? };
        let (caller, name) = (call.caller.clone(), &tool.definition.name);
        let work = async {
            let _permit = self.permit(&call)?;
            let consent = confirmation::obtain(context, parts, &call, name, &arguments, answers).await?;
            if let Consent::Needed(question) = consent {
                audit::record_nothing();
                return Ok(CallOutcome::Question(question));
            }
            if context.ct.is_cancelled() {
                return Err(confirmation::cancelled());
            }
            let result = tool.call(call, arguments).await?;
            Ok(CallOutcome::Done(Box::new(result)))
        };
        // The name is a constant, not client input.
        let route = format!("/mcp tools/call {name}");
        // In a session the task of a call is not the task of its request.
        audit::record_call(&self.app, &caller, parts, &route, request_lease::belonging(work)).await
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let offered = ServerCapabilities::builder().enable_tools().enable_resources();
        let mut config = ServerConfig::new(offered.enable_resources_subscribe().build());
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
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<ListResourcesResult, ErrorData> {
        self.screens(page.and_then(|page| page.cursor), parts(&context)?).await
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<ReadResourceResponse, ErrorData> {
        Ok(self.read_screen(&request.uri, parts(&context)?).await?.into())
    }

    /// Accepts addresses of screens. Access is checked when the subscriptions begin, because the caller is
    /// not known here.
    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let screens = resources::screens_among(requested, subscriptions::MAX_PER_SESSION);
        Some(SubscriptionFilter::builder().resource_subscriptions(screens.into_keys()).build())
    }

    async fn listen(&self, context: SubscriptionContext) -> std::result::Result<(), ErrorData> {
        let parts = parts(context.request_context())?;
        let screens = resources::screens_among(context.accepted(), subscriptions::MAX_PER_SESSION);
        let listening = async {
            let call = self.call_of(parts, Intent::Read)?;
            subscriptions::listen(&call, screens, &context).await
        };
        listening.await.map_err(|error| resources::protocol_error(&error, parts))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<(), ErrorData> {
        let parts = parts(&context)?;
        let (call, computer) = self.screen_call(&request.uri, parts)?;
        let added = self.subscriptions.add(call, request.uri, computer, context.peer.clone()).await;
        added.map_err(|error| resources::protocol_error(&error, parts))
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
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
        let parts = parts(&context)?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let answers = request.input_responses;
        let phase = CallPhase::default();
        let work = self.call(ToolCall { tool, arguments, answers, parts, context: &context }, phase.clone());
        let outcome = progress::reporting(&context, &tool.definition.name, &phase, work).await;
        let outcome = match outcome {
            Ok(CallOutcome::Question(question)) => return Ok(question.into()),
            Ok(CallOutcome::Done(result)) => Ok(*result),
            Err(error) => Err(error),
        };
        Ok(call_result(outcome, Self::request_id(parts)).into())
    }
}
