//! Scripts that write the files of a definition: in a build, or whenever a computer starts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use hotdesk_domain::computer::template::fault::Fault;
use hotdesk_domain::computer::template::path::{self, FileSource};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::RuntimeFile;
use hotdesk_wire::template::{FileMoment, TemplateDefinition, TemplateFile, TemplateValues};

use super::tool;

/// Beginning of a source that is a secret.
const SECRET: &str = "secret://";

/// Folder of the drafts of files that each boot writes, which only root may enter.
const DRAFTS: &str = "/var/lib/hotdesk/files";
/// The draft, as a word of the shell.
const DRAFT: &str = "\"$draft\"";

/// The function `enter`, which makes a folder and goes there. It refuses one that is reached through a symbolic link: somebody
/// who may write to a folder on the way would lead root elsewhere. Links in `/`, such as `/bin`, are those of root. `env pwd` asks
/// the kernel, so that the place cannot be another one afterwards.
const ENTER: &str = r#"enter() {
local top="${1#/}" real
top="/${top%%/*}"
real="$(realpath -m -- "$top")"
real="${real%/}${1#"$top"}"
real="${real:-/}"
if [ "$(realpath -m -- "$1")" = "$real" ]; then mkdir -p -- "$1"; cd -P -- "$1"; fi
if [ "$(env pwd -P)" != "$real" ]; then
echo "$1 is reached through a symbolic link, which root does not follow: write the path where it leads to" >&2
exit 1
fi
}
"#;

/// Returns the script that writes all files of the build; empty without any.
///
/// # Errors
/// `Internal` for a definition that is not valid.
pub fn build_script(definition: &TemplateDefinition, values: &TemplateValues<'_>) -> Result<String> {
    let files = definition.files.iter().filter(|file| file.when == FileMoment::Build);
    files.map(|file| file_script(file, values)).collect()
}

/// Returns the files that are written whenever a computer starts.
///
/// # Errors
/// `Internal` for a definition that is not valid.
pub fn runtime_files(
    definition: &TemplateDefinition,
    values: &TemplateValues<'_>,
) -> Result<Vec<RuntimeFile>> {
    let files = definition.files.iter().filter(|file| file.when == FileMoment::Runtime).enumerate();
    let written = files.map(|(at, file)| {
        let from = file.from.as_deref().map(|from| values.expand(from)).transpose()?;
        match from.as_deref().and_then(|from| from.strip_prefix(SECRET)) {
            Some(name) => {
                let script = secret_script(at, file, &values.expand(&file.to)?, &name.to_ascii_uppercase());
                Ok(RuntimeFile { script, secret: true })
            }
            None => Ok(RuntimeFile { script: boot_script(at, file, values)?, secret: false }),
        }
    });
    written.collect()
}

/// Returns the checks of the owners and groups of runtime files, which must exist after the build.
pub fn owner_checks(definition: &TemplateDefinition) -> String {
    let mut script = String::new();
    for file in definition.files.iter().filter(|file| file.when == FileMoment::Runtime) {
        for (database, name) in [("passwd", &file.owner), ("group", &file.group)] {
            let Some(name) = name else { continue };
            let missing = shell_words::join([format!(
                "file {}: {database} has no {name}: create it in build.run",
                file.to
            )]);
            let name = shell_words::quote(name);
            script.push_str(&format!(
                "getent {database} {name} >/dev/null || {{ echo {missing} >&2; exit 1; }}\n"
            ));
        }
    }
    script
}

/// The script of a build that writes a file, with its folders.
fn file_script(file: &TemplateFile, values: &TemplateValues<'_>) -> Result<String> {
    let to = guest_path(&values.expand(&file.to)?);
    let (content, is_folder) = content_script(file, values, &to)?;
    Ok(format!("mkdir -p -- \"$(dirname -- {to})\"\n{content}{}", attributes(file, &to, is_folder)))
}

/// The script of a boot that writes a file: complete and with its owner, or not at all. Users of the computer may write to the
/// folders on the way, so that root follows no link there, and gives nothing away that is not its own draft.
fn boot_script(at: usize, file: &TemplateFile, values: &TemplateValues<'_>) -> Result<String> {
    let (folder, name) = split(&values.expand(&file.to)?);
    let (content, is_folder) = content_script(file, values, DRAFT)?;
    Ok(format!(
        "{ENTER}install -d -m 0700 -- {DRAFTS}\ndraft={DRAFTS}/{at}\ntrap 'rm -f -- {DRAFT}' EXIT\nrm -f -- {DRAFT}\n\
         {content}{}enter {folder}\nmv -fT -- {DRAFT} {name}\n",
        attributes(file, DRAFT, is_folder)
    ))
}

/// The commands that write the content of a file to `to`, a word of the shell, and whether that becomes a folder. A text is in them
/// as Base64: it may have any bytes.
fn content_script(file: &TemplateFile, values: &TemplateValues<'_>, to: &str) -> Result<(String, bool)> {
    if let Some(content) = &file.inline {
        let content = STANDARD.encode(values.expand(content)?);
        return Ok((format!("base64 -d >{to} <<'END'\n{content}\nEND\n"), false));
    }
    let Some(from) = &file.from else { return Ok((String::new(), false)) };
    let from = values.expand(from)?;
    let refused =
        |fault: Fault| Error::internal(format!("a build began with a file whose source {}", fault.message));
    match path::source(&from).map_err(refused)? {
        FileSource::Url(url) => {
            let url = shell_words::quote(&url).into_owned();
            Ok((format!("curl -fsSL --globoff --retry 3 -o {to} -- {url}\n"), false))
        }
        FileSource::Repository { url, reference } => {
            let url = shell_words::quote(url);
            let mut script = tool("git --version", "git");
            // Without a terminal git would wait for a password of a repository that is not public.
            script.push_str(&format!("GIT_TERMINAL_PROMPT=0 git clone -q -- {url} {to}\n"));
            if let Some(reference) = reference {
                let reference = shell_words::quote(reference);
                script.push_str(&format!("git -C {to} checkout -q {reference} --\n"));
            }
            Ok((script, true))
        }
        FileSource::Secret(_) | FileSource::Beside(_) => {
            Err(Error::internal("a build began with a file that is no download"))
        }
    }
}

/// The script that writes the value of a secret into memory, and a link to it at its place. Without the secret the link leads
/// nowhere, also when the value cannot be given to its owner. Only a subshell without programs has the value: a secret may have the
/// name of a variable that programs inherit.
fn secret_script(at: usize, file: &TemplateFile, to: &str, secret: &str) -> String {
    let (folder, name) = split(to);
    let attributes = attributes(file, DRAFT, false);
    format!(
        "{ENTER}place=\"$hotdesk_files/{at}\" draft=\"$hotdesk_files/{at}.new\"\n\
         trap 'rm -f -- {DRAFT} \"$place\"' ERR\nrm -f -- {DRAFT}\numask 077\n\
         (\nunset {secret}\nif [ -r \"$hotdesk_secrets\" ]; then . \"$hotdesk_secrets\"; fi\n\
         if [ -n \"${{{secret}+set}}\" ]; then printf %s \"${secret}\" >{DRAFT}; fi\n)\n\
         if [ -e {DRAFT} ]; then\n{attributes}mv -fT -- {DRAFT} \"$place\"\nelse\nrm -f -- \"$place\"\nfi\n\
         umask 022\ntrap - ERR\nenter {folder}\nln -sfnT -- \"$place\" {name}\n"
    )
}

/// The commands that give a file its mode and its owner. `path` is a word of the shell.
fn attributes(file: &TemplateFile, path: &str, is_folder: bool) -> String {
    let mut script = String::new();
    let owner = match (&file.owner, &file.group) {
        (None, None) => None,
        (Some(owner), None) => Some(owner.clone()),
        (owner, Some(group)) => Some(format!("{}:{group}", owner.as_deref().unwrap_or_default())),
    };
    if let Some(mode) = &file.mode {
        script.push_str(&format!("chmod {mode} -- {path}\n"));
    }
    if let Some(owner) = owner {
        let all = if is_folder { "-R " } else { "" };
        script.push_str(&format!("chown {all}{} -- {path}\n", shell_words::quote(&owner)));
    }
    script
}

/// A path of a definition as a word of the shell.
fn guest_path(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", shell_words::quote(rest)),
        None => shell_words::quote(path).into_owned(),
    }
}

/// The folder and the name of a file as words of the shell.
fn split(to: &str) -> (String, String) {
    let (folder, name) = to.rsplit_once('/').unwrap_or(("", to));
    let folder = match folder {
        "" => "/".to_owned(),
        "~" => "\"$HOME\"".to_owned(),
        folder => guest_path(folder),
    };
    (folder, shell_words::quote(name).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    fn definition(files: &str) -> TemplateDefinition {
        let text = format!(
            "api_version: hotdesk/v1\nname: lab@1.0.0\nvars: {{host: example.com}}\nsecrets: [{{name: api_key}}]\nfiles: {files}\n"
        );
        hotdesk_wire::template::validate(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_object_of_s3_is_downloaded_to_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let curl = folder.path().join("curl");
        // Writes its last argument to the file after -o.
        let program = "#!/bin/sh\nfor last; do :; done\nuntil [ \"$1\" = -o ]; do shift; done\nprintf %s \"$last\" >\"$2\"\n";
        fs::write(&curl, program).unwrap();
        fs::set_permissions(&curl, fs::Permissions::from_mode(0o755)).unwrap();
        let all = definition("[{to: /opt/x, from: \"s3://b/${var.host}/it's$(id).tar\"}]");
        let (script, is_folder) =
            content_script(&all.files[0], &all.values().unwrap(), "\"$place\"").unwrap();
        assert!(!is_folder);
        let place = folder.path().join("a place");
        let mut command = Command::new("bash");
        command.args(["-e", "-c", &script]).env("place", &place);
        command.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
        assert!(command.status().unwrap().success(), "{script}");
        let expected = "https://b.s3.amazonaws.com/example.com/it%27s%24%28id%29.tar";
        assert_eq!(fs::read_to_string(&place).unwrap(), expected);
        for when in ["build", "runtime"] {
            let all = definition(&format!(
                "[{{to: /opt/x, from: 's3://b/k', when: {when}, mode: '0640', owner: web}}]"
            ));
            let values = all.values().unwrap();
            let script = match when {
                "build" => build_script(&all, &values).unwrap(),
                _ => runtime_files(&all, &values).unwrap().remove(0).script,
            };
            assert!(script.contains(" -- https://b.s3.amazonaws.com/k\nchmod 0640 -- "), "{script}");
        }
    }

    #[test]
    fn a_repository_is_cloned_into_its_folder() {
        let all = definition(
            "[{to: ~/code, from: 'git+https://${var.host}/r.git#main', mode: '0750', owner: web, group: web}]",
        );
        let script = build_script(&all, &all.values().unwrap()).unwrap();
        for part in [
            "git --version >/dev/null 2>&1 || {\n",
            "GIT_TERMINAL_PROMPT=0 git clone -q -- https://example.com/r.git \"$HOME\"/code\n\
             git -C \"$HOME\"/code checkout -q main --\nchmod 0750 -- \"$HOME\"/code\nchown -R web:web -- \"$HOME\"/code\n",
        ] {
            assert!(script.contains(part), "{part} is not in {script}");
        }
    }

    #[test]
    fn secrets_are_only_written_at_runtime_and_by_name() {
        let all = definition(
            "[{to: /opt/key, from: 'secret://api_key', mode: '0400', owner: web}, {to: /opt/now, inline: x, when: runtime}, {to: /opt/x, inline: y}]",
        );
        let values = all.values().unwrap();
        assert!(!build_script(&all, &values).unwrap().contains("/opt/key"));
        let files = runtime_files(&all, &values).unwrap();
        assert_eq!(files.iter().map(|file| file.secret).collect::<Vec<_>>(), [true, false]);
        let script = &files[0].script;
        assert!(script.contains("\nchmod 0400 -- \"$draft\"\nchown web -- \"$draft\"\nmv "), "{script}");
        assert!(script.ends_with("enter /opt\nln -sfnT -- \"$place\" key\n"), "{script}");
        assert!(files[1].script.contains("base64 -d >\"$draft\""), "{}", files[1].script);
        assert!(files[1].script.ends_with("enter /opt\nmv -fT -- \"$draft\" now\n"), "{}", files[1].script);
        assert!(owner_checks(&all).starts_with("getent passwd web >/dev/null || "));
    }

    #[test]
    fn a_folder_behind_a_link_is_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        symlink(root.join("elsewhere"), root.join("link")).unwrap();
        let enter = |path: &str| {
            let script = format!("{ENTER}enter \"$1\"\ntouch here");
            Command::new("bash")
                .args(["-e", "-c", &script, "bash"])
                .arg(path)
                .output()
                .unwrap()
                .status
                .success()
        };
        for (path, expected) in [("new/a b", true), ("new", true), ("link", false), ("link/new", false)] {
            let path = root.join(path);
            assert_eq!(enter(path.to_str().unwrap()), expected, "{path:?}");
            assert!(!expected || path.join("here").exists(), "{path:?}");
        }
        assert_eq!(fs::read_dir(root.join("elsewhere")).unwrap().count(), 0);
        for (to, expected) in [
            ("/motd", ("/", "motd")),
            ("~/now", ("\"$HOME\"", "now")),
            ("~/a b/c", ("\"$HOME\"/'a b'", "c")),
            ("/opt/app/x y", ("/opt/app", "'x y'")),
        ] {
            assert_eq!(split(to), (expected.0.to_owned(), expected.1.to_owned()), "{to}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_given_to_its_owner_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let run = |owner: &str, value: Option<&str>| {
            let all = definition(&format!("[{{to: /opt/key, from: 'secret://api_key'{owner}}}]"));
            let to = format!("{}/app/key", root.display());
            let script = secret_script(0, &all.files[0], &to, "API_KEY");
            // The file may also set a variable that programs inherit.
            let text = value.map_or(String::new(), |value| format!("PATH='{value}'\nAPI_KEY='{value}'\n"));
            fs::write(root.join("secrets"), text).unwrap();
            let mut command = Command::new("bash");
            command.args(["-e", "-c", &script]);
            command.env("hotdesk_secrets", root.join("secrets")).env("hotdesk_files", &root);
            let is_written = command.output().unwrap().status.success();
            (is_written, fs::read_to_string(root.join("app/key")).ok())
        };
        let absent = ", owner: nobody-here";
        assert_eq!(run("", Some("one")), (true, Some("one".to_owned())));
        assert_eq!(run(absent, Some("two")), (false, None));
        assert_eq!(run("", Some("three")), (true, Some("three".to_owned())));
        assert_eq!(run("", None), (true, None));
    }
}
