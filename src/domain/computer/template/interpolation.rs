//! Interpolation of texts: `${var.NAME}` and `${env.NAME}`, escaped as `$${`.
//!
//! Other texts in braces, such as `${HOME}`, are left to the shell.

use super::bounds::MAX_EXPANDED_BYTES;
use super::fault::{Fault, FaultCode, RuleResult, quoted};
use super::name;

/// What a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// A variable of the template.
    Variable,
    /// A literal environment variable of the template.
    Environment,
}

/// Expands a text. `value` returns the value of a name.
///
/// # Errors
/// Every fault: `UnknownRef` for a name without a value, `InvalidValue` for a reference that does not end or has no
/// valid name, `TooLarge` when the result is longer than [`MAX_EXPANDED_BYTES`].
pub fn expand<V: AsRef<str>>(
    text: &str,
    value: impl Fn(ReferenceKind, &str) -> RuleResult<V>,
) -> Result<String, Vec<Fault>> {
    let mut expanded = String::with_capacity(text.len());
    let mut faults = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let is_escaped = rest[..at].ends_with('$');
        let tail = &rest[at + 2..];
        let opened = [("var.", ReferenceKind::Variable), ("env.", ReferenceKind::Environment)]
            .into_iter()
            .find_map(|(prefix, kind)| Some((kind, tail.strip_prefix(prefix)?)))
            .filter(|_| !is_escaped);
        let Some((kind, tail)) = opened else {
            expanded.push_str(&rest[..if is_escaped { at - 1 } else { at }]);
            expanded.push_str("${");
            rest = tail;
            continue;
        };
        expanded.push_str(&rest[..at]);
        let Some((name, behind)) = tail.split_once('}') else {
            faults.push(
                Fault::invalid("has a reference without its closing brace")
                    .hint("write $${ for a literal ${"),
            );
            break;
        };
        match named(kind, name).and_then(|()| value(kind, name)) {
            Ok(value) => expanded.push_str(value.as_ref()),
            Err(fault) => faults.push(fault),
        }
        if expanded.len() > MAX_EXPANDED_BYTES {
            let message = format!("must have at most {MAX_EXPANDED_BYTES} bytes after interpolation");
            faults.push(Fault::new(FaultCode::TooLarge, message));
            break;
        }
        rest = behind;
    }
    if faults.is_empty() {
        expanded.push_str(rest);
        Ok(expanded)
    } else {
        Err(faults)
    }
}

fn named(kind: ReferenceKind, name: &str) -> RuleResult<()> {
    let checked = match kind {
        ReferenceKind::Variable => name::variable(name),
        ReferenceKind::Environment => name::environment(name),
    };
    checked.map(drop).map_err(|_| {
        Fault::invalid(format!("has a reference to {}, which is no valid name", quoted(name)))
            .hint("write $${ for a literal ${")
    })
}

/// Checks the event references of an action, such as `{{ event.path }}`.
///
/// # Errors
/// `UnknownRef` for a reference to something else, `InvalidValue` for one that does not end.
pub fn check_event_references(text: &str) -> RuleResult<()> {
    let mut rest = text;
    while let Some((_, tail)) = rest.split_once("{{") {
        let Some((reference, behind)) = tail.split_once("}}") else {
            return Err(Fault::invalid("has {{ without the closing }}"));
        };
        let path = reference.trim();
        let is_field =
            |field: &str| !field.is_empty() && field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !path.strip_prefix("event.").is_some_and(|fields| fields.split('.').all(is_field)) {
            return Err(Fault::new(FaultCode::UnknownRef, format!("has a reference to {}", quoted(path)))
                .hint("write {{ event.NAME }}"));
        }
        rest = behind;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: ReferenceKind, name: &str) -> RuleResult<&'static str> {
        match (kind, name) {
            (ReferenceKind::Variable, "port") => Ok("3000"),
            (ReferenceKind::Environment, "HOST") => Ok("${var.port}"),
            (ReferenceKind::Variable, "long") => Ok(LONG),
            _ => Err(Fault::new(FaultCode::UnknownRef, name)),
        }
    }

    const LONG: &str =
        concat!("0123456789012345678901234567890123456789", "0123456789012345678901234567890123456789");

    #[test]
    fn references_are_expanded_once_and_others_are_left() {
        for (text, expanded) in [
            ("", ""),
            ("a:${var.port}/b", "a:3000/b"),
            ("${env.HOST}", "${var.port}"),
            ("${HOME} $$ ${", "${HOME} $$ ${"),
            ("$${var.port}", "${var.port}"),
            ("$${HOME}", "${HOME}"),
            ("ä${var.port}ö", "ä3000ö"),
        ] {
            assert_eq!(expand(text, value).unwrap(), expanded, "{text}");
        }
    }

    #[test]
    fn every_wrong_reference_is_a_fault() {
        let codes = |text: &str| -> Vec<FaultCode> {
            expand(text, value).unwrap_err().iter().map(|fault| fault.code).collect()
        };
        assert_eq!(codes("${var.a} ${env.B}"), [FaultCode::UnknownRef; 2]);
        assert_eq!(codes("${var.a b}"), [FaultCode::InvalidValue]);
        assert_eq!(codes("${var.port"), [FaultCode::InvalidValue]);
        assert_eq!(codes(&"${var.long}".repeat(MAX_EXPANDED_BYTES / LONG.len() + 1)), [FaultCode::TooLarge]);
    }

    #[test]
    fn actions_refer_to_events() {
        for good in ["", "a {b} c", "{{ event.path }}", "{{event.a.b}} and {{ event.c }}"] {
            assert!(check_event_references(good).is_ok(), "{good}");
        }
        for (bad, code) in [
            ("{{ path }}", FaultCode::UnknownRef),
            ("{{ event. }}", FaultCode::UnknownRef),
            ("{{ event.path", FaultCode::InvalidValue),
        ] {
            assert_eq!(check_event_references(bad).unwrap_err().code, code, "{bad}");
        }
    }
}
