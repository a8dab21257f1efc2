//! Scripts for bash: their run, the environment of a template's programs, and paths of its definition.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

mod run;

pub(super) use run::{MARK, ScriptName, ScriptRun, exit_code};

/// Returns the assignments before a program: the template's variables, then those with secrets. The file of the secrets is only read
/// in subshells: it may set a variable that the program inherits, such as `PATH`.
pub(super) fn environment<'a>(
    literals: impl IntoIterator<Item = (&'a str, &'a str)>,
    secrets: impl IntoIterator<Item = (&'a String, &'a String)>,
    secrets_file: &Path,
) -> String {
    let mut script = String::new();
    let file = shell_words::quote(&secrets_file.to_string_lossy()).into_owned();
    // Read first, because a variable may have the name of another one's secret.
    let secrets: Vec<_> = secrets.into_iter().collect();
    for (at, (_, secret)) in secrets.iter().enumerate() {
        // The full stop keeps line breaks at the end, which the shell would remove.
        script.push_str(&format!(
            "hotdesk_{at}=\"$(unset {secret}; if [ -r {file} ]; then . {file}; fi; printf %s. \"${{{secret}-}}\")\"\n"
        ));
    }
    for (name, value) in literals {
        script.push_str(&format!("export {name}={}\n", shell_words::quote(value)));
    }
    for (at, (name, _)) in secrets.iter().enumerate() {
        script.push_str(&format!("export {name}=\"${{hotdesk_{at}%.}}\"\n"));
    }
    script
}

/// Borrows the entries of a map.
pub(super) fn pairs(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    map.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// A path of a definition: absolute, or below the home folder of root.
pub(super) fn guest_path(path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => Path::new("/root").join(rest),
        None if path == "~" => PathBuf::from("/root"),
        None => PathBuf::from(path),
    }
}

/// A path of a definition as a word of a script, below the home folder of the script's user.
pub(super) fn path_word(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", shell_words::quote(rest)),
        None if path == "~" => "\"$HOME\"".to_owned(),
        None => shell_words::quote(path).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_root_or_at_a_home_folder() {
        for (path, absolute, word) in [
            ("/opt/a b", "/opt/a b", "'/opt/a b'"),
            ("~/a b", "/root/a b", "\"$HOME\"/'a b'"),
            ("~", "/root", "\"$HOME\""),
        ] {
            assert_eq!((guest_path(path).as_path(), path_word(path).as_str()), (Path::new(absolute), word));
        }
    }

    #[test]
    fn literals_are_quoted_and_secrets_are_read_from_their_file() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let (literals, secrets) = (map(&[("A", "it's $HOME"), ("B", "")]), map(&[("KEY", "API_KEY")]));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it's secrets.env");
        std::fs::write(&file, "API_KEY='a b\n\n'\nLANG='other'\n").unwrap();
        let script = environment(pairs(&literals), &secrets, &file);
        let run = |script: &str| {
            let mut command = std::process::Command::new("bash");
            command.args(["-e", "-c", script]).env("LANG", "C").output().unwrap().stdout
        };
        let printed =
            run(&format!("{script}printf '%s|' \"$A\" \"$B\" \"$KEY\" \"$LANG\" \"${{API_KEY-none}}\""));
        assert_eq!(String::from_utf8(printed).unwrap(), "it's $HOME||a b\n\n|C|none|", "{script}");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(run(&format!("{script}printf \"<$KEY>\"")), b"<>");
        assert_eq!(environment(pairs(&BTreeMap::new()), &BTreeMap::new(), Path::new("/x")), "");
    }
}
