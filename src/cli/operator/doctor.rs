//! `hotdesk doctor`: requirements of this host for computers, and their remedies.

use std::process::ExitCode;

use serde_json::json;

use crate::failure::Outcome;
use crate::operator::serve;
use crate::output;
use crate::progress::Progress;
use hotdesk_engine::Finding;

/// Checks the host for `hotdesk serve` with the same options; the exit code is 1 when a requirement is not met.
///
/// # Errors
/// When the configuration is invalid, or standard output cannot be written.
pub fn run(options: &serve::Options, json: bool) -> Outcome {
    let settings = options.load()?.engine_settings()?;
    let progress = Progress::waiting("checking this host");
    let checks = hotdesk_engine::checks(&settings).into_iter();
    let findings: Vec<Finding> = checks
        .map(|check| {
            progress.set_message(format!("checking {}", check.what));
            check.run()
        })
        .collect();
    drop(progress);
    let missing = findings.iter().filter(|finding| !finding.ok && !finding.optional).count();
    if json {
        output::line(&as_json(&findings).to_string())?;
    } else {
        output::table(&["", "REQUIREMENT", "RESULT"], findings.iter().flat_map(rows).collect())?;
        output::line(&verdict(missing, findings.len()))?;
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Table rows of a finding: the result, and below it the remedy, if any.
fn rows(finding: &Finding) -> Vec<Vec<String>> {
    let mark = match finding {
        Finding { ok: true, .. } => "ok",
        Finding { optional: true, .. } => "warning",
        Finding { .. } => "MISSING",
    };
    let mut rows = vec![vec![mark.to_owned(), finding.what.to_owned(), finding.detail.clone()]];
    if !finding.remedy.is_empty() {
        rows.push(vec![String::new(), String::new(), format!("to fix it: {}", finding.remedy)]);
    }
    rows
}

fn verdict(missing: usize, all: usize) -> String {
    match missing {
        0 => "This host can run computers.".to_owned(),
        missing => format!("{missing} of {all} requirements are not met on this host."),
    }
}

fn as_json(findings: &[Finding]) -> serde_json::Value {
    let listed: Vec<_> = findings
        .iter()
        .map(|it| json!({"what": it.what, "ok": it.ok, "optional": it.optional, "detail": it.detail, "mend": it.remedy}))
        .collect();
    json!({"ok": findings.iter().all(|finding| finding.ok || finding.optional), "findings": listed})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_requirement_is_listed_with_its_remedy() {
        let fine = Finding { what: "root", ok: true, optional: false, detail: "yes".to_owned(), remedy: "" };
        let bad = Finding {
            what: "runtime",
            ok: false,
            optional: false,
            detail: "no runc".to_owned(),
            remedy: "install it",
        };
        let useful = Finding { optional: true, ..bad.clone() };
        assert_eq!(rows(&useful)[0][0], "warning");
        assert_eq!(as_json(&[useful])["ok"], true);
        assert_eq!(rows(&fine), [["ok", "root", "yes"]]);
        assert_eq!(rows(&bad), [["MISSING", "runtime", "no runc"], ["", "", "to fix it: install it"]]);
        assert_eq!(as_json(std::slice::from_ref(&fine))["ok"], true);
        let both = as_json(&[fine, bad]);
        assert_eq!((&both["ok"], &both["findings"][1]["mend"]), (&json!(false), &json!("install it")));
        assert!(verdict(1, 2).starts_with("1 of 2"));
    }
}
