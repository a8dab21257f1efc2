//! Terminals, hooks, telemetry, egress policy and streams of a template.

use std::cell::Cell;

use hotdesk_domain::computer::template::bounds::{MAX_ENTRIES, MAX_SCRIPT_BYTES, MAX_STEPS};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode};
use hotdesk_domain::computer::template::{name, network, path};
use schemars::JsonSchema;
use serde::Serialize;

use super::choice::choices;
use super::environment::{self, TextOrSecret};
use super::is_default;
use super::reader::{FieldReader, NameKind};

/// A session of tmux that is there when a person opens a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateTerminal {
    /// Name in kebab case.
    #[schemars(regex(pattern = super::schema::KEBAB))]
    pub name: String,
    /// Title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Purpose of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Command instead of the shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Shell scripts that run at moments of a computer's life, with `set -e` and for at most ten minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    /// At the first boot of a computer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_first_boot: Option<String>,
    /// At each boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_every_boot: Option<String>,
    /// Before a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_pre_snapshot: Option<String>,
    /// After a resume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_resume: Option<String>,
    /// Before a stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_shutdown: Option<String>,
}

/// Measurements that a computer reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Whether it reports metrics.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: bool,
    /// Paths of log files that it reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub logs: Vec<String>,
    /// URL of an OpenTelemetry collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otel_endpoint: Option<String>,
}

choices! {
    /// Effect of the rules of an egress policy.
    TemplateEgressMode {
        /// Only the destinations of the rules can be reached.
        Allow = "allow",
        /// The destinations of the rules cannot be reached.
        Block = "block",
    }
}

/// Which destinations a computer reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateEgress {
    /// Effect of the rules.
    pub mode: TemplateEgressMode,
    /// Domains, which may begin with `*.`, IP addresses and networks in CIDR notation.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub rules: Vec<String>,
}

/// A server that the screen is streamed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateStream {
    /// Name in kebab case.
    #[schemars(regex(pattern = super::schema::KEBAB))]
    pub name: String,
    /// URL of `rtmp` or `rtmps`.
    pub url: String,
    /// Stream key.
    pub key: TextOrSecret,
    /// Whether it begins with the computer; one stream at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub autostart: bool,
}

/// Reads an entry of `terminal`.
pub(super) fn read_terminal(field: &FieldReader<'_>) -> Option<TemplateTerminal> {
    field.object(|object| {
        let name = object.need("name", |field| field.declared(NameKind::Terminal, name::kebab));
        let title = object.read("title", FieldReader::label);
        let description = object.read("description", FieldReader::label);
        let cwd = object.read("cwd", |field| field.interpolated_as(path::guest));
        let run = object.read("run", |field| field.interpolated(MAX_SCRIPT_BYTES));
        Some(TemplateTerminal { name: name?, title, description, cwd, run })
    })
}

/// Reads `hooks`.
pub(super) fn read_hooks(field: &FieldReader<'_>) -> Option<Hooks> {
    field.object(|object| {
        let script = |name| object.read(name, |field| field.interpolated(MAX_SCRIPT_BYTES));
        Some(Hooks {
            on_first_boot: script("on_first_boot"),
            on_every_boot: script("on_every_boot"),
            on_pre_snapshot: script("on_pre_snapshot"),
            on_resume: script("on_resume"),
            on_shutdown: script("on_shutdown"),
        })
    })
}

/// Reads `telemetry`.
pub(super) fn read_telemetry(field: &FieldReader<'_>) -> Option<Telemetry> {
    field.object(|object| {
        Some(Telemetry {
            metrics: object.read("metrics", FieldReader::flag).unwrap_or_default(),
            logs: object.list("logs", MAX_ENTRIES, |field| field.interpolated_as(path::guest)),
            otel_endpoint: object.read("otel_endpoint", |field| field.interpolated_as(network::http_url)),
        })
    })
}

/// Reads `egress_policy`.
pub(super) fn read_egress(field: &FieldReader<'_>) -> Option<TemplateEgress> {
    field.object(|object| {
        let mode = object.need("mode", FieldReader::choice);
        let rules = object.list("rules", MAX_ENTRIES, |field| field.interpolated_as(network::destination));
        Some(TemplateEgress { mode: mode?, rules })
    })
}

/// Reads `streaming`. A computer has one stream at a time.
pub(super) fn read_streams(field: &FieldReader<'_>) -> Vec<TemplateStream> {
    let has_started = Cell::new(false);
    let read_autostart = |field: &FieldReader<'_>| {
        let starts = field.flag()?;
        if starts && has_started.replace(true) {
            let message = "must be true for one stream only: a computer has one at a time";
            field.report(Fault::new(FaultCode::Conflict, message));
        }
        Some(starts)
    };
    field.list(MAX_STEPS, |stream| {
        stream.object(|object| {
            let name = object.need("name", |field| field.declared(NameKind::Stream, name::kebab));
            let url = object.need("url", |field| field.interpolated_as(network::rtmp_url));
            let key = object.need("key", read_stream_key);
            let autostart = object.read("autostart", read_autostart).unwrap_or_default();
            Some(TemplateStream { name: name?, url: url?, key: key?, autostart })
        })
    })
}

fn read_stream_key(field: &FieldReader<'_>) -> Option<TextOrSecret> {
    let (value, literal) = environment::read_value(field)?;
    if let Some(key) = literal {
        field.accept(network::stream_key(&key))?;
    }
    Some(value)
}
