//! Tools for templates. `create_computer` launches one.

use axum::Json;
use axum::extract::State;

use super::{Call, MAX_TEXT, Tool, ToolEffect, tool};
use crate::api::templates::{builds, published};
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::check_account_wide;
use hotdesk_http::extract::Path;
use hotdesk_wire::computer::template::{Template, TemplateBuild};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::tool::templates::{ListTemplates, OneTemplate, TemplateEntry, TemplatePage};

/// Templates in one result: 100 are about 40 KB.
const PAGE: usize = 100;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "list_templates",
            ToolEffect::Read,
            "Lists templates from which create_computer launches computers: those of the service, or the \
             account's own.",
            list_templates,
        ),
        tool("get_template", ToolEffect::Read, "Returns a template with its definition file.", get_template),
        tool(
            "template_status",
            ToolEffect::Read,
            "Returns the status of a template's build.",
            template_status,
        ),
        tool(
            "build_template",
            ToolEffect::Ensure,
            "Begins the build of a template. It returns immediately; wait_for_build waits for the end.",
            build_template,
        ),
        tool(
            "cancel_build",
            ToolEffect::Discard,
            "Cancels the build of a template, and returns when nothing of it is left.",
            cancel_build,
        ),
    ]
}

async fn list_templates(call: Call, arguments: ListTemplates) -> Result<ToolResult<TemplatePage>> {
    let caller = AuthenticatedCaller(call.caller.clone());
    let Json(list) = match arguments.source.as_deref().unwrap_or("catalogue") {
        "catalogue" => published::global(State(call.app), caller).await?,
        "own" => {
            check_account_wide(&call.caller, OWN_TEMPLATES)?;
            published::list(State(call.app), caller).await?
        }
        _ => return Err(Error::invalid("source must be catalogue or own")),
    };
    let offset = arguments.offset.unwrap_or(0) as usize;
    let total = list.templates.len();
    let page = list.templates.into_iter().skip(offset).take(PAGE);
    let templates: Vec<TemplateEntry> = page.map(|template| entry(template, false)).collect();
    let next = offset.saturating_add(templates.len());
    let next_offset = (next < total && !templates.is_empty()).then_some(next as u64);
    Ok(ToolResult::of(TemplatePage { templates, total: total as u64, next_offset }))
}

/// The entry of a template, with its definition file if that is requested and short.
fn entry(template: Template, with_definition: bool) -> TemplateEntry {
    let description = template.template.pointer("/template/description").and_then(|text| text.as_str());
    let description = description.map(str::to_owned);
    let is_short = || template.template.to_string().len() <= MAX_TEXT;
    TemplateEntry {
        reference: template.reference,
        status: template.status,
        description,
        digest: template.digest,
        definition: (with_definition && is_short()).then_some(template.template),
    }
}

/// What a caller of one workspace may not do (A13, docs/authentication-rules.md).
const OWN_TEMPLATES: &str = "use templates of the account";

/// Parses a reference of a template that the caller may read: of the service, or of its account.
///
/// # Errors
/// `Invalid` for any other text; `Forbidden` (`workspace_scope_mismatch`) for a template of the account and a
/// caller of one workspace.
pub(super) fn reference(call: &Call, text: &str) -> Result<TemplateRef> {
    let wrong = || Error::invalid("template_ref must have the form namespace/name@version");
    let reference = TemplateRef::parse(text).ok_or_else(wrong)?;
    if !reference.is_system() {
        check_account_wide(&call.caller, OWN_TEMPLATES)?;
    }
    Ok(reference)
}

/// Parts of a reference, as the path of its REST routes has them.
///
/// # Errors
/// Those of [`reference`].
fn path(call: &Call, text: &str) -> Result<Path<(String, String, String)>> {
    let TemplateRef { namespace, name, version } = reference(call, text)?;
    Ok(Path((namespace, name, version)))
}

async fn get_template(
    call: Call,
    OneTemplate { template_ref }: OneTemplate,
) -> Result<ToolResult<TemplateEntry>> {
    let path = path(&call, &template_ref)?;
    let caller = AuthenticatedCaller(call.caller);
    let Json(template) = published::get(State(call.app), caller, path).await?;
    Ok(ToolResult::of(entry(template, true)))
}

async fn template_status(
    call: Call,
    OneTemplate { template_ref }: OneTemplate,
) -> Result<ToolResult<TemplateBuild>> {
    let path = path(&call, &template_ref)?;
    let caller = AuthenticatedCaller(call.caller);
    let Json(build) = builds::status(State(call.app), caller, path).await?;
    Ok(ToolResult::of(build))
}

async fn build_template(
    call: Call,
    OneTemplate { template_ref }: OneTemplate,
) -> Result<ToolResult<TemplateBuild>> {
    let path = path(&call, &template_ref)?;
    let caller = AuthenticatedCaller(call.caller);
    let Json(build) = builds::begin(State(call.app), caller, path).await?;
    Ok(ToolResult::of(build))
}

async fn cancel_build(
    call: Call,
    OneTemplate { template_ref }: OneTemplate,
) -> Result<ToolResult<Acknowledgement>> {
    let path = path(&call, &template_ref)?;
    let caller = AuthenticatedCaller(call.caller);
    let Json(answer) = builds::cancel(State(call.app), caller, path).await?;
    Ok(ToolResult::of(answer))
}
