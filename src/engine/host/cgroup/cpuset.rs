//! CPU sets of machines: as many of the host's CPUs as a machine has vCPUs, so that its programs count and use those.
//!
//! The kernel's files are the only record of the sets. A restarted controller finds them there, and so do the other
//! controllers of the host.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::host::cgroup::{self, limits};
use crate::host::command::host_error;
use crate::whole_cpus;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

const STEP: &str = "choose the CPUs of a machine";
/// The file with a group's CPUs, in both versions.
const SETTING: &str = "cpuset.cpus";
/// The file with the CPUs that a group can use: of version 2 and of version 1.
const EFFECTIVE: [&str; 2] = ["cpuset.cpus.effective", "cpuset.effective_cpus"];

/// Numbers of CPUs.
pub(super) type CpuSet = BTreeSet<u32>;

/// The CPU sets of the machines of this host. A lock of the group keeps other controllers from changing them.
#[derive(Debug)]
pub(super) struct MachineCpus {
    /// The group of all machines.
    parent: PathBuf,
    /// The CPUs that machines can use.
    pub(super) available: CpuSet,
    _guard: File,
}

impl MachineCpus {
    /// Opens the sets; `None` when no machine has a set, because the host has no such controller.
    pub(super) fn open() -> EngineResult<Option<Self>> {
        let parents: Vec<PathBuf> =
            cgroup::roots().into_iter().map(|root| root.join(cgroup::PARENT)).collect();
        let Some(file) = EFFECTIVE.iter().find_map(|name| limits::find(&parents, name)) else {
            return Ok(None);
        };
        let parent = file.parent().unwrap_or(Path::new("/")).to_owned();
        let guard = File::open(&parent).map_err(host_error(STEP, &parent))?;
        flock(&guard, FlockOperation::LockExclusive)
            .map_err(|error| host_error(STEP, &parent)(error.into()))?;
        let available = read(&file)?;
        Ok(Some(Self { parent, available, _guard: guard }))
    }

    /// The set of a machine; `None` when it has none, may use all CPUs, or ends at this moment.
    pub(super) fn of(&self, id: ComputerId) -> EngineResult<Option<CpuSet>> {
        let file = self.file(id);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(host_error(STEP, &file)(error)),
        };
        let set = listed(&file, &text)?;
        Ok(Some(set).filter(|set| !set.is_empty() && set.len() < self.available.len()))
    }

    pub(super) fn set(&self, id: ComputerId, cpus: &CpuSet) -> EngineResult<()> {
        let numbers: Vec<String> = cpus.iter().map(u32::to_string).collect();
        let file = self.file(id);
        fs::write(&file, numbers.join(",")).map_err(host_error(STEP, &file))
    }

    fn file(&self, id: ComputerId) -> PathBuf {
        self.parent.join(id.to_string()).join(SETTING)
    }
}

/// Gives a machine as many CPUs as it has vCPUs: those that the fewest machines use. A share of a core counts as one,
/// and a machine with as many as the host gets all.
pub(crate) fn assign(id: ComputerId, vcpus: f64) -> EngineResult<()> {
    let Some(sets) = MachineCpus::open()?.filter(|sets| sets.file(id).exists()) else { return Ok(()) };
    let mut others = Vec::new();
    for other in cgroup::machines().map_err(|error| EngineError::failed(STEP, error))? {
        others.extend(sets.of(other)?.filter(|_| other != id));
    }
    let present = sets.of(id)?.unwrap_or_default();
    sets.set(id, &choose(vcpus, &sets.available, &present, &others))
}

fn choose(vcpus: f64, available: &CpuSet, present: &CpuSet, others: &[CpuSet]) -> CpuSet {
    let count = whole_cpus(vcpus) as usize;
    let machines = |cpu: &u32| others.iter().filter(|set| set.contains(cpu)).count();
    let mut ordered: Vec<u32> = available.iter().copied().collect();
    ordered.sort_by_key(|cpu| (machines(cpu), !present.contains(cpu)));
    ordered.into_iter().take(count).collect()
}

fn read(file: &Path) -> EngineResult<CpuSet> {
    let text = fs::read_to_string(file).map_err(host_error(STEP, file))?;
    listed(file, &text)
}

/// Whether a group was removed before or while its file was read.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ENODEV)
}

fn listed(file: &Path, text: &str) -> EngineResult<CpuSet> {
    parse(text)
        .ok_or_else(|| EngineError::failed(STEP, format!("{}: {text:?} is no list of CPUs", file.display())))
}

/// Parses the list format of cpuset(7), such as `0-2,5`.
fn parse(text: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        set.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        parse(text).unwrap()
    }

    #[test]
    fn lists_of_cpus_are_parsed() {
        for (text, expected) in
            [("0-2,5\n", Some(vec![0, 1, 2, 5])), ("7", Some(vec![7])), ("\n", Some(vec![])), ("0-x", None)]
        {
            assert_eq!(parse(text), expected.map(CpuSet::from_iter), "{text:?}");
        }
    }

    #[test]
    fn the_cpus_that_the_fewest_machines_use_are_chosen() {
        for (vcpus, present, others, expected) in [
            (1.0, "", vec![], "0"),
            (0.5, "", vec!["0"], "1"),
            (1.5, "", vec!["0", "1"], "2-3"),
            (2.0, "", vec!["0-1", "2", "2"], "0,3"),
            // Among equals the machine stays where it is.
            (2.0, "3", vec![], "0,3"),
            (1.0, "2-3", vec!["2"], "3"),
            (4.0, "", vec!["0"], "0-3"),
            (16.0, "1", vec!["0"], "0-3"),
        ] {
            let taken: Vec<CpuSet> = others.iter().map(|text| set(text)).collect();
            let chosen = choose(vcpus, &set("0-3"), &set(present), &taken);
            assert_eq!(chosen, set(expected), "{vcpus} vCPUs, now {present:?}, others {others:?}");
        }
    }
}
