//! Secrets that accounts and workspaces store for their computers: names, values and limits.

use std::fmt;

use crate::error::{Error, Result};
use crate::identity::access::Caller;
use hotdesk_base::ids::AccountId;

pub mod env_file;
pub mod placeholder;

/// Most characters of a name, as many as a definition file of a template accepts.
pub const MAX_NAME: usize = 64;
/// Longest value in bytes: several times the longest private key or certificate chain.
pub const MAX_VALUE: usize = 64 * 1024;
/// Most secrets of one account, and of one workspace: a computer with a hundred services.
pub const MAX_SECRETS: u32 = 100;

/// Variables that bash sets itself or makes read-only: a file that assigns one fails, or the value is lost.
const SHELL_VARIABLES: [&str; 18] = [
    "BASHOPTS",
    "BASHPID",
    "BASH_VERSINFO",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "IFS",
    "LINENO",
    "PPID",
    "RANDOM",
    "SECONDS",
    "SHELLOPTS",
    "SRANDOM",
    "UID",
];

/// Name of a secret. It is also the name of its shell variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// Parses a name: 1 to [`MAX_NAME`] capital letters, digits and underscores, a letter first.
    ///
    /// # Errors
    /// `Invalid` for another text, and for a variable that shells set themselves. The message does not repeat
    /// the text, which may be a value in the wrong place.
    pub fn parse(text: &str) -> Result<Self> {
        let shaped = (1..=MAX_NAME).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_uppercase())
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        if !shaped {
            return Err(Error::invalid(format!(
                "The name of a secret must be 1 to {MAX_NAME} capital letters, digits and underscores, and begin with a \
                 letter, such as API_KEY"
            )));
        }
        if let Some(variable) = SHELL_VARIABLES.into_iter().find(|variable| *variable == text) {
            return Err(Error::invalid(format!(
                "A secret cannot have the name {variable}, which shells use themselves: choose another name"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks a value: 1 to [`MAX_VALUE`] bytes without NUL, which no shell variable can have.
///
/// # Errors
/// `Invalid`; the message does not repeat the value.
pub fn check_value(value: &str) -> Result<()> {
    if !(1..=MAX_VALUE).contains(&value.len()) {
        return Err(Error::invalid(format!("The value of a secret must have 1 to {MAX_VALUE} bytes")));
    }
    if value.contains('\0') {
        return Err(Error::invalid(
            "The value of a secret cannot have NUL characters; encode binary data, for example as base64",
        ));
    }
    Ok(())
}

/// Secrets that a computer gets at each boot, because its template names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchSecrets {
    /// Their names.
    pub names: Vec<SecretName>,
    /// Whether those of the account count beside those of the workspace: the computer was launched by a caller for whom
    /// [`may_use_account_secrets`] is true.
    pub account: bool,
}

/// Whether a caller may use the secrets of an account on that account's computers, besides those of the
/// computer's workspace: the account itself, by a credential that is not limited to a workspace.
pub fn may_use_account_secrets(caller: &Caller, account: AccountId) -> bool {
    caller.account == account && caller.scope.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::access::{Credential, Intent};
    use hotdesk_base::ids::{KeyId, WorkspaceId};

    #[test]
    fn secrets_of_an_account_are_for_its_unlimited_credentials() {
        let (owner, member) = (AccountId::random(), AccountId::random());
        let scope = Some((WorkspaceId::random(), "home".to_owned()));
        for (account, scope, expected) in [
            (owner, None, true),
            (owner, scope.clone(), false),
            (member, None, false),
            (member, scope, false),
        ] {
            let credential = Credential::Key(KeyId::random());
            let caller = Caller { credential, account, scope, intent: Intent::Change };
            assert_eq!(may_use_account_secrets(&caller, owner), expected, "{caller:?}");
        }
    }

    #[test]
    fn names_are_those_of_variables_in_upper_case() {
        for good in ["A", "API_KEY", "A1", "A_", "UID2", &"A".repeat(64)] {
            assert_eq!(SecretName::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "a",
            "api_key",
            "_A",
            "1A",
            "A-B",
            "A B",
            "A.B",
            "Ä",
            "A=B",
            "A\n",
            &"A".repeat(65),
            "UID",
            "IFS",
        ] {
            let refused = SecretName::parse(bad).unwrap_err().message;
            assert!(bad.len() < 4 || !refused.contains(bad), "{refused}");
        }
    }

    #[test]
    fn values_are_bounded_texts_without_nul() {
        for good in ["x", "a b\n'\"$`\\ä\u{1f600}\r\u{7f}", &"x".repeat(MAX_VALUE)] {
            assert!(check_value(good).is_ok());
        }
        for bad in ["", "hunter2\0", &"x".repeat(MAX_VALUE + 1), &"ä".repeat(MAX_VALUE / 2 + 1)] {
            let refused = check_value(bad).unwrap_err().message;
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
