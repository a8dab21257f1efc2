//! Text of a file that sets shell variables: `NAME='value'`, one assignment after another.
//!
//! The variables are not exported, so that no later process has them in its environment unless a script asks
//! for that (`set -a`).

use super::SecretName;

/// Longest text in bytes. The file is in the memory of the computer.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Returns the assignment of a variable, with a line break at its end.
///
/// In single quotes every character but the quote itself is literal (POSIX.1-2017, Shell Command Language,
/// section 2.2.2).
pub fn assignment(name: &SecretName, value: &str) -> String {
    format!("{name}='{}'\n", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn assignments_quote_what_shells_would_change() {
        let name = SecretName::parse("KEY").unwrap();
        for (value, expected) in [
            ("plain", "KEY='plain'\n"),
            ("$HOME `id` \\ \"!\" #", "KEY='$HOME `id` \\ \"!\" #'\n"),
            ("it's", "KEY='it'\\''s'\n"),
            ("two\nlines", "KEY='two\nlines'\n"),
        ] {
            assert_eq!(assignment(&name, value), expected);
        }
    }

    #[test]
    fn a_shell_reads_the_exact_values() {
        let name = SecretName::parse("KEY").unwrap();
        let values = [
            "'",
            "''",
            "a'b'c",
            "$(id) `id` $HOME ${x} \\ \\n %s ~ * ? [a] ! # & ; | < > ( )",
            " leading and trailing \n\n",
            "\r\n\ttabs\u{1}\u{7f}",
            "ä日\u{1f600}",
            "-----BEGIN KEY-----\nMIIB'\"=\n-----END KEY-----\n",
        ];
        for value in values {
            for shell in ["sh", "bash"] {
                let script = format!("{}printf %s \"$KEY\"", assignment(&name, value));
                let read = Command::new(shell).args(["-c", &script]).output().unwrap();
                assert_eq!(String::from_utf8(read.stdout).unwrap(), value, "{shell}");
            }
        }
    }
}
