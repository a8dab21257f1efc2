//! Health checks of an application.

use hotdesk_domain::computer::template::bounds::{MAX_SCRIPT_BYTES, MAX_TEXT_BYTES};
use hotdesk_domain::computer::template::fault::{Fault, RuleResult};
use hotdesk_domain::computer::template::{name, network, timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choice::choices;
use super::reader::{FieldReader, NameKind, ObjectReader};

/// Most retries of a check: more would hide a failure for hours.
const MAX_RETRIES: u64 = 100;
/// Action that restarts the computer.
pub const RESTART_COMPUTER: &str = "restart_vm";
/// Action that does nothing.
pub const NO_ACTION: &str = "none";
/// Beginning of the action that restarts a service.
pub const RESTART_SERVICE: &str = "restart_service:";

/// How to find out whether an application works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// Probe of the check.
    #[serde(flatten)]
    pub probe: HealthProbe,
    /// Time between two checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::schema::DURATION))]
    pub every: Option<String>,
    /// Longest time of a check.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::schema::DURATION))]
    pub timeout: Option<String>,
    /// Failures in a row before the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub retries: Option<u64>,
    /// Action after the last failure: `restart_service:NAME`, `restart_vm`, `alert` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(restart_service:[a-z0-9-]+|restart_vm|alert|none)$"))]
    pub on_fail: Option<String>,
}

/// Probe of a health check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HealthProbe {
    /// A URL that answers with a status below 400.
    Http {
        /// The URL.
        url: String,
    },
    /// A port that accepts connections.
    Tcp {
        /// The port.
        #[schemars(range(min = 1))]
        port: u16,
    },
    /// A shell command that ends with 0.
    Command {
        /// The command.
        command: String,
    },
    /// A process that runs.
    Process {
        /// Its name.
        process: String,
    },
}

choices! {
    /// Kinds of probes.
    ProbeKind {
        /// [`HealthProbe::Http`].
        Http = "http",
        /// [`HealthProbe::Tcp`].
        Tcp = "tcp",
        /// [`HealthProbe::Command`].
        Command = "command",
        /// [`HealthProbe::Process`].
        Process = "process",
    }
}

/// Reads `health`.
pub(super) fn read(field: &FieldReader<'_>) -> Option<HealthCheck> {
    field.object(|object| {
        let probe = object.need("type", FieldReader::choice).map(|kind| read_probe(object, kind));
        if probe.is_none() {
            object.leave_open();
        }
        let every = object.read("every", |field| field.timing(timing::duration));
        let timeout = object.read("timeout", |field| field.timing(timing::duration));
        let retries = object.read("retries", |field| field.whole(0, MAX_RETRIES));
        let on_fail = object.read("on_fail", read_action);
        Some(HealthCheck { probe: probe??, every, timeout, retries, on_fail })
    })
}

fn read_probe(object: &ObjectReader<'_>, kind: ProbeKind) -> Option<HealthProbe> {
    Some(match kind {
        ProbeKind::Http => {
            HealthProbe::Http { url: object.need("url", |field| field.interpolated_as(network::http_url))? }
        }
        ProbeKind::Tcp => HealthProbe::Tcp {
            port: object.need("port", |field| field.accept(network::any_port(field.whole(0, u64::MAX)?)))?,
        },
        ProbeKind::Command => HealthProbe::Command {
            command: object.need("command", |field| field.interpolated(MAX_SCRIPT_BYTES))?,
        },
        ProbeKind::Process => HealthProbe::Process {
            process: object.need("process", |field| field.interpolated(MAX_TEXT_BYTES))?,
        },
    })
}

fn read_action(field: &FieldReader<'_>) -> Option<String> {
    let action = field.plain(check_action)?;
    if let Some(service) = action.strip_prefix(RESTART_SERVICE) {
        field.refer(NameKind::Service, service);
    }
    Some(action)
}

fn check_action(text: &str) -> RuleResult<String> {
    const WORDS: [&str; 4] = ["restart_service:NAME", RESTART_COMPUTER, "alert", NO_ACTION];
    if let Some(service) = text.strip_prefix(RESTART_SERVICE) {
        name::kebab(service)?;
        return Ok(text.to_owned());
    }
    if WORDS[1..].contains(&text) { Ok(text.to_owned()) } else { Err(Fault::none_of(text, &WORDS)) }
}
