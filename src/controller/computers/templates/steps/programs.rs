//! Services, programs of the desktop, hooks, files and telemetry of a definition, as a computer reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use hotdesk_domain::computer::template::build::PROGRAMS_FILE;
use hotdesk_domain::computer::template::health as rule;
use hotdesk_domain::computer::template::{hook, timing};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{
    AutostartProgram, HealthProgram, ServiceProgram, StreamProgram, TelemetryProgram, TemplatePrograms,
    TerminalProgram,
};
use hotdesk_wire::template::health::{HealthCheck, HealthProbe, NO_ACTION};
use hotdesk_wire::template::trigger::TriggerAction;
use hotdesk_wire::template::{
    Choice as _, Environment, Service, Telemetry, TemplateDefinition, TemplateStream, TemplateTerminal,
    TemplateValues, TextOrSecret,
};

use super::super::apt::{APT, APT_CLEAN};
use super::super::triggers;
use super::files;

/// User of services that the build makes where the image lacks it: that of a service without `user`. The guest image has it
/// (`packaging/image/setup`).
const SERVICE_USER: &str = "orgo";

/// Returns the programs of a definition, with their references replaced.
///
/// # Errors
/// `Internal` for a definition that is not valid.
pub fn programs(definition: &TemplateDefinition, values: &TemplateValues<'_>) -> Result<TemplatePrograms> {
    let (mut services, mut autostart, mut health) = (Vec::new(), Vec::new(), Vec::new());
    for app in &definition.apps {
        for entry in &app.services {
            services.push(ServiceProgram { prestart: app.prestart, ..service(entry, values)? });
        }
        if let Some(check) = &app.health {
            let program = health_program(&app.name, check, values)?;
            health.push(HealthProgram { prestart: app.prestart, ..program });
        }
        for entry in &app.autostart {
            let run = values.expand(&entry.run)?;
            let delay_ms = milliseconds(entry.delay.as_deref())?.unwrap_or_default();
            autostart.push(AutostartProgram { run, delay_ms, prestart: app.prestart });
        }
    }
    let hooks = &definition.hooks;
    let mut scripts = BTreeMap::new();
    for (name, script) in [
        (hook::FIRST_BOOT, &hooks.on_first_boot),
        (hook::EVERY_BOOT, &hooks.on_every_boot),
        (hook::RESUME, &hooks.on_resume),
        (hook::PRE_SNAPSHOT, &hooks.on_pre_snapshot),
        (hook::SHUTDOWN, &hooks.on_shutdown),
    ] {
        if let Some(script) = script {
            scripts.insert(name.to_owned(), values.expand(script)?);
        }
    }
    let triggers = definition.triggers.iter().map(|entry| triggers::trigger(entry, values));
    let programs = TemplatePrograms {
        services,
        autostart,
        health,
        triggers: triggers.collect::<Result<_>>()?,
        hooks: scripts,
        files: files::runtime_files(definition, values)?,
        terminals: definition.terminal.iter().map(|entry| terminal(entry, values)).collect::<Result<_>>()?,
        telemetry: telemetry(&definition.telemetry, values)?,
        streams: definition.streaming.iter().map(|entry| stream(entry, values)).collect::<Result<_>>()?,
        ..TemplatePrograms::default()
    };
    if programs == TemplatePrograms::default() {
        return Ok(programs);
    }
    Ok(TemplatePrograms { secret_env: secrets_of(&definition.env), ..programs })
}

/// The milliseconds of a duration of the definition.
fn milliseconds(duration: Option<&str>) -> Result<Option<u64>> {
    let read = duration.map(|text| {
        timing::milliseconds(text).ok_or_else(|| Error::internal("a published template has a bad duration"))
    });
    read.transpose()
}

fn health_program(app: &str, check: &HealthCheck, values: &TemplateValues<'_>) -> Result<HealthProgram> {
    let probe = match &check.probe {
        HealthProbe::Http { url } => HealthProbe::Http { url: values.expand(url)? },
        HealthProbe::Tcp { port } => HealthProbe::Tcp { port: *port },
        HealthProbe::Command { command } => HealthProbe::Command { command: values.expand(command)? },
        HealthProbe::Process { process } => HealthProbe::Process { process: values.expand(process)? },
    };
    let or = |ms: Option<u64>, default: Duration| ms.map_or(default, Duration::from_millis);
    let every = or(milliseconds(check.every.as_deref())?, rule::DEFAULT_INTERVAL).max(rule::MIN_INTERVAL);
    let timeout = or(milliseconds(check.timeout.as_deref())?, rule::DEFAULT_TIMEOUT);
    let whole = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Ok(HealthProgram {
        app: app.to_owned(),
        probe,
        every_ms: whole(every),
        timeout_ms: whole(timeout),
        retries: check
            .retries
            .map_or(rule::DEFAULT_RETRIES, |retries| retries.try_into().unwrap_or(u32::MAX)),
        on_fail: check.on_fail.clone().unwrap_or_else(|| NO_ACTION.to_owned()),
        prestart: false,
    })
}

fn service(entry: &Service, values: &TemplateValues<'_>) -> Result<ServiceProgram> {
    let text = |text: &Option<String>| text.as_deref().map(|text| values.expand(text)).transpose();
    let mut env = BTreeMap::new();
    for (name, value) in &entry.env {
        if let TextOrSecret::Literal(literal) = value {
            env.insert(name.clone(), values.expand(literal)?);
        }
    }
    Ok(ServiceProgram {
        name: entry.name.clone(),
        run: values.expand(&entry.run)?,
        cwd: text(&entry.cwd)?,
        user: entry.user.clone(),
        env,
        secret_env: secrets_of(&entry.env),
        restart: entry.restart.word().to_owned(),
        stop_signal: entry.stop_signal.word().to_owned(),
        log: text(&entry.log)?,
        prestart: false,
    })
}

fn terminal(entry: &TemplateTerminal, values: &TemplateValues<'_>) -> Result<TerminalProgram> {
    let text = |text: &Option<String>| text.as_deref().map(|text| values.expand(text)).transpose();
    let (name, title) = (entry.name.clone(), entry.title.clone());
    Ok(TerminalProgram { name, title, cwd: text(&entry.cwd)?, run: text(&entry.run)? })
}

/// Returns the measurements that are sent to a collector; none without one.
fn telemetry(entry: &Telemetry, values: &TemplateValues<'_>) -> Result<Option<TelemetryProgram>> {
    let Some(endpoint) = &entry.otel_endpoint else { return Ok(None) };
    if !entry.metrics && entry.logs.is_empty() {
        return Ok(None);
    }
    let logs = entry.logs.iter().map(|path| values.expand(path)).collect::<Result<_>>()?;
    let endpoint = values.expand(endpoint)?.trim_end_matches('/').to_owned();
    Ok(Some(TelemetryProgram { endpoint, metrics: entry.metrics, logs }))
}

fn stream(entry: &TemplateStream, values: &TemplateValues<'_>) -> Result<StreamProgram> {
    let (key, secret_key) = match &entry.key {
        TextOrSecret::Literal(key) => (Some(values.expand(key)?), None),
        TextOrSecret::Secret { secret } => (None, Some(secret.to_ascii_uppercase())),
    };
    let (name, url) = (entry.name.clone(), values.expand(&entry.url)?);
    Ok(StreamProgram { name, url, key, secret_key, autostart: entry.autostart })
}

/// The variables with secrets, by the name of the secret in the vault.
fn secrets_of(environment: &Environment) -> BTreeMap<String, String> {
    let secrets = environment.iter().filter_map(|(name, value)| match value {
        TextOrSecret::Secret { secret } => Some((name.clone(), secret.to_ascii_uppercase())),
        TextOrSecret::Literal(_) => None,
    });
    secrets.collect()
}

/// Checks for a program that shows notifications, and one that asks it to.
const HAS_NOTIFICATIONS: &str =
    "{ command -v notify-send && grep -rlx Name=org.freedesktop.Notifications /usr/share/dbus-1/services; }";

fn is_supervised(programs: &TemplatePrograms) -> bool {
    !(programs.services.is_empty() && programs.autostart.is_empty())
}

fn notifies(programs: &TemplatePrograms) -> bool {
    let mut actions = programs.triggers.iter().flat_map(|trigger| &trigger.actions);
    actions.any(|action| matches!(action, TriggerAction::Notify { .. }))
}

/// Whether the guest image has what the programs need: the supervisor, and the users root and [`SERVICE_USER`]. The small one
/// lacks tmux and notifications.
pub fn fits_image(programs: &TemplatePrograms) -> bool {
    programs.terminals.is_empty()
        && !notifies(programs)
        && programs.services.iter().all(|service| ["root", SERVICE_USER].contains(&&*service.user))
}

/// The script that succeeds where [`script`] would install and make nothing but the list. It changes nothing.
pub fn requirements(programs: &TemplatePrograms) -> String {
    let mut checks = Vec::new();
    if is_supervised(programs) {
        checks.push("command -v s6-svscan".to_owned());
    }
    if !programs.terminals.is_empty() {
        checks.push("command -v tmux".to_owned());
    }
    if notifies(programs) {
        checks.push(HAS_NOTIFICATIONS.to_owned());
    }
    let users = programs.services.iter().map(|service| service.user.as_str());
    let users: BTreeSet<&str> = users.filter(|user| *user != "root").collect();
    checks.extend(users.into_iter().map(|user| format!("id -u {}", shell_words::quote(user))));
    checks.into_iter().map(|check| format!("{check} >/dev/null 2>&1 || exit 1\n")).collect()
}

/// The script that stores the programs, with the tools that the image lacks: the supervisor, tmux, notifications. It fails for
/// a service whose user does not exist.
pub fn script(programs: &TemplatePrograms) -> Result<String> {
    let mut script = String::new();
    if is_supervised(programs) {
        script.push_str(&format!("command -v s6-svscan >/dev/null || {{\n{APT}s6{APT_CLEAN}}}\n"));
    }
    if !programs.terminals.is_empty() {
        script.push_str(&format!("command -v tmux >/dev/null || {{\n{APT}tmux{APT_CLEAN}}}\n"));
    }
    if notifies(programs) {
        script.push_str(&format!(
            "{HAS_NOTIFICATIONS} >/dev/null 2>&1 || {{\n{APT}dunst libnotify-bin{APT_CLEAN}}}\n"
        ));
    }
    for service in &programs.services {
        let user = shell_words::quote(&service.user);
        let missing = shell_words::join([format!(
            "service {}: there is no user {}: create it in build.run",
            service.name, service.user
        )]);
        let otherwise = match service.user.as_str() {
            SERVICE_USER => format!("useradd --create-home --shell /bin/bash {SERVICE_USER}"),
            _ => format!("{{ echo {missing} >&2; exit 1; }}"),
        };
        script.push_str(&format!("id -u {user} >/dev/null 2>&1 || {otherwise}\n"));
    }
    let text = serde_json::to_string(programs).map_err(Error::internal)?;
    script.push_str(&format!(
        "mkdir -p /etc/hotdesk\nbase64 -d >{PROGRAMS_FILE} <<'END'\n{}\nEND\n",
        STANDARD.encode(text)
    ));
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs_of(text: &str) -> TemplatePrograms {
        let text = format!("api_version: hotdesk/v1\nname: lab@1.0.0\n{text}");
        let definition = hotdesk_wire::template::validate(text.as_bytes()).unwrap();
        programs(&definition, &definition.values().unwrap()).unwrap()
    }

    #[test]
    fn programs_have_their_references_replaced_and_secrets_by_their_name_in_the_vault() {
        let all = programs_of(
            "vars: {port: 3000}\nsecrets: [{name: api_key}]\nenv: {KEY: {secret: api_key}, A: b}\n\
             hooks: {on_first_boot: 'echo ${var.port}', on_resume: 'true'}\n\
             apps: [{name: web, autostart: [{run: 'chromium x', delay: 1s500ms}], services: [\
             {name: api, run: 'serve ${var.port}', env: {P: '${var.port}', T: {secret: api_key}}, restart: on-failure, stop_signal: SIGINT}]}]\n",
        );
        let service = &all.services[0];
        assert_eq!((service.run.as_str(), service.user.as_str()), ("serve 3000", "orgo"));
        assert_eq!((service.restart.as_str(), service.stop_signal.as_str()), ("on-failure", "SIGINT"));
        assert_eq!(
            (&service.env["P"], &service.secret_env["T"]),
            (&"3000".to_owned(), &"API_KEY".to_owned())
        );
        assert_eq!(all.secret_env, [("KEY".to_owned(), "API_KEY".to_owned())].into());
        assert_eq!(
            all.autostart,
            [AutostartProgram { run: "chromium x".to_owned(), delay_ms: 1500, prestart: false }]
        );
        assert_eq!(all.hooks.keys().collect::<Vec<_>>(), ["on_first_boot", "on_resume"]);
        assert_eq!(all.hooks["on_first_boot"], "echo 3000");
    }

    #[test]
    fn all_programs_of_an_application_start_before_a_launch_or_none() {
        let all = programs_of(
            "apps:\n  - {name: a, prestart: true, services: [{name: s, run: x}], autostart: [{run: y}], \
             health: {type: tcp, port: 80}}\n  \
             - {name: b, services: [{name: t, run: x}], autostart: [{run: z}], \
             health: {type: tcp, port: 81}}\n",
        );
        let early = |flags: Vec<bool>| assert_eq!(flags, [true, false]);
        early(all.services.iter().map(|service| service.prestart).collect());
        early(all.autostart.iter().map(|program| program.prestart).collect());
        early(all.health.iter().map(|program| program.prestart).collect());
        // Layers of definitions without the field have the same inputs as before there was one.
        let text = serde_json::to_string(&programs_of("apps: [{name: b, services: [{name: t, run: x}]}]\n"));
        assert!(!text.unwrap().contains("prestart"));
    }

    #[test]
    fn a_template_without_programs_has_no_step_for_them() {
        assert_eq!(programs_of("env: {A: b}\n"), TemplatePrograms::default());
    }

    #[test]
    fn only_the_default_user_is_made() {
        let text = |user: &str| {
            script(&programs_of(&format!("apps: [{{name: web, services: [{{name: api, run: x{user}}}]}}]\n")))
                .unwrap()
        };
        assert!(text("").contains("|| useradd --create-home --shell /bin/bash orgo\n"));
        assert!(
            text(", user: web").contains("'service api: there is no user web: create it in build.run' >&2")
        );
    }
}
