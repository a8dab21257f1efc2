//! Interpolation of texts: `${var.NAME}` and `${env.NAME}`, escaped as `$${`.
//!
//! Other texts in braces, such as `${HOME}`, are left to the shell.

use super::fault::{Fault, FaultCode, RuleResult, quoted, shortened};
use super::name;

/// Target of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// A variable of the template.
    Variable,
    /// A literal environment variable of the template.
    Environment,
}

/// Expands a text. `value` returns the value of a name; `report` gets each fault before the next value is asked for.
/// Returns `None` after a fault.
///
/// The faults are those of `value`, `InvalidValue` for a reference that does not end or has no valid name, and `TooLarge`
/// when the result is longer than `most` bytes. A fault of this last code, also of `value`, ends the expansion.
pub fn expand<V: AsRef<str>>(
    text: &str,
    most: usize,
    value: impl Fn(ReferenceKind, &str) -> RuleResult<V>,
    mut report: impl FnMut(Fault),
) -> Option<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut is_valid = true;
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
            let fault = Fault::invalid("has a reference without its closing brace");
            report(fault.hint("write $${ for a literal ${"));
            return None;
        };
        match named(kind, name).and_then(|()| value(kind, name)) {
            Ok(value) => expanded.push_str(value.as_ref()),
            Err(fault) => {
                let is_end = fault.code == FaultCode::TooLarge;
                report(fault);
                if is_end {
                    return None;
                }
                is_valid = false;
            }
        }
        if expanded.len() > most {
            break;
        }
        rest = behind;
    }
    // After the break as well: what is missing then only makes the text longer.
    expanded.push_str(rest);
    if expanded.len() > most {
        let message = format!("must have at most {most} bytes after interpolation");
        report(Fault::new(FaultCode::TooLarge, message));
        return None;
    }
    is_valid.then_some(expanded)
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

/// Checks the event references of an action, such as `{{ event.path }}`. Other braces, such as `{{.Names}}` and
/// `{{end}}`, belong to the programs that read the text; only a misspelled `event` is told from them, by its field.
///
/// # Errors
/// `UnknownRef` for a reference to something else, `InvalidValue` for one that does not end.
pub fn check_event_references(text: &str) -> RuleResult<()> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = text;
    while let Some((_, tail)) = rest.split_once("{{") {
        rest = tail;
        let inside = tail.trim_start();
        let end = inside.find(|c: char| !is_word(c) && c != '.').unwrap_or(inside.len());
        let (path, behind) = inside.split_at(end);
        let is_closed = behind.trim_start().starts_with("}}");
        let (object, fields) = path.split_once('.').unwrap_or((path, ""));
        let is_misspelled =
            is_closed && path.contains('.') && object.starts_with(|c: char| c.is_ascii_alphabetic());
        if object == "event" && !is_closed {
            return Err(Fault::invalid(format!("has {{{{ {} without the closing }}}}", shortened(path)))
                .hint("write {{ event.NAME }}"));
        }
        let is_known = object == "event" && fields.split('.').all(|field| !field.is_empty());
        if (object == "event" || is_misspelled) && !is_known {
            return Err(Fault::new(FaultCode::UnknownRef, format!("has a reference to {}", quoted(path)))
                .hint("write {{ event.NAME }}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

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

    /// The result of an expansion to at most 100 bytes, or the codes of its faults.
    fn expanded(text: &str) -> Result<String, Vec<FaultCode>> {
        let mut codes = Vec::new();
        expand(text, 100, value, |fault| codes.push(fault.code)).ok_or(codes)
    }

    #[test]
    fn references_are_expanded_once_and_others_are_left() {
        for (text, shown) in [
            ("", ""),
            ("a:${var.port}/b", "a:3000/b"),
            ("${env.HOST}", "${var.port}"),
            ("${HOME} $$ ${", "${HOME} $$ ${"),
            ("$${var.port}", "${var.port}"),
            ("$${HOME}", "${HOME}"),
            ("ä${var.port}ö", "ä3000ö"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn every_wrong_reference_is_a_fault() {
        for (text, codes) in [
            ("${var.a} ${env.B}", vec![FaultCode::UnknownRef; 2]),
            ("${var.a b}", vec![FaultCode::InvalidValue]),
            ("${var.port", vec![FaultCode::InvalidValue]),
            ("${var.long}${var.long}", vec![FaultCode::TooLarge]),
            ("${var.long}${var.long} ${var.a}", vec![FaultCode::TooLarge]),
            ("${var.a} ${var.long}${var.long}", vec![FaultCode::UnknownRef, FaultCode::TooLarge]),
        ] {
            assert_eq!(expanded(text), Err(codes), "{text}");
        }
        // What follows the last reference counts as well.
        assert!(expanded(&format!("${{var.port}}{}", "x".repeat(96))).is_ok());
        assert_eq!(expanded(&format!("${{var.port}}{}", "x".repeat(97))), Err(vec![FaultCode::TooLarge]));
    }

    #[test]
    fn a_fault_is_reported_before_the_next_value_is_asked_for() {
        // A list of errors that is full needs no hints, which take long.
        let steps = RefCell::new(Vec::new());
        let ask = |_: ReferenceKind, name: &str| -> RuleResult<String> {
            steps.borrow_mut().push(format!("value {name}"));
            Err(Fault::new(FaultCode::UnknownRef, name))
        };
        let done = expand("${var.a} ${var.b}", 100, ask, |fault| {
            steps.borrow_mut().push(format!("fault {}", fault.message));
        });
        assert_eq!(done, None);
        assert_eq!(steps.into_inner(), ["value a", "fault a", "value b", "fault b"]);
    }

    #[test]
    fn a_value_that_is_too_large_ends_the_expansion() {
        let mut count = 0;
        let large =
            |_: ReferenceKind, _: &str| Err::<String, Fault>(Fault::new(FaultCode::TooLarge, "large"));
        assert_eq!(expand("${var.a} ${var.b} ${var.c", 100, large, |_| count += 1), None);
        assert_eq!(count, 1);
    }

    #[test]
    fn actions_refer_to_events() {
        for good in [
            "",
            "a {b} c",
            "{{ event.path }}",
            "{{event.a.b}} and {{ event.c }}",
            "{\"a\":{{ event.a }}}",
            "docker ps --format '{{.Names}}'",
            "docker inspect --format '{{range .Mounts}}{{json .}}{{end}}'",
            "{{ {{ event.a }}",
            "{{ path }}",
            "{{",
        ] {
            assert_eq!(check_event_references(good), Ok(()), "{good}");
        }
        for (bad, code) in [
            ("{{ events.path }}", FaultCode::UnknownRef),
            ("{{ event }}", FaultCode::UnknownRef),
            ("{{ event. }}", FaultCode::UnknownRef),
            ("{{ event.a..b }}", FaultCode::UnknownRef),
            ("{{.Names}} {{ evnt.path }}", FaultCode::UnknownRef),
            ("{{ event.path", FaultCode::InvalidValue),
            ("{{ event.a-b }}", FaultCode::InvalidValue),
        ] {
            assert_eq!(check_event_references(bad).map_err(|fault| fault.code), Err(code), "{bad}");
        }
    }
}
