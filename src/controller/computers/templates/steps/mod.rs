//! Steps of a build from a definition: one script for each.

pub(super) mod desktop;
pub(super) mod downloads;
pub(super) mod files;
pub(super) mod program_list;
pub(super) mod programs;
pub(super) mod run;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use hotdesk_domain::computer::template::build::{BuildStep, ENVIRONMENT_FILE, StepKind};
use hotdesk_domain::error::Result;
use hotdesk_wire::programs::service::TemplatePrograms;
use hotdesk_wire::template::TemplateDefinition;

use super::apt::{APT, APT_CLEAN};

/// `--break-system-packages`: the computer is the environment of these packages.
const PIP: &str = "python3 -m pip install --no-input --break-system-packages -- ";
const NPM: &str = "npm install --global --no-fund --no-audit -- ";

/// Packages of the sound server, which the session starts.
const SOUND: &str = "pulseaudio pulseaudio-utils";

/// Returns the steps of a definition, in the order in which they run.
///
/// # Errors
/// `Internal` for a definition that is not valid.
pub fn steps(definition: &TemplateDefinition) -> Result<Vec<BuildStep>> {
    let values = definition.values()?;
    let mut steps = Vec::new();
    if !values.environment().is_empty() {
        let script = environment_script(values.environment());
        steps.push(BuildStep { kind: StepKind::Files, field: "env".to_owned(), script });
    }
    // The guest image has sound. The package sources of an imported image may lack it, which its desktop does without.
    if definition.hardware.audio && definition.base.is_some() {
        let (field, script) = ("hardware.audio".to_owned(), tool("command -v pulseaudio", SOUND));
        steps.push(BuildStep { kind: StepKind::Apt, field, script });
    }
    let build = &definition.build;
    let lists = [
        (StepKind::Apt, "build.apt", &build.apt),
        (StepKind::Pip, "build.pip", &build.pip),
        (StepKind::Npm, "build.npm", &build.npm),
    ];
    for (kind, field, packages) in lists {
        if !packages.is_empty() {
            let packages: Vec<String> =
                packages.iter().map(|package| values.expand(package)).collect::<Result<_>>()?;
            let script = install_script(kind, &shell_words::join(packages));
            steps.push(BuildStep { kind, field: field.to_owned(), script });
        }
    }
    let script = files::build_script(definition, &values)?;
    if !script.is_empty() {
        steps.push(BuildStep { kind: StepKind::Files, field: "files".to_owned(), script });
    }
    let installs =
        definition.apps.iter().enumerate().filter_map(|(at, app)| Some((at, app.install.as_ref()?)));
    for (at, script) in installs {
        let (field, script) = (format!("apps[{at}].install"), values.expand(script)?);
        steps.push(BuildStep { kind: StepKind::Install, field, script });
    }
    for (at, script) in build.run.iter().enumerate() {
        let (field, script) = (format!("build.run[{at}]"), values.expand(script)?);
        steps.push(BuildStep { kind: StepKind::Run, field, script });
    }
    let programs = programs::programs(definition, &values)?;
    if programs != TemplatePrograms::default() {
        // Last: the user of a service or a file may be of any step.
        let script = programs::script(&programs)? + &files::owner_checks(definition);
        steps.push(BuildStep { kind: StepKind::Programs, field: "apps and hooks".to_owned(), script });
    }
    Ok(steps)
}

/// The script that stores the environment, which every program of the computer has.
fn environment_script(environment: &BTreeMap<String, String>) -> String {
    let entries: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}\0")).collect();
    format!(
        "mkdir -p /etc/hotdesk\nbase64 -d >{ENVIRONMENT_FILE} <<'END'\n{}\nEND\n",
        STANDARD.encode(entries.concat())
    )
}

/// The script that installs the packages of a tool where its check fails.
fn tool(check: &str, packages: &str) -> String {
    format!("{check} >/dev/null 2>&1 || {{\n{APT}{packages}{APT_CLEAN}}}\n")
}

/// The script that installs packages with a tool, and the tool first where the image lacks it.
fn install_script(kind: StepKind, packages: &str) -> String {
    match kind {
        StepKind::Pip => format!("{}{PIP}{packages}\n", tool("python3 -m pip --version", "python3-pip")),
        StepKind::Npm => format!("{}{NPM}{packages}\n", tool("npm --version", "npm")),
        StepKind::Base
        | StepKind::Desktop
        | StepKind::Apt
        | StepKind::Files
        | StepKind::Install
        | StepKind::Run
        | StepKind::Programs => {
            format!("{APT}{packages}{APT_CLEAN}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(text: &str) -> Vec<(StepKind, String, String)> {
        let definition = hotdesk_wire::template::validate(text.as_bytes()).unwrap();
        steps(&definition).unwrap().into_iter().map(|step| (step.kind, step.field, step.script)).collect()
    }

    #[test]
    fn steps_run_in_the_documented_order_with_their_references_replaced() {
        let all = steps_of(
            "api_version: hotdesk/v1\nname: lab@1.0.0\nvars: {tool: jq, port: 3000}\nenv: {A: '${var.port}', B: x}\n\
             build: {run: ['echo ${var.port}', 'echo ${HOME}'], npm: [left-pad], pip: ['six==1.16.0'], apt: ['${var.tool}', curl]}\n\
             files: [{to: /etc/motd, inline: 'port ${var.port}', mode: '0640', owner: root, group: adm}]\n\
             apps: [{name: web, install: 'make install'}]\n",
        );
        let fields: Vec<&str> = all.iter().map(|(_, field, _)| field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "env",
                "build.apt",
                "build.pip",
                "build.npm",
                "files",
                "apps[0].install",
                "build.run[0]",
                "build.run[1]"
            ]
        );
        assert!(all[0].2.contains(&STANDARD.encode("A=3000\0B=x\0")), "{}", all[0].2);
        assert!(all[1].2.contains(" -- jq curl\n"), "{}", all[1].2);
        assert!(all[2].2.ends_with(" -- 'six==1.16.0'\n") && all[3].2.ends_with(" -- left-pad\n"));
        let content = STANDARD.encode("port 3000");
        let expected = format!(
            "mkdir -p -- \"$(dirname -- /etc/motd)\"\nbase64 -d >/etc/motd <<'END'\n{content}\nEND\n\
             chmod 0640 -- /etc/motd\nchown root:adm -- /etc/motd\n"
        );
        assert_eq!(all[4].2, expected);
        assert_eq!((all[6].2.as_str(), all[7].2.as_str()), ("echo 3000", "echo ${HOME}"));
    }

    #[test]
    fn a_template_that_needs_sound_has_it_on_an_imported_image_too() {
        let fields = |hardware: &str, base: &str| {
            let text =
                format!("api_version: hotdesk/v1\nname: lab@1.0.0\nhardware: {{{hardware}}}\n{base}\n");
            steps_of(&text).into_iter().map(|(_, field, _)| field).collect::<Vec<_>>()
        };
        assert_eq!(fields("audio: true", "base: debian-13"), ["hardware.audio"]);
        for (hardware, base) in
            [("audio: true", ""), ("audio: false", "base: debian-13"), ("", "base: debian-13")]
        {
            assert!(fields(hardware, base).is_empty(), "{hardware} {base}");
        }
    }

    #[test]
    fn texts_of_a_definition_are_single_words_of_the_shell() {
        let all = steps_of(
            "api_version: hotdesk/v1\nname: lab@1.0.0\n\
             files: [{to: \"~/a b'$(id)\", from: 'https://example.com/x?a=1&b=$(id)'}, {to: /opt/x, inline: '', owner: web}]\n",
        );
        let script = &all[0].2;
        for part in [
            "mkdir -p -- \"$(dirname -- \"$HOME\"/'a b'\\''$(id)')\"\n",
            "-- 'https://example.com/x?a=1&b=$(id)'\n",
            "chown web -- /opt/x\n",
        ] {
            assert!(script.contains(part), "{part} is not in {script}");
        }
    }
}
