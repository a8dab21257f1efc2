//! Names in a definition file: templates, secrets, variables, services, users and packages.

use semver::Version;

use super::fault::{Fault, RuleResult, quoted};
use crate::secret::SecretName;

/// Longest name, in characters: a label of DNS has at most 63, and template references allow 64.
pub const MAX_NAME: usize = 64;

/// Whether a text has 1 to [`MAX_NAME`] characters, begins with one that `first` accepts, and `rest` accepts
/// the others.
fn is_word(text: &str, first: impl Fn(char) -> bool, rest: impl Fn(char) -> bool) -> bool {
    let mut chars = text.chars();
    text.len() <= MAX_NAME && chars.next().is_some_and(first) && chars.all(rest)
}

fn check(text: &str, is_valid: bool, rule: &str) -> RuleResult<String> {
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(Fault::invalid(format!("must be {rule}, not {}", quoted(text))))
    }
}

/// A name in kebab case, of a template, an application, a trigger, a terminal or a stream.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn kebab(text: &str) -> RuleResult<String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_valid =
        is_word(text, plain, |c| plain(c) || c == '-') && !text.ends_with('-') && !text.contains("--");
    check(text, is_valid, "1 to 64 lower-case letters, digits and single dashes between them")
}

/// The name of an imported image.
///
/// # Errors
/// `InvalidValue` for anything else, such as a reference to a registry.
pub fn base(text: &str) -> RuleResult<String> {
    kebab(text).map_err(|fault| {
        fault.hint(
            "write the name of an image that the operator has imported (hotdesk image import NAME SOURCE)",
        )
    })
}

/// The name of a secret. In upper case it names the entry of the vault and the environment variable.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn secret(text: &str) -> RuleResult<String> {
    let is_valid = is_word(
        text,
        |c| c.is_ascii_lowercase(),
        |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_',
    );
    let name =
        check(text, is_valid, "1 to 64 lower-case letters, digits and underscores, the first a letter")?;
    let variable = name.to_ascii_uppercase();
    if INHERITED.contains(&variable.as_str()) || SecretName::parse(&variable).is_err() {
        return Err(Fault::invalid(format!(
            "must not be {name}, because programs and shells use {variable} themselves"
        )));
    }
    Ok(name)
}

/// Variables that services and hooks inherit: a secret of such a name would be in the environment of all of them.
const INHERITED: [&str; 7] = ["DISPLAY", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER"];

/// The name of an environment variable.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn environment(text: &str) -> RuleResult<String> {
    let is_valid = is_word(
        text,
        |c| c.is_ascii_uppercase() || c == '_',
        |c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_',
    );
    check(text, is_valid, "1 to 64 upper-case letters, digits and underscores, the first no digit")
}

/// The name of a variable of the template.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn variable(text: &str) -> RuleResult<String> {
    let is_valid = is_word(
        text,
        |c| c.is_ascii_alphabetic() || c == '_',
        |c| c.is_ascii_alphanumeric() || c == '_' || c == '-',
    );
    check(text, is_valid, "1 to 64 letters, digits, dashes and underscores, the first no digit and no dash")
}

/// A user or group of the guest (`useradd(8)`).
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn user(text: &str) -> RuleResult<String> {
    let is_valid = text.len() <= 32
        && is_word(
            text,
            |c| c.is_ascii_lowercase() || c == '_',
            |c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'),
        );
    check(
        text,
        is_valid,
        "the name of a user or group of Linux: at most 32 lower-case letters, digits, - and _",
    )
}

/// The version of a template: a semantic version.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn version(text: &str) -> RuleResult<String> {
    if text.len() <= MAX_NAME && Version::parse(text).is_ok() {
        return Ok(text.to_owned());
    }
    let fault = Fault::invalid(format!("must be a semantic version such as 1.0.0, not {}", quoted(text)));
    let is_short = !text.is_empty() && text.split('.').all(|part| part.parse::<u32>().is_ok());
    let hint = match text.split('.').count() {
        1 if is_short => format!("write {text}.0.0"),
        2 if is_short => format!("write {text}.0"),
        _ => return Err(fault),
    };
    Err(fault.hint(hint))
}

/// A package of apt, pip or npm, with an optional version: one word of a command line that is no option.
///
/// # Errors
/// `InvalidValue` for a text that begins with `-`, or has white space, quotes or other characters that no
/// package has.
pub fn package(text: &str) -> RuleResult<String> {
    let is_valid = text.len() <= 512
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "@._+-:/=<>!~^[],".contains(c));
    check(text, is_valid, "a package with an optional version, such as curl or numpy==2.1.0")
}

/// The mode of a file in octal digits; returns it with four.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn mode(text: &str) -> RuleResult<String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    if (3..=4).contains(&digits.len()) && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        return Ok(format!("{digits:0>4}"));
    }
    Err(Fault::invalid(format!("must be three or four octal digits, not {}", quoted(text)))
        .hint("write \"0644\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&str) -> RuleResult<String>;

    #[test]
    fn names_follow_the_rule_of_their_kind() {
        let long = "a".repeat(64);
        let cases: [(&str, Rule, &[&str], &[&str]); 6] = [
            (
                "kebab",
                kebab,
                &["a", "my-app-2", "3d", &long],
                &["", "A", "-a", "a-", "a--b", "a_b", "ä", "a\n"],
            ),
            ("secret", secret, &["a", "api_key2"], &["", "A", "_a", "2a", "api-key"]),
            ("environment", environment, &["A", "_A1", "API_KEY"], &["", "a", "1A", "A-B", "A=B"]),
            ("variable", variable, &["a", "Port_2", "a-b"], &["", "2a", "-a", "a.b", "a}"]),
            ("user", user, &["orgo", "www-data", "_apt"], &["", "Root", "a b", "-x", &long]),
            (
                "package",
                package,
                &["curl", "numpy==2.1.0", "@scope/pkg@1.2", "libfoo:amd64", "uvicorn[standard]>=0.30"],
                &["", "-rf", "a b", "a;b", "$(x)", "a\nb", "'a'"],
            ),
        ];
        for (kind, rule, good, bad) in cases {
            good.iter().for_each(|text| assert!(rule(text).is_ok(), "{kind} {text:?}"));
            bad.iter().for_each(|text| assert!(rule(text).is_err(), "{kind} {text:?}"));
            assert!(rule(&"a".repeat(1000)).is_err() && rule(&"A".repeat(1000)).is_err(), "{kind}");
        }
    }

    #[test]
    fn versions_are_semantic() {
        for good in ["1.0.0", "0.1.8", "1.0.0-rc.1+build.5"] {
            assert_eq!(version(good).unwrap(), good);
        }
        for (bad, hint) in [
            ("1.0", Some("write 1.0.0")),
            ("2", Some("write 2.0.0")),
            ("v1.0.0", None),
            ("", None),
            ("1.0.0.0", None),
        ] {
            assert_eq!(version(bad).unwrap_err().hint.as_deref(), hint, "{bad}");
        }
    }

    #[test]
    fn modes_are_octal() {
        for (text, shown) in [("644", "0644"), ("0755", "0755"), ("0o600", "0600"), ("4755", "4755")] {
            assert_eq!(mode(text).unwrap(), shown);
        }
        for bad in ["", "8", "888", "rw-r--r--", "00644", "-644"] {
            assert!(mode(bad).is_err(), "{bad}");
        }
    }
}
