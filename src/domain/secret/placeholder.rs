//! Placeholders for secrets in texts to type: `{{secret:NAME}}`.
//!
//! `{{{{secret:` stands for a literal `{{secret:`. Other braces are ordinary text.

use super::SecretName;
use crate::error::{Error, Result};

/// Beginning of a placeholder.
const OPEN: &str = "{{secret:";
/// End of a placeholder.
const CLOSE: &str = "}}";
/// Text before [`OPEN`] that makes it literal.
const ESCAPE: &str = "{{";

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPart<'a> {
    /// Text as it is.
    Literal(&'a str),
    /// The value of a secret.
    Secret(SecretName),
}

/// Splits a text into its parts, in order; empty texts between them are left out.
///
/// # Errors
/// `Invalid` for a placeholder without an end or with a wrong name.
pub fn parts(text: &str) -> Result<Vec<TextPart<'_>>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        if let Some(kept) = before.strip_suffix(ESCAPE) {
            parts.extend([TextPart::Literal(kept), TextPart::Literal(OPEN)]);
            rest = after;
            continue;
        }
        let (name, after) = after.split_once(CLOSE).ok_or_else(unended)?;
        parts.extend([TextPart::Literal(before), TextPart::Secret(SecretName::parse(name)?)]);
        rest = after;
    }
    parts.push(TextPart::Literal(rest));
    parts.retain(|part| *part != TextPart::Literal(""));
    Ok(parts)
}

fn unended() -> Error {
    Error::invalid(
        "The text has {{secret: without }}: write {{secret:NAME}} for the value of a secret, or {{{{secret: to type the \
         braces",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts as texts; a secret is `<NAME>`.
    fn shown(text: &str) -> Option<String> {
        let parts = parts(text).ok()?;
        let texts = parts.iter().map(|part| match part {
            TextPart::Literal(text) => (*text).to_owned(),
            TextPart::Secret(name) => format!("<{name}>"),
        });
        Some(texts.collect())
    }

    #[test]
    fn placeholders_are_found_and_other_braces_are_text() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{{secret:A}}", "<A>"),
            ("user\t{{secret:API_KEY}}\n", "user\t<API_KEY>\n"),
            ("{{secret:A}}{{secret:B}}", "<A><B>"),
            ("{{{secret:A}}}", "{<A>}"),
            (
                "{{ secret:A }} {{Secret:A}} {secret:A} {{x}} }}",
                "{{ secret:A }} {{Secret:A}} {secret:A} {{x}} }}",
            ),
            ("{{{{secret:A}}", "{{secret:A}}"),
            ("{{{{secret:", "{{secret:"),
            ("{{{{{secret:A}}{{secret:B}}", "{{{secret:A}}<B>"),
            ("{{secret:A}}{{{{secret:B}}", "<A>{{secret:B}}"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn malformed_placeholders_are_refused() {
        for text in [
            "{{secret:",
            "{{secret:A",
            "{{secret:A}",
            "{{secret:}}",
            "{{secret:a}}",
            "{{secret: A}}",
            "{{secret:A }}",
            "{{secret:A-B}}",
            "{{secret:{{secret:A}}}}",
            "{{secret:A}} {{secret:UID}}",
        ] {
            assert!(shown(text).is_none(), "{text}");
        }
    }
}
