//! Actions of triggers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use hotdesk_domain::computer::template::fault::{Fault, FaultCode, RuleResult, quoted};
use hotdesk_domain::computer::template::interpolation::check_event_references;
use hotdesk_domain::computer::template::{name, network, path, timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::desktop::call::ComputerCall;
use crate::template::choice::choices;
use crate::template::reader::{FieldReader, NameKind, ObjectReader};

/// Action of a trigger. Texts may refer to fields of the event: `{{ event.path }}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum TriggerAction {
    /// Sends an HTTP request.
    Webhook {
        /// URL that gets the request.
        url: String,
        /// Method of the request.
        #[serde(default = "HttpMethod::of_webhook")]
        method: HttpMethod,
        /// Header fields.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        /// Body of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// Runs a shell command in the computer.
    Command {
        /// The command.
        run: String,
        /// Working directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// Longest time.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(regex(pattern = crate::template::schema::DURATION))]
        timeout: Option<String>,
    },
    /// Starts, stops or restarts a service.
    Service {
        /// Operation on the service.
        op: ServiceOperation,
        /// Name of the service.
        target: String,
    },
    /// Shows a notification on the desktop.
    Notify {
        /// Text of the notification.
        title: String,
        /// Importance.
        #[serde(default)]
        level: NotifyLevel,
    },
    /// Writes a line to the log of the computer.
    Log {
        /// The line.
        message: String,
    },
    /// Calls the API of the service for this computer.
    Api {
        /// Path below the computer, such as `/screenshot`.
        endpoint: String,
    },
}

choices! {
    /// Kinds of actions.
    ActionKind {
        /// [`TriggerAction::Webhook`].
        Webhook = "webhook",
        /// [`TriggerAction::Command`].
        Command = "command",
        /// [`TriggerAction::Service`].
        Service = "service",
        /// [`TriggerAction::Notify`].
        Notify = "notify",
        /// [`TriggerAction::Log`].
        Log = "log",
        /// [`TriggerAction::Api`].
        Api = "api",
    }
}

choices! {
    /// Method of an HTTP request.
    #[derive(Default)]
    HttpMethod {
        /// GET.
        #[default]
        Get = "GET",
        /// HEAD.
        Head = "HEAD",
        /// POST.
        Post = "POST",
        /// PUT.
        Put = "PUT",
        /// PATCH.
        Patch = "PATCH",
        /// DELETE.
        Delete = "DELETE",
    }
}

impl HttpMethod {
    fn of_webhook() -> Self {
        Self::Post
    }
}

choices! {
    /// Operation on a service.
    ServiceOperation {
        /// Start.
        Start = "start",
        /// Stop.
        Stop = "stop",
        /// Restart.
        Restart = "restart",
    }
}

choices! {
    /// Importance of a notification.
    #[derive(Default)]
    NotifyLevel {
        /// For information.
        #[default]
        Info = "info",
        /// Success.
        Success = "success",
        /// Warning.
        Warn = "warn",
        /// Error.
        Error = "error",
    }
}

/// Reads an entry of `actions`.
pub(super) fn read(field: &FieldReader<'_>) -> Option<TriggerAction> {
    field.object(|object| match object.need("type", FieldReader::choice) {
        Some(kind) => read_kind(object, kind),
        None => {
            object.leave_open();
            None
        }
    })
}

fn read_kind(object: &ObjectReader<'_>, kind: ActionKind) -> Option<TriggerAction> {
    match kind {
        ActionKind::Webhook => {
            let url = object.need("url", |field| field.interpolated_as(network::webhook_url));
            let method = object.read("method", FieldReader::choice).unwrap_or_else(HttpMethod::of_webhook);
            let headers = object.get("headers").map(|field| read_headers(&field)).unwrap_or_default();
            let body = object.read("body", |field| field.content(check_event_references));
            Some(TriggerAction::Webhook { url: url?, method, headers, body })
        }
        ActionKind::Command => {
            let run = object.need("run", |field| field.script(check_event_references));
            let cwd = object.read("cwd", |field| field.interpolated_as(path::guest));
            let timeout = object.read("timeout", |field| field.timing(timing::duration));
            Some(TriggerAction::Command { run: run?, cwd, timeout })
        }
        ActionKind::Service => {
            let op = object.need("op", FieldReader::choice);
            let target = object.need("target", |field| field.reference(NameKind::Service, name::kebab));
            Some(TriggerAction::Service { op: op?, target: target? })
        }
        ActionKind::Notify => {
            let title = object.need("title", template_line);
            let level = object.read("level", FieldReader::choice).unwrap_or_default();
            Some(TriggerAction::Notify { title: title?, level })
        }
        ActionKind::Log => Some(TriggerAction::Log { message: object.need("message", template_line)? }),
        ActionKind::Api => Some(TriggerAction::Api {
            endpoint: object.need("endpoint", |field| field.interpolated_as(endpoint))?,
        }),
    }
}

/// Reads `headers`. Their names are the same in upper and lower case.
fn read_headers(field: &FieldReader<'_>) -> BTreeMap<String, String> {
    let names = RefCell::new(BTreeSet::new());
    let unique = |text: &str| {
        let name = network::webhook_header(text)?;
        if names.borrow_mut().insert(name.clone()) {
            return Ok(name);
        }
        let message = format!("must be unique, but another header field is {}", quoted(&name));
        Err(Fault::new(FaultCode::Duplicate, message))
    };
    field.map(|key| key.plain(unique), template_line).into_iter().collect()
}

/// A line that may refer to the event.
fn template_line(field: &FieldReader<'_>) -> Option<String> {
    field.interpolated_as(|text| {
        check_event_references(text)?;
        if text.contains(['\n', '\r']) {
            Err(Fault::invalid("must be one line"))
        } else {
            Ok(text.to_owned())
        }
    })
}

/// A path such as `/screenshot`, which is a call of the computer's own actions.
fn endpoint(text: &str) -> RuleResult<String> {
    let is_plain = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    if is_plain
        && text.starts_with('/')
        && !text.starts_with("//")
        && !text.split('/').any(|part| part == "..")
    {
        let checked = ComputerCall::check(text);
        checked.map_err(|why| Fault::invalid(format!("must call an action of the computer: {why}")))?;
        return Ok(text.to_owned());
    }
    Err(Fault::invalid(format!("must be a path such as /screenshot, not {}", quoted(text))))
}
