//! Template references of the form `namespace/name@version` (docs/api/templates.md).

use crate::error::{Error, Result};

/// The built-in template: the guest image without additions.
pub const PLAIN_DESKTOP: &str = "system/desktop@1.0.0";
/// Whether the service can publish, build or remove templates. It has no route for that yet.
pub const AUTHORABLE: bool = false;

/// Checks the `template_ref` and the `image` of a create request. An image that is not a reference is
/// ignored, because clients send names of other services' images (docs/api/templates.md).
///
/// # Errors
/// `Invalid` for a `template_ref` that is not a reference; `NotFound` when the template does not exist.
pub fn check(template_ref: Option<&str>, image: Option<&str>) -> Result<()> {
    match template_ref.or(image.filter(|image| well_formed(image))) {
        Some(reference) => check_ref(reference),
        None => Ok(()),
    }
}

/// Checks a reference. Only [`PLAIN_DESKTOP`] exists.
fn check_ref(reference: &str) -> Result<()> {
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
        assert!(check(None, None).is_ok() && check(Some(PLAIN_DESKTOP), Some("x")).is_ok());
        for unknown in ["system/claude-code@1.0.0", "default/x@0.0.1-rc.1+b"] {
            assert_eq!(check(Some(unknown), None).unwrap_err().kind, Kind::NotFound);
            assert_eq!(check(None, Some(unknown)).unwrap_err().kind, Kind::NotFound);
        }
        for bad in ["", "x", "a/b", "a@1", "a/b/c@1", "../b@1", "a/b@", "registry.example/app:latest"] {
            assert_eq!(check(Some(bad), None).unwrap_err().kind, Kind::Invalid, "{bad:?}");
            assert!(check(None, Some(bad)).is_ok(), "{bad:?}");
        }
    }
}
