//! What builds and launches cannot do yet with a valid definition. It is refused, never ignored.

use super::triggers;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::template::{FileMoment, PortProtocol, TemplateDefinition};

/// The URL of a file's source, if a build can download it.
pub fn download_url(from: &str) -> Option<&str> {
    Some(from).filter(|from| ["https://", "http://"].iter().any(|scheme| from.starts_with(scheme)))
}

/// Checks that a definition has no field that a build would have to ignore.
///
/// # Errors
/// `Unprocessable` (`template_invalid`), with all such fields.
pub fn check_supported(definition: &TemplateDefinition) -> Result<()> {
    let mut fields = Vec::new();
    let mut note = |is_there: bool, field: &str| {
        if is_there {
            fields.push(field.to_owned());
        }
    };
    for (at, trigger) in definition.triggers.iter().enumerate() {
        triggers::unsupported(trigger)
            .iter()
            .for_each(|field| note(true, &format!("triggers[{at}].{field}")));
    }
    note(!definition.terminal.is_empty(), "terminal");
    note(definition.telemetry != hotdesk_wire::template::Telemetry::default(), "telemetry");
    note(!definition.streaming.is_empty(), "streaming");
    for (at, app) in definition.apps.iter().enumerate() {
        for (number, port) in app.ports.iter().enumerate() {
            let is_open_udp = port.public && port.protocol == PortProtocol::Udp;
            note(is_open_udp, &format!("apps[{at}].ports[{number}] (a public port of UDP)"));
        }
    }
    for (at, file) in definition.files.iter().enumerate() {
        note(file.when == FileMoment::Runtime, &format!("files[{at}] at runtime"));
        let is_other = file.from.as_deref().is_some_and(|from| download_url(from).is_none());
        note(is_other, &format!("files[{at}].from other than http:// and https://"));
    }
    if fields.is_empty() {
        return Ok(());
    }
    let message = format!("this service cannot build these parts yet: {}", fields.join(", "));
    Err(Error::unprocessable(message).code(ErrorCode::TemplateInvalid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ignored_field_is_named() {
        let check = |text: &str| {
            let text = format!("api_version: hotdesk/v1\nname: lab@1.0.0\n{text}");
            let definition = hotdesk_wire::template::validate(text.as_bytes()).unwrap();
            check_supported(&definition).map_err(|error| error.message)
        };
        let fine = "secrets: [{name: key}]\nenv: {A: b, K: {secret: key}}\nbuild: {apt: [jq], run: ['true']}\nfiles: {/etc/motd: hi}\n\
                    apps: [{name: web, install: 'true', services: [{name: api, run: x}], health: {type: tcp, port: 3000}, \
                    autostart: [{run: x}], ports: [{internal: 53, protocol: udp}, {internal: 3000, public: true}]}]\n\
                    egress_policy: {mode: allow, rules: [example.com]}\n\
                    hooks: {on_first_boot: 'true', on_every_boot: 'true', on_resume: 'true', on_pre_snapshot: 'true', \
                    on_shutdown: 'true'}\nhardware: {cpu: 2}";
        assert_eq!(check(fine), Ok(()));
        for (text, field) in [
            ("terminal: [{name: main}]", "terminal"),
            ("telemetry: {metrics: true}", "telemetry"),
            ("streaming: [{name: live, url: 'rtmp://live.example/app'}]", "streaming"),
            (
                "apps: [{name: web, ports: [{internal: 3000}, {internal: 53, protocol: udp, public: true}]}]",
                "apps[0].ports[1] (a public port of UDP)",
            ),
            ("files: [{to: /a, inline: x, when: runtime}]", "files[0] at runtime"),
            ("files: [{to: /a, from: assets/x}]", "files[0].from other than http:// and https://"),
            (
                "triggers: [{name: t, source: {type: process, process: x}, actions: [{type: log, message: m}, {type: notify, title: m}]}]",
                "triggers[0].actions[1].type notify",
            ),
            (
                "triggers: [{name: t, source: {type: process, process: x}, actions: [{type: webhook, url: 'https://{{ event.x }}/'}]}]",
                "triggers[0].actions[0].url with a reference to the event in its host",
            ),
            (
                "triggers: [{name: t, source: {type: metric, metric: luck, op: '>', value: 1}, actions: [{type: log, message: m}]}]",
                "triggers[0].source.metric other than cpu, memory, disk",
            ),
            (
                "triggers: [{name: t, source: {type: event, event: luck}, actions: [{type: log, message: m}]}]",
                "triggers[0].source.event other than boot, resume, unhealthy, healthy",
            ),
            (
                "triggers: [{name: t, source: {type: desktop, event: agent_change}, actions: [{type: log, message: m}]}]",
                "triggers[0].source.event agent_change, which the computer does not see",
            ),
        ] {
            let expected = format!("this service cannot build these parts yet: {field}");
            assert_eq!(check(text), Err(expected), "{text}");
        }
    }
}
