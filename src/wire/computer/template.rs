//! Published templates and their builds (docs/api/templates.md).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Query of `POST /templates`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PublishQuery {
    /// True to begin the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_build: Option<bool>,
    /// True to replace another document at the reference, if no computer was launched from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// The answer to `POST /templates`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PublishedTemplate {
    /// Reference of the template, `namespace/name@version`.
    #[serde(rename = "ref")]
    #[schema(example = "default/browser-lab@1.0.0")]
    pub reference: String,
    /// `sha256:` and the SHA-256 of the normalised document in hexadecimal digits.
    pub digest: String,
    /// Always true.
    pub published: bool,
    /// `building` when the build was begun, `ready` when there is one already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_build: Option<String>,
}

/// A published template.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Template {
    /// Reference of the template, `namespace/name@version`.
    #[serde(rename = "ref")]
    #[schema(example = "default/browser-lab@1.0.0")]
    pub reference: String,
    /// `sha256:` and the SHA-256 of the normalised document in hexadecimal digits.
    pub digest: String,
    /// Always true.
    pub published: bool,
    /// When it was published, ISO 8601; absent for a template of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at: Option<String>,
    /// Status of its build: `not_built`, `building`, `ready` or `failed`.
    pub status: String,
    /// Path of its picture, which needs no key; absent for a template without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// The normalised document.
    #[schema(value_type = Object)]
    pub template: Value,
}

/// A list of templates.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplateList {
    /// Templates, by name and time.
    pub templates: Vec<Template>,
}

/// The status of a template's build.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplateBuild {
    /// Reference of the template, `namespace/name@version`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Digest of the document.
    pub digest: String,
    /// `not_built`, `building`, `ready` or `failed`.
    pub status: String,
    /// Duration of the build in milliseconds, when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_time_ms: Option<u64>,
    /// True when this request found the template built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<bool>,
    /// Why it failed: phase, field, exit code, and the last lines with the last command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `POST /templates/run`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ref": "default/browser-lab@1.0.0"}))]
#[serde(deny_unknown_fields)]
pub struct RunTemplate {
    /// Reference of the template, `namespace/name@version`.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// A throw-away computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplateRun {
    /// Id of the computer.
    pub id: String,
    /// Same as `id`.
    pub desktop_id: String,
    /// Status of the computer.
    pub status: String,
    /// Password of its screens and sockets.
    pub vnc_password: String,
    /// Host name for connections.
    pub public_host: String,
    /// Resolution of its boot screen, `WIDTHxHEIGHTxDEPTH`.
    pub resolution: String,
    /// When the service deletes it, ISO 8601.
    pub expires_at: String,
}

/// Query of `DELETE /templates/run`.
#[derive(Clone, Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StopRunQuery {
    /// Id of the computer.
    pub id: String,
}

/// A throw-away computer with what a failed build has finished.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplateDebug {
    /// Id of the computer.
    pub id: String,
    /// Name of the computer.
    pub name: String,
    /// When the service deletes it, ISO 8601.
    pub expires_at: String,
    /// Fields of the definition file whose steps are on its disk.
    pub finished: Vec<String>,
    /// The steps that are left, in their order.
    pub steps: Vec<TemplateStep>,
}

/// A step of a build.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplateStep {
    /// The field of the definition file, such as `build.run[0]`.
    pub field: String,
    /// The script, which a build runs as root with `bash -e`.
    pub script: String,
}

/// `POST /templates/{id}/star`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"starred": true}))]
#[serde(deny_unknown_fields)]
pub struct StarTemplate {
    /// False removes the star.
    pub starred: bool,
}

/// Whether a template has a star.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplateStar {
    /// Whether it is starred.
    pub starred: bool,
}

/// `POST /computers/{id}/template`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ref": "default/my-desk@1.0.0", "description": "With my editor and its settings"}))]
#[serde(deny_unknown_fields)]
pub struct SaveTemplate {
    /// Reference of the new template, in the namespace `default`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Description of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// An entry of a build's log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BuildLogEntry {
    /// Time, ISO 8601.
    pub ts: String,
    /// `info`, `success`, `warn` or `error`.
    #[schema(pattern = "^(info|success|warn|error)$")]
    pub level: String,
    /// `publish`, `compile`, `boot`, `install`, `snapshot`, `check`, `record`, `ready`, `cancel` or `timeout`.
    pub phase: String,
    /// The field of the definition file whose step wrote the line, such as `build.run[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// One line of text.
    pub line: String,
}
