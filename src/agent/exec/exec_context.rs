//! What may a request choose of the surroundings of its program? Its folder, its environment, its screen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hotdesk_domain::error::{Error, Result};

/// Most environment variables of a request: a login has about thirty.
const MAX_VARIABLES: usize = 256;
/// Most bytes of all of them together; Linux passes 128 KiB in one string.
const MAX_ENVIRONMENT: usize = 64 * 1024;

/// What a request chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The folder that the program starts in; the home folder when absent.
    pub cwd: Option<String>,
    /// Further environment variables.
    pub env: Option<BTreeMap<String, String>>,
    /// The screen that `DISPLAY` names; the boot screen when absent.
    pub screen: Option<String>,
}

impl Surroundings {
    /// The folder to start in. It is looked at here, because a program whose folder is missing fails in ways that
    /// name something else.
    ///
    /// # Errors
    /// `Invalid` when it is no folder; `Conflict` when the home folder itself is gone.
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

    /// The environment variables, checked.
    ///
    /// # Errors
    /// `Invalid` for names and values that no environment can hold, or too many of them.
    pub fn variables(&self) -> Result<Vec<(String, String)>> {
        let Some(env) = &self.env else { return Ok(Vec::new()) };
        if env.len() > MAX_VARIABLES {
            return Err(refused(format!("env has more than {MAX_VARIABLES} variables")));
        }
        if env.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>() > MAX_ENVIRONMENT {
            return Err(refused(format!("env is larger than {MAX_ENVIRONMENT} bytes")));
        }
        if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(refused(format!("env: {name:?} cannot be a variable's name")));
        }
        if let Some((name, _)) = env.iter().find(|(_, value)| value.contains('\0')) {
            return Err(refused(format!("env: the value of {name} holds a NUL character")));
        }
        Ok(env.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

fn refused(message: String) -> Error {
    Error::invalid(message).code("INVALID_REQUEST")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_what_an_environment_can_hold() {
        let asked = |pairs: &[(&str, &str)]| {
            let env = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Surroundings { env: Some(env), ..Surroundings::default() }.variables()
        };
        assert_eq!(asked(&[("A", ""), ("B C", "=ü\n")]).unwrap().len(), 2);
        assert!(Surroundings::default().variables().unwrap().is_empty());
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
            Surroundings { cwd: cwd.map(str::to_owned), ..Surroundings::default() }.folder(home.path())
        };
        assert_eq!(asked(None).unwrap(), home.path());
        assert_eq!(asked(Some("in")).unwrap(), home.path().join("in"));
        assert_eq!(asked(Some("/")).unwrap(), Path::new("/"));
        for bad in ["", "missing", "file", "/nowhere", "in\0"] {
            assert!(asked(Some(bad)).is_err(), "{bad:?}");
        }
    }
}
