//! Working folder, environment variables and screen that a request chooses for its program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Most environment variables of a request; a login shell has about thirty.
const MAX_VARIABLES: usize = 256;
/// Most bytes of all variables together; Linux passes at most 128 KiB in one string.
const MAX_ENVIRONMENT: usize = 64 * 1024;

/// Choices of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecContext {
    /// Folder in which the program starts; absent: the home folder.
    pub cwd: Option<String>,
    /// Additional environment variables.
    pub env: Option<BTreeMap<String, String>>,
    /// Screen that `DISPLAY` names; absent: the boot screen.
    pub screen: Option<String>,
}

impl ExecContext {
    /// Returns the folder in which the program starts. It is checked here, because a program with a missing
    /// working folder fails with a misleading error.
    ///
    /// # Errors
    /// `Invalid` when `cwd` is not a folder; `Conflict` when the home folder does not exist.
    pub fn folder(&self, home: &Path) -> Result<PathBuf> {
        if !home.is_dir() {
            return Err(Error::conflict(format!("the home folder {} does not exist", home.display())));
        }
        let Some(cwd) = &self.cwd else { return Ok(home.to_owned()) };
        let folder = home.join(cwd);
        if cwd.is_empty() || cwd.contains('\0') || !folder.is_dir() {
            return Err(refused(format!("cwd {cwd:?} is not a folder")));
        }
        Ok(folder)
    }

    /// Returns the checked environment variables, sorted by name.
    ///
    /// # Errors
    /// `Invalid` for a bad name, for a NUL character in a value, or above the limits.
    pub fn variables(&self) -> Result<Vec<(String, String)>> {
        let Some(env) = &self.env else { return Ok(Vec::new()) };
        if env.len() > MAX_VARIABLES {
            return Err(refused(format!("env has more than {MAX_VARIABLES} variables")));
        }
        if env.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>() > MAX_ENVIRONMENT {
            return Err(refused(format!("env is larger than {MAX_ENVIRONMENT} bytes")));
        }
        if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(refused(format!("env: {name:?} is not a valid variable name")));
        }
        if let Some((name, _)) = env.iter().find(|(_, value)| value.contains('\0')) {
            return Err(refused(format!("env: the value of {name} contains a NUL character")));
        }
        Ok(env.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

fn refused(message: String) -> Error {
    Error::invalid(message).code(ErrorCode::InvalidRequest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_need_valid_names_and_values() {
        let asked = |pairs: &[(&str, &str)]| {
            let env = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            ExecContext { env: Some(env), ..ExecContext::default() }.variables()
        };
        assert_eq!(asked(&[("A", ""), ("B C", "=ü\n")]).unwrap().len(), 2);
        assert!(ExecContext::default().variables().unwrap().is_empty());
        let long = "x".repeat(MAX_ENVIRONMENT);
        for bad in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0"), ("A", &long)] {
            assert!(asked(&[bad]).is_err(), "{:?}", bad.0);
        }
        let names: Vec<String> = (0..=MAX_VARIABLES).map(|number| number.to_string()).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(asked(&many).is_err() && asked(&many[1..]).is_ok());
    }

    #[test]
    fn folders_exist_and_relative_ones_are_below_the_home() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("in")).unwrap();
        std::fs::write(home.path().join("file"), "").unwrap();
        let asked = |cwd: Option<&str>| {
            ExecContext { cwd: cwd.map(str::to_owned), ..ExecContext::default() }.folder(home.path())
        };
        assert_eq!(asked(None).unwrap(), home.path());
        assert_eq!(asked(Some("in")).unwrap(), home.path().join("in"));
        assert_eq!(asked(Some("/")).unwrap(), Path::new("/"));
        for bad in ["", "missing", "file", "/nowhere", "in\0"] {
            assert!(asked(Some(bad)).is_err(), "{bad:?}");
        }
    }
}
