//! Scripts for bash that set the environment of a template's programs.

use std::collections::BTreeMap;
use std::path::Path;

/// Returns the assignments before a program: the template's variables, then those with secrets. The secrets themselves
/// are shell variables that the program does not inherit.
pub(super) fn environment<'a>(
    literals: impl IntoIterator<Item = (&'a str, &'a str)>,
    secrets: impl IntoIterator<Item = (&'a String, &'a String)>,
    secrets_file: &Path,
) -> String {
    let mut script = String::new();
    let mut secrets = secrets.into_iter().peekable();
    if secrets.peek().is_some() {
        let file = shell_words::quote(&secrets_file.to_string_lossy()).into_owned();
        script.push_str(&format!("if [ -r {file} ]; then . {file}; fi\n"));
    }
    // Copied first, because a variable may have the name of another one's secret.
    let secrets: Vec<_> = secrets.collect();
    for (at, (_, secret)) in secrets.iter().enumerate() {
        script.push_str(&format!("hotdesk_{at}=\"${{{secret}-}}\"\n"));
    }
    for (name, value) in literals {
        script.push_str(&format!("export {name}={}\n", shell_words::quote(value)));
    }
    for (at, (name, _)) in secrets.iter().enumerate() {
        script.push_str(&format!("export {name}=\"$hotdesk_{at}\"\n"));
    }
    script
}

/// Borrows the entries of a map.
pub(super) fn pairs(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    map.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_quoted_and_secrets_are_read_from_their_file() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let (literals, secrets) = (map(&[("A", "it's $HOME"), ("B", "")]), map(&[("KEY", "API_KEY")]));
        assert_eq!(
            environment(pairs(&literals), &secrets, Path::new("/run/a b/secrets.env")),
            "if [ -r '/run/a b/secrets.env' ]; then . '/run/a b/secrets.env'; fi\n\
             hotdesk_0=\"${API_KEY-}\"\n\
             export A='it'\\''s $HOME'\nexport B=''\nexport KEY=\"$hotdesk_0\"\n"
        );
        assert_eq!(environment(pairs(&BTreeMap::new()), &BTreeMap::new(), Path::new("/x")), "");
    }
}
