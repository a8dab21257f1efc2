//! Checks and leftovers of the simulated host.

use std::collections::BTreeSet;

use crate::simulated::{SimulatedHost, ids_in};
use crate::{EngineFindings, EngineResult, Finding, LeftoverRecord, Offer};
use hotdesk_base::ids::ComputerId;

/// Name of the check that only a thorough examination runs.
const SLOW: &str = "simulated disk";

impl SimulatedHost {
    /// The findings for one offer: whether there is a folder of machines, and in a thorough examination also
    /// whether it can be listed.
    pub(super) fn check(&self, offer: Offer, thorough: bool) -> EngineFindings {
        let finding = |what: &'static str, ok: bool| Finding {
            what: what.into(),
            ok,
            optional: true,
            detail: if ok { "there" } else { "missing" }.to_owned(),
            remedy: if ok { "" } else { "create a computer" }.into(),
        };
        let mut findings = vec![finding("simulated machines", self.folder.is_dir())];
        let mut left_out = Vec::new();
        if thorough {
            findings.push(finding(SLOW, std::fs::read_dir(&self.folder).is_ok()));
        } else {
            left_out.push(SLOW.into());
        }
        EngineFindings { offer, findings, left_out }
    }

    /// The machines that none of the computers in `owned` owns.
    pub(super) fn leftovers(&self, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<LeftoverRecord>> {
        let machines: Vec<ComputerId> = ids_in(&self.folder, "look for leftovers")?;
        let leftover = |id: ComputerId| LeftoverRecord {
            kind: "machine".into(),
            location: self.machine(id).display().to_string(),
            reason: "no computer has this id".into(),
            remedy: "remove its folder".into(),
        };
        Ok(machines.into_iter().filter(|id| !owned.contains(id)).map(leftover).collect())
    }
}
