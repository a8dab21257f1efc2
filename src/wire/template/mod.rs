//! Definition files of templates: types, validation, digest and JSON Schema (docs/templates.md).
//!
//! ```text
//! text -> document (a tree with positions) -> readers (every error) -> TemplateDefinition -> digest
//! ```
//!
//! The rules of single values are in `hotdesk_domain::computer::template`.

use std::collections::BTreeMap;

use hotdesk_base::hex::hex;
use hotdesk_domain::computer::template::bounds::{MAX_DOCUMENT_BYTES, MAX_SCRIPT_BYTES, MAX_STEPS};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, RuleResult, quoted};
use hotdesk_domain::computer::template::path::BY_URL;
use hotdesk_domain::computer::template::{TemplateRef, name, network};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

mod answer;
mod application;
mod choice;
mod document;
mod environment;
mod expansion;
mod hardware;
pub mod health;
mod reader;
mod runtime;
mod schema;
mod software;
#[cfg(test)]
mod tests;
pub mod trigger;

pub use answer::{InvalidTemplate, TemplateError, ValidTemplate};
pub use application::{PortProtocol, Service, TemplateApp, TemplatePort};
pub use choice::Choice;
pub use environment::{Environment, TextOrSecret};
pub use expansion::TemplateValues;
pub use hardware::TemplateHardware;
pub use reader::FileTexts;
pub use runtime::{Hooks, Telemetry, TemplateStream, TemplateTerminal};
pub use schema::schema;
pub use software::{FileMoment, TemplateFile};

use answer::Position;
use choice::choices;
use environment::TemplateSecret;
use reader::{FieldReader, ObjectReader, Scope};
use runtime::TemplateEgress;
use software::BuildSteps;
use trigger::Trigger;

choices! {
    /// Version of the definition file. Both names mean the same.
    ApiVersion {
        /// hotdesk's own name.
        Hotdesk = "hotdesk/v1",
        /// The name that clients of the public service write.
        Orgo = "orgo.ai/v1",
    }
}

/// A definition file, normalised: shorthands are written out, and each value has one form.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateDefinition {
    /// Version of the definition file.
    pub api_version: ApiVersion,
    /// Name and version of the template, and where it comes from.
    pub template: TemplateMetadata,
    /// Hardware of the computers.
    #[serde(default)]
    pub hardware: TemplateHardware,
    /// Secrets that the computers get from the vault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub secrets: Vec<TemplateSecret>,
    /// Variables: `${var.NAME}` in other texts is replaced by their value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::variables")]
    pub vars: BTreeMap<String, String>,
    /// Environment variables of every program of the template.
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    pub env: Environment,
    /// Name of an imported image that takes the place of the guest image's files. The desktop is installed on top of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::KEBAB))]
    pub base: Option<String>,
    /// Software that is installed, and steps that are run, when the template is built.
    #[serde(default, skip_serializing_if = "is_default")]
    pub build: BuildSteps,
    /// Files that the template puts into the computer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub files: Vec<TemplateFile>,
    /// Programs with their services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub apps: Vec<TemplateApp>,
    /// Events that are watched, and the actions on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub triggers: Vec<Trigger>,
    /// Terminals that are there when a person opens one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub terminal: Vec<TemplateTerminal>,
    /// Scripts that run at moments of a computer's life.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hooks: Hooks,
    /// Measurements that a computer reports about itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub telemetry: Telemetry,
    /// Which destinations a computer reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_policy: Option<TemplateEgress>,
    /// Servers that the screen is streamed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub streaming: Vec<TemplateStream>,
}

/// Name and version of a template, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateMetadata {
    /// Name in kebab case.
    #[schemars(regex(pattern = schema::KEBAB))]
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// Purpose of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who publishes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Licence, for example an SPDX expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// URL of its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// URL of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl TemplateDefinition {
    /// The reference that the template has when it is published.
    pub fn reference(&self) -> TemplateRef {
        TemplateRef::own(&self.template.name, &self.template.version)
    }

    /// `sha256:` and the SHA-256 of the normalised document: JSON without white space, its keys sorted. Documents of
    /// both API versions have one digest when the rest is equal.
    pub fn digest(&self) -> String {
        let canonical = Self { api_version: ApiVersion::Hotdesk, ..self.clone() };
        // `Value` sorts the keys.
        let text = serde_json::json!(canonical).to_string();
        format!("sha256:{}", hex(&Sha256::digest(text)))
    }
}

/// Reads a definition file, which is YAML or JSON.
///
/// # Errors
/// Every error of the document, in its order: at most 101, of which the last says that there are more. A text that is
/// no YAML has one.
pub fn validate(document: &[u8]) -> Result<TemplateDefinition, Vec<TemplateError>> {
    read_document(document, None)
}

/// Reads a definition file as [`validate`], with the files beside it, which become texts of the definition (`inline`).
///
/// # Errors
/// Those of [`validate`], and those of `files`.
pub fn validate_with_files(
    document: &[u8],
    files: FileTexts,
) -> Result<TemplateDefinition, Vec<TemplateError>> {
    read_document(document, Some(files))
}

fn read_document(
    document: &[u8],
    files: Option<FileTexts>,
) -> Result<TemplateDefinition, Vec<TemplateError>> {
    let refusal = |fault| vec![TemplateError::new("", Position::START, fault)];
    let too_large = |more: &str| {
        let message = format!("the document must have at most {MAX_DOCUMENT_BYTES} bytes{more}");
        refusal(Fault::new(FaultCode::TooLarge, message).hint(format!("for large files {BY_URL}")))
    };
    if document.len() > MAX_DOCUMENT_BYTES {
        return Err(too_large(""));
    }
    let text = std::str::from_utf8(document).map_err(|error| {
        let line = 1 + document[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        refusal(Fault::new(FaultCode::Syntax, format!("the document is not UTF-8 in line {line}")))
    })?;
    let (root, errors) = document::read(text).map_err(|error| vec![error])?;
    let scope = Scope::with(errors, files);
    let definition = FieldReader::root(&root, &scope).object(|object| read(object, &scope));
    let definition = match (definition, scope.finish()) {
        (Some(definition), errors) if errors.is_empty() => definition,
        (_, errors) => return Err(errors),
    };
    // It is stored so, and read again as a document. A control character of a text may have six bytes in it.
    let length = serde_json::json!(definition).to_string().len();
    if length > MAX_DOCUMENT_BYTES {
        return Err(too_large(&format!(" as normalised JSON, not {length}")));
    }
    Ok(definition)
}

fn read(object: &ObjectReader<'_>, scope: &Scope) -> Option<TemplateDefinition> {
    let api_version = object.need("api_version", FieldReader::choice);
    let template = read_metadata(object);
    let hardware = read_hardware(object);
    let secrets = object.get("secrets").map(|field| environment::read_secrets(&field)).unwrap_or_default();
    // Texts of the other sections refer to these.
    let vars = object.get("vars").map(|field| environment::read_variables(&field)).unwrap_or_default();
    scope.define_variables(vars.clone());
    let (env, literals) = object.get("env").map(|field| environment::read_global(&field)).unwrap_or_default();
    scope.define_environment(literals);
    let base = object.read("base", |field| field.plain(name::base));
    let build = object.read("build", software::read_build).unwrap_or_default();
    let files = software::read_files(object);
    let apps = object.list("apps", MAX_STEPS, application::read);
    let triggers = object.list("triggers", MAX_STEPS, trigger::read);
    let terminal = object.list("terminal", MAX_STEPS, runtime::read_terminal);
    let hooks = read_hooks(object);
    let telemetry = object.read("telemetry", runtime::read_telemetry).unwrap_or_default();
    let egress_policy = object.read("egress_policy", runtime::read_egress);
    let streaming = object.get("streaming").map(|field| runtime::read_streams(&field)).unwrap_or_default();
    Some(TemplateDefinition {
        api_version: api_version?,
        template: template?,
        hardware,
        secrets,
        vars,
        env,
        base,
        build,
        files,
        apps,
        triggers,
        terminal,
        hooks,
        telemetry,
        egress_policy,
        streaming,
    })
}

/// Reads `template`, whose name and version may be in the shorthand `name: NAME@VERSION`.
fn read_metadata(object: &ObjectReader<'_>) -> Option<TemplateMetadata> {
    let short = object.get("name");
    let named = short.as_ref().and_then(|field| field.plain(name_and_version));
    let Some(field) = object.get("template") else {
        if short.is_none() {
            object.report_missing("template");
        }
        let (name, version) = named?;
        return Some(TemplateMetadata {
            name,
            version,
            description: None,
            publisher: None,
            license: None,
            homepage: None,
            source: None,
        });
    };
    field.object(|metadata| {
        let part =
            |part: &'static str, rule: fn(&str) -> RuleResult<String>, value: Option<String>| match &short {
                None => metadata.need(part, |field| field.plain(rule)),
                Some(short) => {
                    let found = metadata.read(part, |field| field.plain(rule));
                    exclude(short, found.is_some(), &format!("template.{part}"));
                    value
                }
            };
        let (short_name, short_version) = named.unzip();
        let name = part("name", name::kebab, short_name);
        let version = part("version", name::version, short_version);
        let description = metadata.read("description", FieldReader::label);
        let publisher = metadata.read("publisher", FieldReader::label);
        let license = metadata.read("license", FieldReader::label);
        let homepage = metadata.read("homepage", |field| field.plain(network::http_url));
        let source = metadata.read("source", |field| field.plain(network::http_url));
        Some(TemplateMetadata {
            name: name?,
            version: version?,
            description,
            publisher,
            license,
            homepage,
            source,
        })
    })
}

fn name_and_version(text: &str) -> RuleResult<(String, String)> {
    let Some((name, version)) = text.split_once('@') else {
        return Err(Fault::invalid(format!(
            "must be NAME@VERSION such as browser-lab@1.0.0, not {}",
            quoted(text)
        )));
    };
    Ok((name::kebab(name)?, name::version(version)?))
}

/// Reads `hardware`, of which `cpu`, `ram` and `display` have shorthands.
fn read_hardware(object: &ObjectReader<'_>) -> TemplateHardware {
    let mut whole = object.read("hardware", hardware::read).unwrap_or_default();
    merge(object, "cpu", hardware::cpu, "hardware.cpu", &mut whole.cpu);
    merge(object, "ram", hardware::ram, "hardware.ram_gb", &mut whole.ram_gb);
    merge(object, "display", hardware::resolution, "hardware.resolution", &mut whole.resolution);
    whole
}

/// Reads `hooks`, of which `on_first_boot` has a shorthand.
fn read_hooks(object: &ObjectReader<'_>) -> Hooks {
    let mut hooks = object.read("hooks", runtime::read_hooks).unwrap_or_default();
    let script = |field: &FieldReader<'_>| field.interpolated(MAX_SCRIPT_BYTES);
    merge(object, "on_first_boot", script, "hooks.on_first_boot", &mut hooks.on_first_boot);
    hooks
}

/// Reads a shorthand into the field that it stands for, which must not be there as well.
fn merge<T>(
    object: &ObjectReader<'_>,
    short: &'static str,
    read: impl FnOnce(&FieldReader<'_>) -> Option<T>,
    long: &str,
    slot: &mut Option<T>,
) {
    let Some(field) = object.get(short) else { return };
    let value = read(&field);
    exclude(&field, slot.is_some(), long);
    *slot = slot.take().or(value);
}

/// Reports a shorthand whose long form is there as well.
fn exclude(short: &FieldReader<'_>, is_there: bool, long: &str) {
    if is_there {
        short.report(Fault::new(
            FaultCode::Conflict,
            format!("is a shorthand of {long}, which is there as well"),
        ));
    }
}

/// Whether a value is the default, which the normalised document leaves out.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
