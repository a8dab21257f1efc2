//! Parts of a valid definition that builds and launches do not support yet. They are refused, never ignored.

use super::steps::files::{Download, download};
use super::triggers;
use hotdesk_domain::desktop::stream::check_key;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::template::{FileMoment, PortProtocol, TemplateDefinition, TextOrSecret};

/// Checks that a definition has no field that a build would have to ignore.
///
/// # Errors
/// `Unprocessable` (`template_invalid`), with all such fields; `Internal` for a definition that is not valid.
pub fn check_supported(definition: &TemplateDefinition) -> Result<()> {
    let mut fields = Vec::new();
    let mut note = |is_there: bool, field: &str| {
        if is_there {
            fields.push(field.to_owned());
        }
    };
    let values = definition.values()?;
    for (at, entry) in definition.triggers.iter().enumerate() {
        triggers::unsupported(&triggers::trigger(entry, &values)?)
            .iter()
            .for_each(|field| note(true, &format!("triggers[{at}].{field}")));
    }
    let keyless = definition.streaming.iter().position(|stream| stream.key.is_none());
    note(keyless.is_some(), &format!("streaming[{}] without a key", keyless.unwrap_or_default()));
    for (at, stream) in definition.streaming.iter().enumerate() {
        if let Some(TextOrSecret::Literal(key)) = &stream.key {
            let wrong = check_key(&values.expand(key)?).err();
            let why = wrong.as_ref().map_or("", |error| error.message.as_str());
            note(wrong.is_some(), &format!("streaming[{at}].key: {why}"));
        }
    }
    let started = definition.streaming.iter().filter(|stream| stream.autostart).count();
    note(started > 1, "streaming with more than one autostart: a computer has one stream at a time");
    for (at, app) in definition.apps.iter().enumerate() {
        for (number, port) in app.ports.iter().enumerate() {
            let is_open_udp = port.public && port.protocol == PortProtocol::Udp;
            note(is_open_udp, &format!("apps[{at}].ports[{number}] (a public port of UDP)"));
        }
    }
    for (at, file) in definition.files.iter().enumerate() {
        let Some(from) = &file.from else { continue };
        let from = values.expand(from)?;
        if from.starts_with("secret://") {
            continue;
        }
        match download(&from) {
            Ok(Download::Url(_)) => {}
            Ok(Download::Repository { .. }) => {
                let is_late = file.when == FileMoment::Runtime;
                note(is_late, &format!("files[{at}]: a repository at runtime; clone it in a hook"));
            }
            Err(why) => note(true, &format!("files[{at}].from: {why}")),
        }
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
        let fine = "secrets: [{name: key}]\nenv: {A: b, K: {secret: key}}\nbuild: {apt: [jq], run: ['true']}\n\n\
                    files: [{to: /etc/motd, inline: hi, when: runtime}, {to: /a, from: 'secret://key'}, {to: /b, from: 'git+https://example.com/r#v1'}]\n\
                    apps: [{name: web, install: 'true', services: [{name: api, run: x}], health: {type: tcp, port: 3000}, \
                    autostart: [{run: x}], ports: [{internal: 53, protocol: udp}, {internal: 3000, public: true}]}]\n\
                    egress_policy: {mode: allow, rules: [example.com]}\n\
                    terminal: [{name: main, run: top}]\ntelemetry: {metrics: true}\n\
                    streaming: [{name: live, url: 'rtmp://live.example/app', key: {secret: key}, autostart: true}]\n\
                    triggers: [{name: t, source: {type: process, process: x}, actions: [{type: notify, title: m}, {type: api, endpoint: /screenshot}]}]\n\
                    hooks: {on_first_boot: 'true', on_every_boot: 'true', on_resume: 'true', on_pre_snapshot: 'true', \
                    on_shutdown: 'true'}\nhardware: {cpu: 2}";
        assert_eq!(check(fine), Ok(()));
        for (text, field) in [
            ("streaming: [{name: live, url: 'rtmp://live.example/app'}]", "streaming[0] without a key"),
            (
                "streaming: [{name: a, url: 'rtmp://a.example/app', key: x, autostart: true}, {name: b, url: 'rtmp://b.example/app', key: x, autostart: true}]",
                "streaming with more than one autostart: a computer has one stream at a time",
            ),
            (
                "streaming: [{name: a, url: 'rtmp://a.example/app', key: 'a key'}]",
                "streaming[0].key: key must have only printable ASCII characters and no white space",
            ),
            (
                "apps: [{name: web, ports: [{internal: 3000}, {internal: 53, protocol: udp, public: true}]}]",
                "apps[0].ports[1] (a public port of UDP)",
            ),
            (
                "files: [{to: /a, from: 'git://example.com/r', when: runtime}]",
                "files[0]: a repository at runtime; clone it in a hook",
            ),
            (
                "files: [{to: /a, from: assets/x}]",
                "files[0].from: a path beside the definition file: hotdesk templates publish reads such a file; over HTTP write it \
                 inline, or give a URL",
            ),
            (
                "files: [{to: /a, from: 's3://bucket'}]",
                "files[0].from: s3:// without a bucket of lower-case letters, digits and dashes, and a key",
            ),
            (
                "triggers: [{name: t, source: {type: process, process: x}, actions: [{type: log, message: m}, {type: api, endpoint: /delete}]}]",
                "triggers[0].actions[1].endpoint: /delete is not an action of the computer",
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
