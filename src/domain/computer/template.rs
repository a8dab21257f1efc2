//! Which templates can a computer be launched from? References of the form `namespace/name@version`.

use super::error::{Error, Result};

/// The curated template that is the guest image as it is: a desktop, nothing added.
pub const PLAIN_DESKTOP: &str = "system/desktop@1.0.0";
/// Whether templates can be authored here at all: no route publishes, builds or removes one (wire.md 12.1), so that there is
/// nothing that a plan could let an account do.
pub const AUTHORABLE: bool = false;

/// Checks a create's `template_ref`. Only [`PLAIN_DESKTOP`] exists so far.
///
/// # Errors
/// `Invalid` when it is no reference; `NotFound` when there is no such template.
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
    use super::super::error::Kind;
    use super::*;

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
