//! Arguments and results of the tools for templates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// `list_templates`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListTemplates {
    /// catalogue (default): the templates of the service; own: those of the account.
    #[serde(default)]
    pub source: Option<String>,
    /// Number of templates to skip: the next_offset of the previous page.
    #[serde(default)]
    pub offset: Option<u32>,
}

/// A template.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TemplateEntry {
    /// Reference of the template, namespace/name@version.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Status of its build: not_built, building, ready or failed.
    pub status: String,
    /// Description, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Digest of the definition file.
    pub digest: String,
    /// The normalised definition file; only when one template is read, and when it has at most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub definition: Option<Value>,
}

/// Result of `list_templates`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TemplatePage {
    /// Templates, by name and time, without their definition files.
    pub templates: Vec<TemplateEntry>,
    /// Total number of templates.
    pub total: u64,
    /// The offset of the next page; null on the last.
    pub next_offset: Option<u64>,
}

/// Argument of a tool that only needs a template.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OneTemplate {
    /// Reference of the template, namespace/name@version.
    pub template_ref: String,
}
