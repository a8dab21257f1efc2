//! Triggers of a template: what they watch, and how often they act.

use hotdesk_domain::computer::template::bounds::{MAX_ENTRIES, MAX_STEPS, MAX_TEXT_BYTES};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, RuleResult};
use hotdesk_domain::computer::template::{name, network, path, timing, trigger};
use hotdesk_domain::desktop::event::{EventKind, catalogue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choice::choices;
use super::reader::{FieldReader, NameKind, ObjectReader};

mod action;

pub use action::{HttpMethod, NotifyLevel, ServiceOperation, TriggerAction};

/// Something to watch, and what to do when it happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Name in kebab case.
    #[schemars(regex(pattern = super::schema::KEBAB))]
    pub name: String,
    /// Title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Source of the events.
    pub source: TriggerSource,
    /// Actions, in this order.
    #[schemars(length(min = 1, max = 64))]
    pub actions: Vec<TriggerAction>,
    /// How often the actions run at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup: Option<Dedup>,
}

/// Source of a trigger's events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum TriggerSource {
    /// A time.
    Cron {
        /// Cron schedule of five fields, with an optional time zone; UTC without one.
        schedule: String,
    },
    /// A file or folder.
    File {
        /// Path in the computer.
        path: String,
        /// Changes that count; all by default.
        #[serde(default = "every_change")]
        #[schemars(length(max = 3))]
        events: Vec<FileChange>,
    },
    /// An HTTP server.
    Http {
        /// URL that is requested.
        url: String,
        /// Method of the request.
        #[serde(default)]
        method: HttpMethod,
        /// Status that is expected; any other is an event.
        #[serde(default = "expected_status")]
        #[schemars(range(min = 100, max = 599))]
        expect_code: u64,
        /// Time between two requests.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(regex(pattern = super::schema::DURATION))]
        interval: Option<String>,
    },
    /// A process that starts or ends.
    Process {
        /// Its name.
        process: String,
    },
    /// A metric that crosses a value.
    Metric {
        /// Name of the metric.
        metric: String,
        /// Comparison.
        op: MetricComparison,
        /// Value that the metric is compared with.
        value: f64,
        /// Time for which the comparison holds.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(regex(pattern = super::schema::DURATION))]
        duration: Option<String>,
    },
    /// A line in the log of a service.
    Log {
        /// Name of the service.
        service: String,
        /// Text that the line has.
        #[serde(rename = "match")]
        pattern: String,
        /// How lines are read.
        #[serde(default)]
        parse: LogFormat,
    },
    /// An event of the computer.
    Event {
        /// Its name.
        event: String,
    },
    /// An event of the desktop (docs/api/events.md).
    Desktop {
        /// Its name.
        event: String,
    },
}

fn every_change() -> Vec<FileChange> {
    vec![FileChange::Create, FileChange::Modify, FileChange::Delete]
}

fn expected_status() -> u64 {
    200
}

choices! {
    /// Kinds of sources.
    SourceKind {
        /// [`TriggerSource::Cron`].
        Cron = "cron",
        /// [`TriggerSource::File`].
        File = "file",
        /// [`TriggerSource::Http`].
        Http = "http",
        /// [`TriggerSource::Process`].
        Process = "process",
        /// [`TriggerSource::Metric`].
        Metric = "metric",
        /// [`TriggerSource::Log`].
        Log = "log",
        /// [`TriggerSource::Event`].
        Event = "event",
        /// [`TriggerSource::Desktop`].
        Desktop = "desktop",
    }
}

choices! {
    /// A change of a file.
    FileChange {
        /// It is new.
        Create = "create",
        /// Its content changed.
        Modify = "modify",
        /// It is gone.
        Delete = "delete",
    }
}

choices! {
    /// A comparison of a metric with a value.
    MetricComparison {
        /// Greater.
        Greater = ">",
        /// Greater or equal.
        GreaterOrEqual = ">=",
        /// Less.
        Less = "<",
        /// Less or equal.
        LessOrEqual = "<=",
        /// Equal.
        Equal = "==",
        /// Not equal.
        NotEqual = "!=",
    }
}

choices! {
    /// How the lines of a log are read.
    #[derive(Default)]
    LogFormat {
        /// As text.
        #[default]
        Text = "text",
        /// As JSON objects, whose fields become fields of the event.
        Json = "json",
    }
}

/// How often the actions of a trigger run at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dedup {
    /// Once, after no event came for this time.
    Debounce(#[schemars(regex(pattern = super::schema::DURATION))] String),
    /// Once in this time.
    Cooldown(#[schemars(regex(pattern = super::schema::DURATION))] String),
    /// A number of times in a time, such as `10/1m`.
    RateLimit(#[schemars(regex(pattern = super::schema::RATE))] String),
}

/// Reads an entry of `triggers`.
pub(super) fn read(field: &FieldReader<'_>) -> Option<Trigger> {
    field.object(|object| {
        let name = object.need("name", |field| field.declared(NameKind::Trigger, name::kebab));
        let title = object.read("title", FieldReader::label);
        let source = object.need("source", read_source);
        let actions = object.need("actions", |field| {
            let actions = field.list(MAX_STEPS, action::read);
            if field.is_empty_list() {
                field.report(Fault::invalid("must have at least one action"));
            }
            Some(actions)
        });
        let dedup = object.read("dedup", read_dedup);
        Some(Trigger { name: name?, title, source: source?, actions: actions?, dedup })
    })
}

fn read_source(field: &FieldReader<'_>) -> Option<TriggerSource> {
    field.object(|object| match object.need("type", FieldReader::choice) {
        Some(kind) => read_kind(object, kind),
        None => {
            object.leave_open();
            None
        }
    })
}

fn read_kind(object: &ObjectReader<'_>, kind: SourceKind) -> Option<TriggerSource> {
    let word = |field: &FieldReader<'_>| field.interpolated(MAX_TEXT_BYTES);
    let time = |field: &FieldReader<'_>| field.timing(timing::duration);
    match kind {
        SourceKind::Cron => Some(TriggerSource::Cron {
            schedule: object.need("schedule", |field| field.plain(timing::schedule))?,
        }),
        SourceKind::File => {
            let path = object.need("path", |field| field.interpolated_as(path::guest));
            let mut events = object.list("events", MAX_ENTRIES, FieldReader::choice);
            // The order and repetitions mean nothing.
            events = every_change().into_iter().filter(|change| events.contains(change)).collect();
            let events = if events.is_empty() { every_change() } else { events };
            Some(TriggerSource::File { path: path?, events })
        }
        SourceKind::Http => {
            let url = object.need("url", |field| field.interpolated_as(network::http_url));
            let method = object.read("method", FieldReader::choice).unwrap_or_default();
            let expect_code = object.read("expect_code", |field| field.whole(100, 599));
            let interval = object.read("interval", time);
            Some(TriggerSource::Http {
                url: url?,
                method,
                expect_code: expect_code.unwrap_or_else(expected_status),
                interval,
            })
        }
        SourceKind::Process => Some(TriggerSource::Process { process: object.need("process", word)? }),
        SourceKind::Metric => {
            let metric = object.need("metric", |field| field.interpolated_as(trigger::metric));
            let op = object.need("op", FieldReader::choice);
            let value = object.need("value", FieldReader::number);
            let duration = object.read("duration", time);
            Some(TriggerSource::Metric { metric: metric?, op: op?, value: value?, duration })
        }
        SourceKind::Log => {
            let service = object.need("service", |field| field.reference(NameKind::Service, name::kebab));
            let pattern = object.need("match", word);
            let parse = object.read("parse", FieldReader::choice).unwrap_or_default();
            Some(TriggerSource::Log { service: service?, pattern: pattern?, parse })
        }
        SourceKind::Event => {
            let event = object.need("event", |field| field.interpolated_as(trigger::computer_event))?;
            Some(TriggerSource::Event { event })
        }
        SourceKind::Desktop => {
            Some(TriggerSource::Desktop { event: object.need("event", |field| field.plain(desktop_event))? })
        }
    }
}

/// The name of an event of the desktop.
fn desktop_event(event: &str) -> RuleResult<String> {
    match EventKind::parse(event) {
        // The controller publishes it.
        Some(EventKind::AgentChange) => {
            let message = format!("is {event}, which the computer itself does not see");
            Err(Fault::new(FaultCode::Unsupported, message))
        }
        Some(_) => Ok(event.to_owned()),
        None => {
            let names: Vec<&str> = catalogue().iter().map(|entry| entry.name).collect();
            Err(Fault::none_of(event, &names))
        }
    }
}

fn read_dedup(field: &FieldReader<'_>) -> Option<Dedup> {
    field.object(|object| {
        let time = |field: &FieldReader<'_>| field.timing(timing::duration);
        let count = ["debounce", "cooldown", "rate_limit"]
            .into_iter()
            .filter(|name| object.get(name).is_some())
            .count();
        if count != 1 {
            let code = if count == 0 { FaultCode::Required } else { FaultCode::Conflict };
            let message = format!("must have one of debounce, cooldown and rate_limit, not {count}");
            object.itself().report(Fault::new(code, message));
        }
        let debounce = object.read("debounce", time).map(Dedup::Debounce);
        let cooldown = object.read("cooldown", time).map(Dedup::Cooldown);
        let rate = object.read("rate_limit", |field| field.timing(timing::rate)).map(Dedup::RateLimit);
        debounce.or(cooldown).or(rate)
    })
}
