//! Scripts that write the files of a definition: in a build, or whenever a computer starts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::RuntimeFile;
use hotdesk_wire::template::{FileMoment, TemplateDefinition, TemplateFile, TemplateValues};

use super::tool;

/// Beginning of a source that is a secret.
const SECRET: &str = "secret://";

/// Where a file or folder is downloaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Download<'a> {
    /// A file, by the URL that curl reads.
    Url(String),
    /// A repository of git.
    Repository {
        /// URL that git reads.
        url: &'a str,
        /// Branch, tag or commit.
        reference: Option<&'a str>,
    },
}

/// Reads a source of a file. Objects of S3 are read by anybody's URL: a template has no credentials of the operator.
///
/// # Errors
/// Why a build cannot read it.
pub fn download(from: &str) -> Result<Download<'_>, &'static str> {
    if ["https://", "http://"].iter().any(|scheme| from.starts_with(scheme)) {
        return Ok(Download::Url(from.to_owned()));
    }
    if let Some(object) = from.strip_prefix("s3://") {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        return match object.split_once('/') {
            Some((bucket, key)) if !key.is_empty() && !bucket.is_empty() && bucket.chars().all(is_plain) => {
                Ok(Download::Url(format!("https://{bucket}.s3.amazonaws.com/{key}")))
            }
            _ => Err("s3:// without a bucket of lower-case letters, digits and dashes, and a key"),
        };
    }
    if from.starts_with("git://") || from.starts_with("git+https://") {
        let (url, reference) = from.split_once('#').map_or((from, None), |(url, name)| (url, Some(name)));
        if reference.is_some_and(|name| name.is_empty() || name.starts_with('-')) {
            return Err("a repository whose branch, tag or commit is empty or begins with a dash");
        }
        return Ok(Download::Repository { url: url.strip_prefix("git+").unwrap_or(url), reference });
    }
    Err(
        "a path beside the definition file: hotdesk templates publish reads such a file; over HTTP write it inline, or \
         give a URL",
    )
}

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
            None => Ok(RuntimeFile { script: file_script(file, values)?, secret: false }),
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

/// The script that writes a file, with its folders. The content is in it as Base64: it may have any bytes.
fn file_script(file: &TemplateFile, values: &TemplateValues<'_>) -> Result<String> {
    let to = guest_path(&values.expand(&file.to)?);
    let mut script = format!("mkdir -p -- \"$(dirname -- {to})\"\n");
    let mut is_folder = false;
    if let Some(content) = &file.inline {
        let content = STANDARD.encode(values.expand(content)?);
        script.push_str(&format!("base64 -d >{to} <<'END'\n{content}\nEND\n"));
    } else if let Some(from) = &file.from {
        let from = values.expand(from)?;
        let refused = |why| Error::internal(format!("a build began with a file that it cannot read: {why}"));
        match download(&from).map_err(refused)? {
            Download::Url(url) => {
                let url = shell_words::quote(&url).into_owned();
                script.push_str(&format!("curl -fsSL --globoff --retry 3 -o {to} -- {url}\n"));
            }
            Download::Repository { url, reference } => {
                is_folder = true;
                let url = shell_words::quote(url);
                script.push_str(&tool("git --version", "git"));
                // Without a terminal git would wait for a password of a repository that is not public.
                script.push_str(&format!("GIT_TERMINAL_PROMPT=0 git clone -q -- {url} {to}\n"));
                if let Some(reference) = reference {
                    let reference = shell_words::quote(reference);
                    script.push_str(&format!("git -C {to} checkout -q {reference} --\n"));
                }
            }
        }
    }
    script.push_str(&attributes(file, &to, is_folder));
    Ok(script)
}

/// The script that writes the value of a secret into memory, and a link to it at its place. Without the secret the link leads
/// nowhere.
fn secret_script(at: usize, file: &TemplateFile, to: &str, secret: &str) -> String {
    let to = guest_path(to);
    let attributes = attributes(file, "\"$draft\"", false);
    format!(
        "unset {secret}\nif [ -r \"$hotdesk_secrets\" ]; then . \"$hotdesk_secrets\"; fi\n\
         place=\"$hotdesk_files/{at}\" draft=\"$hotdesk_files/{at}.new\"\nrm -f -- \"$draft\"\n\
         if [ -n \"${{{secret}+set}}\" ]; then\numask 077\nprintf %s \"${secret}\" >\"$draft\"\n{attributes}\
         mv -fT -- \"$draft\" \"$place\"\numask 022\nelse\nrm -f -- \"$place\"\nfi\n\
         mkdir -p -- \"$(dirname -- {to})\"\nln -sfnT -- \"$place\" {to}\n"
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

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(files: &str) -> TemplateDefinition {
        let text = format!(
            "api_version: hotdesk/v1\nname: lab@1.0.0\nvars: {{host: example.com}}\nsecrets: [{{name: api_key}}]\nfiles: {files}\n"
        );
        hotdesk_wire::template::validate(text.as_bytes()).unwrap()
    }

    #[test]
    fn sources_are_files_or_repositories() {
        let url = |url: &str| Ok(Download::Url(url.to_owned()));
        let repository = |url, reference| Ok(Download::Repository { url, reference });
        for (from, expected) in [
            ("https://example.com/a?b#c", url("https://example.com/a?b#c")),
            ("s3://bucket-1/a/b.tar", url("https://bucket-1.s3.amazonaws.com/a/b.tar")),
            ("git+https://example.com/r.git", repository("https://example.com/r.git", None)),
            ("git://example.com/r#v1.0", repository("git://example.com/r", Some("v1.0"))),
        ] {
            assert_eq!(download(from), expected, "{from}");
        }
        for from in [
            "s3://bucket",
            "s3://bucket/",
            "s3://a@b/c",
            "s3://a.b/c",
            "git://h/r#-x",
            "git://h/r#",
            "assets/x",
        ] {
            assert!(download(from).is_err(), "{from}");
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
        assert!(script.contains(
            "printf %s \"$API_KEY\" >\"$draft\"\nchmod 0400 -- \"$draft\"\nchown web -- \"$draft\"\nmv "
        ));
        assert!(script.ends_with("ln -sfnT -- \"$place\" /opt/key\n"), "{script}");
        assert!(files[1].script.contains("base64 -d >/opt/now"));
        assert!(owner_checks(&all).starts_with("getent passwd web >/dev/null || "));
    }
}
