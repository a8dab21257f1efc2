//! Template references of the form `namespace/name@version` (docs/api/templates.md).

use crate::error::{Error, Result};

/// The built-in template: the guest image without additions.
pub const PLAIN_DESKTOP: &str = "system/desktop@1.0.0";
/// Whether the service can publish, build or remove templates. It has no route for that yet.
pub const AUTHORABLE: bool = false;

/// Checks the `template_ref` of a create request. Only [`PLAIN_DESKTOP`] exists.
///
/// # Errors
/// `Invalid` for text that is not a reference; `NotFound` when the template does not exist.
pub fn check_ref(reference: &str) -> Result<()> {
    if reference == PLAIN_DESKTOP {
        return Ok(());
    }
    if !well_formed(reference) {
        return Err(Error::invalid("template_ref must be namespace/name@version"));
    }
    Err(Error::not_found(format!("Template not found: {reference}")))
}

fn well_formed(reference: &str) -> bool {
    let word = |text: &str, more: &[char]| {
        (1..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
    };
    let Some((namespace, rest)) = reference.split_once('/') else { return false };
    let Some((name, version)) = rest.split_once('@') else { return false };
    word(namespace, &['-', '_']) && word(name, &['-', '_']) && word(version, &['.', '-', '+'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn references_are_known_unknown_or_no_references() {
        assert!(check_ref(PLAIN_DESKTOP).is_ok());
        for unknown in ["system/claude-code@1.0.0", "default/x@0.0.1-rc.1+b"] {
            assert_eq!(check_ref(unknown).unwrap_err().kind, Kind::NotFound);
        }
        for bad in ["", "x", "a/b", "a@1", "a/b/c@1", "../b@1", "a/b@", "registry.example/app:latest"] {
            assert_eq!(check_ref(bad).unwrap_err().kind, Kind::Invalid, "{bad:?}");
        }
    }
}
