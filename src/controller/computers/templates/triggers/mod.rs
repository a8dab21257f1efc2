//! Triggers of a definition, as a computer reads them.

pub mod webhooks;

use hotdesk_domain::error::Result;
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
