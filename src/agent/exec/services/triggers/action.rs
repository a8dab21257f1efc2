//! Actions of triggers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;

use super::event::TriggerEvent;
use crate::exec::services::Parts;
use crate::exec::services::script::{ScriptName, ScriptRun, guest_path};
use crate::exec::services::supervisor::Action;
use crate::files::blocking;
use hotdesk_base::clock;
use hotdesk_domain::computer::template::timing;
use hotdesk_domain::computer::template::trigger::{DEFAULT_COMMAND_TIMEOUT, render};
use hotdesk_domain::error::Error;
use hotdesk_wire::agent::GuestRequestKind;
use hotdesk_wire::desktop::call::ComputerCall;
use hotdesk_wire::desktop::event::{Event, EventData};
use hotdesk_wire::template::Choice as _;
use hotdesk_wire::template::trigger::{NotifyLevel, ServiceOperation, Trigger, TriggerAction};

/// The file of the lines of `log`, and its bound: one older file of the same size is kept.
/// Longest line of the action `log`, in bytes.
const MAX_LINE: usize = 64 * 1024;
const LOG_FILE: &str = "/var/log/hotdesk/triggers.log";
const MAX_LOG_BYTES: u64 = 1_000_000;
/// Most bytes of a field in a variable of a command: Linux passes at most 128 KiB in one string.
const MAX_VARIABLE: usize = 64 * 1024;
/// Longest text of a notification in bytes: a desktop shows some lines.
const MAX_TITLE: usize = 4096;
/// Longest time to show a notification: its program may have to start first.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(20);
/// Beginning of the names of variables with fields of the event.
const VARIABLE: &str = "hotdesk_event_";

/// The actions of a trigger.
pub(super) struct Actions {
    parts: Arc<Parts>,
    name: String,
    actions: Vec<TriggerAction>,
    prelude: String,
}

impl Actions {
    pub(super) fn new(parts: &Arc<Parts>, trigger: &Trigger, prelude: &str) -> Self {
        Self {
            parts: Arc::clone(parts),
            name: trigger.name.clone(),
            actions: trigger.actions.clone(),
            prelude: prelude.to_owned(),
        }
    }

    /// Runs the actions in their order, also after one that failed. Returns what failed.
    pub(super) async fn run(&self, event: &TriggerEvent) -> Vec<String> {
        let mut errors = Vec::new();
        for (at, action) in self.actions.iter().enumerate() {
            if let Err(why) = self.act(at, action, event).await {
                tracing::info!(trigger = self.name, action = at, why, "an action of a trigger failed");
                errors.push(format!("actions[{at}]: {why}"));
            }
        }
        errors
    }

    async fn act(&self, at: usize, action: &TriggerAction, event: &TriggerEvent) -> Result<(), String> {
        match action {
            TriggerAction::Command { run, cwd, timeout } => {
                let timeout = timeout.as_deref().and_then(timing::milliseconds).map(Duration::from_millis);
                let timeout = timeout.unwrap_or(DEFAULT_COMMAND_TIMEOUT);
                self.command(run, cwd.as_deref(), timeout, event).await
            }
            TriggerAction::Service { op, target } => {
                let action = match op {
                    ServiceOperation::Start => Action::Start,
                    ServiceOperation::Stop => Action::Stop,
                    ServiceOperation::Restart => Action::Restart,
                };
                self.parts.supervisor.act(target, action).await.map_err(|error| error.message)
            }
            TriggerAction::Log { message } => {
                let line = render(message, MAX_LINE, |path| event.text(path).replace(['\n', '\r'], " "));
                let line = line.ok_or_else(|| format!("the message has more than {MAX_LINE} bytes"))?;
                let text = format!("{} {}: {line}\n", clock::now().iso8601(), self.name);
                let written = blocking(move || append(Path::new(LOG_FILE), &text).map_err(Error::internal));
                written.await.map_err(|error| format!("{LOG_FILE} cannot be written: {error:#}"))
            }
            // The service sends it: the computer has neither the secret of its signature nor a say in its place.
            TriggerAction::Webhook { .. } => {
                let (trigger, event) = (self.name.clone(), event.value());
                self.parts.outbox.request(GuestRequestKind::Webhook { trigger, action: at, event }).await
            }
            TriggerAction::Notify { title, level } => self.notify(title, *level, event).await,
            TriggerAction::Api { endpoint } => {
                let call = ComputerCall::parse(endpoint, |field| event.text(field))?;
                let called = async { self.parts.screens()?.call(call).await };
                called.await.map_err(|error| error.message)
            }
        }
    }

    /// Shows a notification on the desktop, and publishes it as an event.
    async fn notify(&self, title: &str, level: NotifyLevel, event: &TriggerEvent) -> Result<(), String> {
        let title = render(title, MAX_TITLE, |path| event.text(path).replace(['\n', '\r', '\0'], " "));
        let title = title.ok_or_else(|| format!("the title has more than {MAX_TITLE} bytes"))?;
        let data = EventData::Notification {
            trigger: self.name.clone(),
            title: title.clone(),
            level: level.word().to_owned(),
        };
        self.parts.feed.publish(Event::now(data));
        let urgency = match level {
            NotifyLevel::Info | NotifyLevel::Success => "low",
            NotifyLevel::Warn => "normal",
            NotifyLevel::Error => "critical",
        };
        let mut command = Command::new("notify-send");
        command.args(["--app-name", "hotdesk", "--urgency", urgency, "--", &title]);
        command
            .env_clear()
            .envs(self.parts.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        match tokio::time::timeout(NOTIFY_TIMEOUT, command.output()).await {
            Ok(Ok(output)) if output.status.success() => Ok(()),
            Ok(Ok(output)) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(format!("notify-send cannot show the notification: {why}"))
            }
            Ok(Err(error)) => Err(format!("notify-send cannot be started: {error}")),
            Err(_) => Err(format!("notify-send did not end within {NOTIFY_TIMEOUT:?}")),
        }
    }

    /// Runs a command. Fields of the event are variables: their values are data, never a part of the script.
    async fn command(
        &self,
        run: &str,
        cwd: Option<&str>,
        timeout: Duration,
        event: &TriggerEvent,
    ) -> Result<(), String> {
        let (script, variables) = script(run, event);
        let script = format!("{}{script}\n", self.prelude);
        let mut environment = self.parts.environment();
        environment.extend(variables);
        let cwd = guest_path(cwd.unwrap_or("~"));
        let run = ScriptRun {
            name: ScriptName { kind: "triggers", name: &self.name },
            script: &script,
            environment: &environment,
            cwd: &cwd,
            folder: &self.parts.folder,
            timeout,
        };
        run.run_command().await
    }
}

/// The script of a command with its variables.
fn script(run: &str, event: &TriggerEvent) -> (String, BTreeMap<String, String>) {
    let mut variables = BTreeMap::new();
    // A reference becomes one to a variable, at most a few times longer.
    let script = render(run, usize::MAX, |path| {
        let name = format!("{VARIABLE}{}", path.replace('.', "__"));
        let mut value = event.text(path).replace('\0', "");
        value.truncate(value.floor_char_boundary(MAX_VARIABLE));
        let reference = format!("${{{name}}}");
        variables.insert(name, value);
        reference
    });
    (script.unwrap_or_default(), variables)
}

/// Appends to a bounded file.
fn append(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = File::options().append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.len() >= MAX_LOG_BYTES {
        fs::rename(path, path.with_extension("log.1"))?;
        file = File::options().append(true).create(true).mode(0o600).open(path)?;
    }
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_an_event_are_no_part_of_a_script() {
        let fields = json!({"path": "/a/$(touch /tmp/x) 'b'\0", "data": {"n": 1}});
        let event = TriggerEvent::new("t", "file", fields.as_object().unwrap().clone());
        let (script, variables) =
            script("cp \"{{ event.path }}\" /b; echo {{event.data.n}} {{ event.none }}", &event);
        assert_eq!(
            script,
            "cp \"${hotdesk_event_path}\" /b; echo ${hotdesk_event_data__n} ${hotdesk_event_none}"
        );
        assert_eq!(variables["hotdesk_event_path"], "/a/$(touch /tmp/x) 'b'");
        assert_eq!(
            (variables["hotdesk_event_data__n"].as_str(), variables["hotdesk_event_none"].as_str()),
            ("1", "")
        );
    }

    #[test]
    fn the_log_of_triggers_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (file, older) = (folder.path().join("t.log"), folder.path().join("t.log.1"));
        append(&file, "one\n").unwrap();
        append(&file, "two\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
        append(&file, &"x".repeat(1_000_000)).unwrap();
        append(&file, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new\n");
        assert!(fs::metadata(older).unwrap().len() > 1_000_000);
    }
}
