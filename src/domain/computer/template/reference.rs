//! Template references of the form `namespace/name@version` (docs/api/templates.md).

use std::fmt;

use crate::error::{Error, Result};

/// The built-in template: the guest image without additions.
pub const PLAIN_DESKTOP: &str = "system/desktop@1.0.0";
/// The namespace of an account's own templates.
pub const OWN: &str = "default";
/// The namespace of the templates of the service.
pub const SYSTEM: &str = "system";

/// A reference to a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TemplateRef {
    /// `default` for the account's own templates, `system` for those of the service.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

impl TemplateRef {
    /// A reference to a template of the account.
    pub fn own(name: &str, version: &str) -> Self {
        Self { namespace: OWN.to_owned(), name: name.to_owned(), version: version.to_owned() }
    }

    /// A reference to a template of the service.
    pub fn system(name: &str, version: &str) -> Self {
        Self { namespace: SYSTEM.to_owned(), name: name.to_owned(), version: version.to_owned() }
    }

    /// Parses a reference; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let word = |text: &str, more: &[char]| {
            (1..=64).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
        };
        let (namespace, rest) = text.split_once('/')?;
        let (name, version) = rest.split_once('@')?;
        let is_valid =
            word(namespace, &['-', '_']) && word(name, &['-', '_']) && word(version, &['.', '-', '+']);
        is_valid.then(|| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
        })
    }

    /// Whether it is in the namespace of the account.
    pub fn is_own(&self) -> bool {
        self.namespace == OWN
    }

    /// Whether it is in the namespace of the service.
    pub fn is_system(&self) -> bool {
        self.namespace == SYSTEM
    }

    /// The error for a template that does not exist.
    pub fn not_found(&self) -> Error {
        Error::not_found(format!("Template not found: {self}"))
    }
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.namespace, self.name, self.version)
    }
}

/// Returns the template of a create request from its `template_ref` and its `image`; `None` for the guest image without
/// additions. An image that is not a reference is ignored, because clients send names of other services' images
/// (docs/api/templates.md).
///
/// # Errors
/// `Invalid` for a `template_ref` that is not a reference.
pub fn requested_template(template_ref: Option<&str>, image: Option<&str>) -> Result<Option<TemplateRef>> {
    let requested = match template_ref {
        Some(text) => {
            let parsed = TemplateRef::parse(text);
            Some(parsed.ok_or_else(|| Error::invalid("template_ref must be namespace/name@version"))?)
        }
        None => image.and_then(TemplateRef::parse),
    };
    Ok(requested.filter(|reference| reference.to_string() != PLAIN_DESKTOP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn references_are_parsed_ignored_or_refused() {
        assert_eq!(requested_template(None, None).unwrap(), None);
        assert_eq!(requested_template(Some(PLAIN_DESKTOP), Some("x")).unwrap(), None);
        for text in ["system/claude-code@1.0.0", "default/x@0.0.1-rc.1+b"] {
            for found in [requested_template(Some(text), None), requested_template(None, Some(text))] {
                let reference = found.unwrap().unwrap();
                assert_eq!(reference.to_string(), text);
                assert_eq!(reference.is_own(), text.starts_with("default/"));
            }
        }
        for bad in ["", "x", "a/b", "a@1", "a/b/c@1", "../b@1", "a/b@", "registry.example/app:latest"] {
            assert_eq!(requested_template(Some(bad), None).unwrap_err().kind, Kind::Invalid, "{bad:?}");
            assert_eq!(requested_template(None, Some(bad)).unwrap(), None, "{bad:?}");
        }
    }
}
