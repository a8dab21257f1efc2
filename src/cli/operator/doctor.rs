//! `hotdesk doctor`: requirements of this host for computers, and their remedies.

use std::process::ExitCode;

use serde_json::json;

use crate::failure::Outcome;
use crate::operator::serve;
use crate::output;
use crate::progress::Progress;
use hotdesk_engine::{EngineFindings, Finding, Offer, Severity};

/// Checks the host for `hotdesk serve` with the same options; the exit code is 1 when a requirement is not met.
///
/// # Errors
/// When the configuration is invalid, or standard output cannot be written.
pub fn run(options: &serve::Options, json: bool) -> Outcome {
    let settings = options.load()?.engine_settings()?;
    let progress = Progress::operation("doctor", "checking this host");
    let engines: Vec<EngineFindings> = hotdesk_engine::checks(&settings)
        .into_iter()
        .map(|engine| {
            let findings = engine.checks.into_iter().map(|check| {
                progress.set_message(format!("checking {}", check.what));
                check.run()
            });
            EngineFindings { offer: engine.offer, findings: findings.collect(), left_out: Vec::new() }
        })
        .collect();
    progress.complete();
    let all: Vec<&Finding> = engines.iter().flat_map(|engine| &engine.findings).collect();
    let missing = all.iter().filter(|finding| finding.severity() == Severity::Failed).count();
    if json {
        output::line(&as_json(&engines).to_string())?;
    } else {
        for engine in &engines {
            output::line(&described(&engine.offer))?;
            output::table(&["", "REQUIREMENT", "RESULT"], engine.findings.iter().flat_map(rows).collect())?;
        }
        output::line(&verdict(missing, all.len()))?;
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Describes what an engine offers.
fn described(offer: &Offer) -> String {
    let (able, name) = (offer.capabilities, offer.isolation.name());
    let memory = if able.suspend { "keeps memory in a suspend" } else { "keeps no memory" };
    let live = [("vCPUs", able.live_cpu), ("RAM", able.live_ram), ("disk", able.live_disk)];
    let live: Vec<&str> = live.iter().filter(|(_, is_live)| *is_live).map(|(what, _)| *what).collect();
    format!(
        "isolation {name} (engine {}): {memory}; resizes while it runs: {}",
        offer.engine,
        live.join(", ")
    )
}

/// Table rows of a finding: the result, and below it the remedy, if any.
fn rows(finding: &Finding) -> Vec<Vec<String>> {
    let mark = match finding.severity() {
        Severity::Ok => "ok",
        Severity::Warning => "warning",
        Severity::Failed => "MISSING",
    };
    let mut rows = vec![vec![mark.to_owned(), finding.what.to_string(), finding.detail.clone()]];
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

fn as_json(engines: &[EngineFindings]) -> serde_json::Value {
    let offers: Vec<_> = engines
        .iter()
        .map(|EngineFindings { offer, .. }| {
            json!({"isolation": offer.isolation.name(), "engine": offer.engine, "capabilities": offer.capabilities})
        })
        .collect();
    let (mut findings, mut ok) = (Vec::new(), true);
    for engine in engines {
        for it in &engine.findings {
            ok &= it.severity() != Severity::Failed;
            findings.push(json!({
                "isolation": engine.offer.isolation.name(), "what": it.what, "ok": it.ok, "optional": it.optional,
                "detail": it.detail, "mend": it.remedy
            }));
        }
    }
    json!({"ok": ok, "isolations": offers, "findings": findings})
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::computer::isolation::Isolation;
    use hotdesk_engine::Capabilities;

    #[test]
    fn a_missing_requirement_is_listed_with_its_remedy() {
        let finding = |what: &'static str, ok, detail: &str, remedy: &'static str| Finding {
            what: what.into(),
            ok,
            optional: false,
            detail: detail.to_owned(),
            remedy: remedy.into(),
        };
        let fine = finding("root", true, "yes", "");
        let bad = finding("runtime", false, "no runc", "install it");
        let useful = Finding { optional: true, ..bad.clone() };
        assert_eq!(rows(&useful)[0][0], "warning");
        let offer =
            Offer { isolation: Isolation::Sandbox, engine: "container", capabilities: Capabilities::ALL };
        let as_json = |findings: &[Finding]| {
            as_json(&[EngineFindings { offer, findings: findings.to_vec(), left_out: Vec::new() }])
        };
        assert_eq!(
            described(&offer),
            "isolation sandbox (engine container): keeps memory in a suspend; resizes while it runs: vCPUs, RAM, disk"
        );
        assert_eq!(as_json(&[useful])["ok"], true);
        assert_eq!(rows(&fine), [["ok", "root", "yes"]]);
        assert_eq!(rows(&bad), [["MISSING", "runtime", "no runc"], ["", "", "to fix it: install it"]]);
        assert_eq!(as_json(std::slice::from_ref(&fine))["ok"], true);
        let both = as_json(&[fine, bad]);
        assert_eq!(both["isolations"][0]["isolation"], "sandbox");
        assert_eq!((&both["ok"], &both["findings"][1]["mend"]), (&json!(false), &json!("install it")));
        assert!(verdict(1, 2).starts_with("1 of 2"));
    }
}
