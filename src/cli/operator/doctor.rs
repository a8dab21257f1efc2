//! `hotdesk doctor`: can this host run computers, and if not, why, and what mends it?

use std::process::ExitCode;

use serde_json::json;

use super::failure::Outcome;
use super::serve::Known;
use super::{output, serve};
use hotdesk_engine::{Finding, container, qemu};

/// Looks at this host as `hotdesk serve` with the same options would use it. Ends with 1 when something is missing.
///
/// # Errors
/// When the configuration is wrong.
pub fn run(options: &serve::Options, json: bool) -> Outcome {
    let findings = match serve::known_engine(&options.load()?)? {
        Known::Container(config) => container::probe::probe(&config),
        Known::Qemu(config) => qemu::probe::probe(&config),
    };
    let missing = findings.iter().filter(|finding| !finding.ok).count();
    if json {
        output::line(&as_json(&findings).to_string())?;
    } else {
        output::table(&["", "WHAT", "FOUND"], findings.iter().flat_map(rows).collect())?;
        output::line(&verdict(missing, findings.len()))?;
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A finding, and below it what mends it.
fn rows(finding: &Finding) -> Vec<Vec<String>> {
    let mark = if finding.ok { "ok" } else { "MISSING" };
    let mut rows = vec![vec![mark.to_owned(), finding.what.to_owned(), finding.detail.clone()]];
    if !finding.mend.is_empty() {
        rows.push(vec![String::new(), String::new(), format!("to mend it: {}", finding.mend)]);
    }
    rows
}

fn verdict(missing: usize, all: usize) -> String {
    match missing {
        0 => "This host can run computers.".to_owned(),
        missing => format!("{missing} of {all} needs of computers are not met on this host."),
    }
}

fn as_json(findings: &[Finding]) -> serde_json::Value {
    let listed: Vec<_> = findings
        .iter()
        .map(|it| json!({"what": it.what, "ok": it.ok, "detail": it.detail, "mend": it.mend}))
        .collect();
    json!({"ok": findings.iter().all(|finding| finding.ok), "findings": listed})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_what_mends_it() {
        let fine = Finding { what: "root", ok: true, detail: "yes".to_owned(), mend: "" };
        let bad = Finding { what: "runtime", ok: false, detail: "no runc".to_owned(), mend: "install it" };
        assert_eq!(rows(&fine), [["ok", "root", "yes"]]);
        assert_eq!(rows(&bad), [["MISSING", "runtime", "no runc"], ["", "", "to mend it: install it"]]);
        assert_eq!(as_json(std::slice::from_ref(&fine))["ok"], true);
        let both = as_json(&[fine, bad]);
        assert_eq!((&both["ok"], &both["findings"][1]["mend"]), (&json!(false), &json!("install it")));
        assert!(verdict(1, 2).starts_with("1 of 2"));
    }
}
