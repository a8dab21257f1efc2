//! Triggers of a definition, as a computer reads them.

pub mod webhooks;

use hotdesk_domain::computer::template::trigger::{COMPUTER_EVENTS, METRICS};
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_domain::error::Result;
use hotdesk_wire::programs::call::ComputerCall;
use hotdesk_wire::template::TemplateValues;
use hotdesk_wire::template::trigger::{Trigger, TriggerAction, TriggerSource};

/// Returns a trigger with its references to variables replaced. References to the event stay.
///
/// # Errors
/// `Internal` for a definition that is not valid.
pub fn trigger(entry: &Trigger, values: &TemplateValues<'_>) -> Result<Trigger> {
    let mut trigger = entry.clone();
    match &mut trigger.source {
        TriggerSource::File { path: text, .. }
        | TriggerSource::Http { url: text, .. }
        | TriggerSource::Process { process: text }
        | TriggerSource::Metric { metric: text, .. }
        | TriggerSource::Log { pattern: text, .. }
        | TriggerSource::Event { event: text } => *text = values.expand(text)?,
        TriggerSource::Cron { .. } | TriggerSource::Desktop { .. } => {}
    }
    for action in &mut trigger.actions {
        match action {
            TriggerAction::Webhook { url, headers, body, .. } => {
                *url = values.expand(url)?;
                for value in headers.values_mut() {
                    *value = values.expand(value)?;
                }
                if let Some(body) = body {
                    *body = values.expand(body)?;
                }
            }
            TriggerAction::Command { run, cwd, .. } => {
                *run = values.expand(run)?;
                if let Some(cwd) = cwd {
                    *cwd = values.expand(cwd)?;
                }
            }
            TriggerAction::Notify { title: text, .. }
            | TriggerAction::Log { message: text }
            | TriggerAction::Api { endpoint: text } => *text = values.expand(text)?,
            TriggerAction::Service { .. } => {}
        }
    }
    Ok(trigger)
}

/// The fields of a trigger that this version does not know how to run, below its own field, with the reason where one helps.
pub fn unsupported(trigger: &Trigger) -> Vec<String> {
    let mut fields = Vec::new();
    match &trigger.source {
        TriggerSource::Metric { metric, .. } if !METRICS.contains(&metric.as_str()) => {
            fields.push(format!("source.metric other than {}", METRICS.join(", ")));
        }
        TriggerSource::Event { event } if !COMPUTER_EVENTS.contains(&event.as_str()) => {
            fields.push(format!("source.event other than {}", COMPUTER_EVENTS.join(", ")));
        }
        TriggerSource::Desktop { event } if event == EventKind::AgentChange.name() => {
            fields.push(format!("source.event {event}, which the computer does not see"));
        }
        TriggerSource::Cron { .. }
        | TriggerSource::File { .. }
        | TriggerSource::Http { .. }
        | TriggerSource::Process { .. }
        | TriggerSource::Metric { .. }
        | TriggerSource::Log { .. }
        | TriggerSource::Event { .. }
        | TriggerSource::Desktop { .. } => {}
    }
    for (at, action) in trigger.actions.iter().enumerate() {
        match action {
            TriggerAction::Webhook { url, headers, .. } => {
                let found = webhooks::unsupported(url, headers.keys());
                fields.extend(found.map(|found| format!("actions[{at}].{found}")));
            }
            TriggerAction::Api { endpoint } => {
                let refused = ComputerCall::check(endpoint).err();
                fields.extend(refused.map(|why| format!("actions[{at}].endpoint: {why}")));
            }
            TriggerAction::Command { .. }
            | TriggerAction::Service { .. }
            | TriggerAction::Notify { .. }
            | TriggerAction::Log { .. } => {}
        }
    }
    fields
}
