//! Applications of a template: services, health checks, ports and autostart.

use std::time::Duration;

use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::prepared::services::{
    LaunchFacts, PrestartObstacle, ServiceStart, service_start,
};
use hotdesk_domain::computer::template::bounds::{MAX_ENTRIES, MAX_SCRIPT_BYTES, MAX_STEPS};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, RuleResult};
use hotdesk_domain::computer::template::{name, network, path, timing};
use schemars::JsonSchema;
use serde::Serialize;

use super::choice::choices;
use super::environment::{self, Environment};
use super::health::{self, HealthCheck};
use super::reader::{FieldReader, NameKind};
use super::{FileMoment, TemplateDefinition, is_default};

/// User of a service without `user`.
const DEFAULT_USER: &str = "orgo";

/// A program with its services.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateApp {
    /// Name in kebab case.
    #[schemars(regex(pattern = super::schema::KEBAB))]
    pub name: String,
    /// Title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Shell script that installs it when the template is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
    /// Programs that run in the background.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub services: Vec<Service>,
    /// How to find out whether it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthCheck>,
    /// Ports that it listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub ports: Vec<TemplatePort>,
    /// Programs that start with the desktop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub autostart: Vec<Autostart>,
    /// Whether its services and programs of the desktop start once, before launches, which continue them from
    /// memory. What they keep in memory is the same in all these computers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prestart: bool,
}

choices! {
    /// When a service that ended starts again.
    #[derive(Default)]
    RestartPolicy {
        /// Always.
        #[default]
        Always = "always",
        /// After a failure.
        OnFailure = "on-failure",
        /// Never.
        Never = "no",
    }
}

choices! {
    /// A signal that asks a service to end.
    #[derive(Default)]
    StopSignal {
        /// SIGTERM.
        #[default]
        Term = "SIGTERM",
        /// SIGINT.
        Int = "SIGINT",
        /// SIGQUIT.
        Quit = "SIGQUIT",
        /// SIGHUP.
        Hup = "SIGHUP",
        /// SIGUSR1.
        User1 = "SIGUSR1",
        /// SIGUSR2.
        User2 = "SIGUSR2",
        /// SIGKILL.
        Kill = "SIGKILL",
    }
}

/// A program that runs in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Name in kebab case, unique in the template.
    #[schemars(regex(pattern = super::schema::KEBAB))]
    pub name: String,
    /// Shell command. It must not go to the background.
    pub run: String,
    /// Working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// User that it runs as.
    #[serde(default = "default_user")]
    pub user: String,
    /// Environment variables beside those of the template.
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    pub env: Environment,
    /// When it starts again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart: RestartPolicy,
    /// Signal that asks it to end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop_signal: StopSignal,
    /// File in the computer that gets its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

fn default_user() -> String {
    DEFAULT_USER.to_owned()
}

choices! {
    /// Protocol of a port.
    #[derive(Default)]
    PortProtocol {
        /// TCP.
        #[default]
        Tcp = "tcp",
        /// UDP.
        Udp = "udp",
        /// HTTP.
        Http = "http",
        /// WebSocket.
        Ws = "ws",
    }
}

/// A port that a service listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplatePort {
    /// Port in the computer. 870, 5900, 5999, 6080 and 8080 are reserved.
    #[schemars(range(min = 1), extend("not" = { "enum": [870, 5900, 5999, 6080, 8080] }))]
    pub internal: u16,
    /// Port on the outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub external: Option<u16>,
    /// Protocol.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protocol: PortProtocol,
    /// Whether the port can be reached from outside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub public: bool,
}

/// A program that starts with the desktop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Autostart {
    /// Shell command.
    pub run: String,
    /// Time after the start of the desktop, such as `2s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::schema::DURATION))]
    pub delay: Option<String>,
}

impl TemplateDefinition {
    /// Decides when its services with `prestart` start in a computer of an isolation, with an egress policy
    /// or without one.
    ///
    /// # Errors
    /// Why they cannot start before the launch, if one asks for it.
    pub fn service_start(
        &self,
        isolation: Isolation,
        egress_policy: bool,
    ) -> std::result::Result<ServiceStart, PrestartObstacle> {
        let starts_early =
            |app: &TemplateApp| app.prestart && !(app.services.is_empty() && app.autostart.is_empty());
        let delays = self.apps.iter().filter(|app| app.prestart).flat_map(|app| &app.autostart);
        let delays = delays.filter_map(|program| timing::milliseconds(program.delay.as_deref()?));
        service_start(&LaunchFacts {
            isolation,
            prestart: self.apps.iter().any(starts_early),
            secrets: !self.secrets.is_empty(),
            boot_hooks: self.hooks.on_first_boot.is_some() || self.hooks.on_every_boot.is_some(),
            runtime_files: self.files.iter().any(|file| file.when == FileMoment::Runtime),
            egress_policy,
            delay: Duration::from_millis(delays.max().unwrap_or_default()),
        })
    }
}

/// Reads an entry of `apps`.
pub(super) fn read(field: &FieldReader<'_>) -> Option<TemplateApp> {
    field.object(|object| {
        let name = object.need("name", |field| field.declared(NameKind::App, name::kebab));
        let title = object.read("title", FieldReader::label);
        let install = object.read("install", |field| field.interpolated(MAX_SCRIPT_BYTES));
        let services = object.list("services", MAX_STEPS, read_service);
        let health = object.read("health", health::read);
        let ports = object.list("ports", MAX_ENTRIES, read_port);
        let autostart = object.list("autostart", MAX_STEPS, read_autostart);
        let prestart = object.read("prestart", FieldReader::flag).unwrap_or_default();
        Some(TemplateApp { name: name?, title, install, services, health, ports, autostart, prestart })
    })
}

fn read_service(field: &FieldReader<'_>) -> Option<Service> {
    field.object(|object| {
        let name = object.need("name", |field| field.declared(NameKind::Service, name::kebab));
        let run = object.need("run", |field| field.interpolated(MAX_SCRIPT_BYTES));
        let cwd = object.read("cwd", |field| field.interpolated_as(path::guest));
        let user = object.read("user", |field| field.plain(name::user));
        let env = object.get("env").map(|field| environment::read(&field)).unwrap_or_default();
        let restart = object.read("restart", FieldReader::choice::<RestartPolicy>);
        let stop_signal = object.read("stop_signal", FieldReader::choice);
        let log = object.read("log", |field| field.interpolated_as(path::guest));
        Some(Service {
            name: name?,
            run: run?,
            cwd,
            user: user.unwrap_or_else(default_user),
            env,
            restart: restart.unwrap_or_default(),
            stop_signal: stop_signal.unwrap_or_default(),
            log,
        })
    })
}

fn read_port(field: &FieldReader<'_>) -> Option<TemplatePort> {
    field.object(|object| {
        let protocol = object.read("protocol", FieldReader::choice).unwrap_or_default();
        // A UDP port and a TCP port of one number are two.
        let family = if protocol == PortProtocol::Udp { "udp" } else { "tcp" };
        let internal =
            object.need("internal", |field| read_number(field, NameKind::Port, family, network::guest_port));
        let external = object
            .read("external", |field| read_number(field, NameKind::ExternalPort, family, network::any_port));
        let public = object.read("public", |field| read_public(field, protocol)).unwrap_or_default();
        Some(TemplatePort { internal: internal?, external, protocol, public })
    })
}

/// Reads whether a port is public. The service forwards TCP only.
fn read_public(field: &FieldReader<'_>, protocol: PortProtocol) -> Option<bool> {
    let is_public = field.flag()?;
    if is_public && protocol == PortProtocol::Udp {
        let message = "must be false for UDP: the service forwards only TCP";
        field.report(Fault::new(FaultCode::Unsupported, message).hint("remove the field"));
    }
    Some(is_public)
}

/// Reads the number of a port, which is the only one of its kind and family in the document.
fn read_number(
    field: &FieldReader<'_>,
    kind: NameKind,
    family: &str,
    rule: fn(u64) -> RuleResult<u16>,
) -> Option<u16> {
    let port = field.accept(rule(field.whole(0, u64::MAX)?))?;
    field.accept(field.unique(kind, format!("{port}/{family}")))?;
    Some(port)
}

fn read_autostart(field: &FieldReader<'_>) -> Option<Autostart> {
    field.object(|object| {
        let run = object.need("run", |field| field.interpolated(MAX_SCRIPT_BYTES));
        let delay = object.read("delay", |field| field.timing(timing::duration));
        Some(Autostart { run: run?, delay })
    })
}
