//! Balance of machines over the host's CPUs: busy machines do not share a CPU while another is idle.
//!
//! Without it, two computers on one CPU would get half of it each, because the kernel moves no process out of its CPU
//! set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use crate::host::cgroup::cpuset::{CpuSet, MachineCpus};
use crate::host::cgroup::{self, limits};
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// Least gain of a move, in cores: less does not pay for cold caches, and noise would move machines to and fro.
const LEAST_GAIN: f64 = 0.2;

/// The CPU time that each machine had used at a moment.
#[derive(Debug, Default)]
pub(crate) struct CpuTimes(BTreeMap<ComputerId, (Instant, Duration)>);

/// A machine with a CPU set.
#[derive(Clone, Debug)]
struct PlacedMachine {
    id: ComputerId,
    cpus: CpuSet,
    /// Cores that it uses of each of its CPUs, since the last measurement.
    load: f64,
}

/// Moves machines of `own` from busy CPUs to others, by the CPU time that all machines used since the last call.
/// `times` holds the measurement.
pub(crate) fn balance(times: &mut CpuTimes, own: &BTreeSet<ComputerId>) -> EngineResult<()> {
    let Some(sets) = MachineCpus::open()? else { return Ok(()) };
    let (mut placed, mut now) = (Vec::new(), BTreeMap::new());
    for id in cgroup::machines().map_err(|error| EngineError::failed("list the machines' groups", error))? {
        // A machine that ends meanwhile has no files any more.
        let (Ok(Some(cpus)), Some(used)) = (sets.of(id), used_time(id)) else { continue };
        let measured = (Instant::now(), used);
        if let Some((then, before)) = times.0.get(&id) {
            let seconds = (measured.0 - *then).as_secs_f64();
            let load = used.saturating_sub(*before).as_secs_f64() / seconds / f64::from(cpus.len() as u32);
            placed.push(PlacedMachine { id, cpus, load });
        }
        now.insert(id, measured);
    }
    times.0 = now;
    // Each move takes load from the busiest CPU; the bound is only for the case that rounding defeats that.
    for _ in 0..placed.len() {
        let Some((index, cpus)) = best_move(&sets.available, &placed, own) else { break };
        let machine = &mut placed[index];
        tracing::debug!(computer = %machine.id, from = ?machine.cpus, to = ?cpus, "a busy computer moves to other CPUs");
        sets.set(machine.id, &cpus)?;
        machine.cpus = cpus;
    }
    Ok(())
}

/// The machine on the busiest CPU whose move to an idler one lowers the load most, and its new CPUs; `None` when no
/// move is worth it.
fn best_move(
    available: &CpuSet,
    machines: &[PlacedMachine],
    movable: &BTreeSet<ComputerId>,
) -> Option<(usize, CpuSet)> {
    let on = |cpu: u32| machines.iter().filter(move |machine| machine.cpus.contains(&cpu));
    let loads: BTreeMap<u32, f64> =
        available.iter().map(|cpu| (*cpu, on(*cpu).map(|machine| machine.load).sum())).collect();
    let least = |one: &(&u32, &f64), other: &(&u32, &f64)| one.1.total_cmp(other.1);
    let (busiest, most) = loads.iter().max_by(least)?;
    let mut best: Option<(f64, usize, CpuSet)> = None;
    for (index, machine) in machines.iter().enumerate() {
        if !movable.contains(&machine.id) || !machine.cpus.contains(busiest) {
            continue;
        }
        let elsewhere = loads.iter().filter(|(cpu, _)| !machine.cpus.contains(cpu)).min_by(least);
        let Some((target, there)) = elsewhere else { continue };
        let gain = most - (most - machine.load).max(there + machine.load);
        if gain >= LEAST_GAIN && best.as_ref().is_none_or(|(other, ..)| gain > *other) {
            let cpus = machine.cpus.iter().copied().filter(|cpu| cpu != busiest).chain([*target]).collect();
            best = Some((gain, index, cpus));
        }
    }
    best.map(|(_, index, cpus)| (index, cpus))
}

/// The CPU time that a machine has used; `None` when it has no group.
fn used_time(id: ComputerId) -> Option<Duration> {
    let groups = cgroup::folders(id);
    if let Some(file) = limits::find(&groups, "cpuacct.usage") {
        return Some(Duration::from_nanos(fs::read_to_string(file).ok()?.trim().parse().ok()?));
    }
    let text = fs::read_to_string(limits::find(&groups, "cpu.stat")?).ok()?;
    let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(micros.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sets of machines after one move, each given by its CPUs and its load for each of them; the machines with
    /// a set in `fixed` belong to another controller.
    fn moved(machines: &[(&[u32], f64)], fixed: &[usize]) -> Option<(usize, Vec<u32>)> {
        let place = |(cpus, load): &(&[u32], f64)| PlacedMachine {
            id: ComputerId::random(),
            cpus: cpus.iter().copied().collect(),
            load: *load,
        };
        let machines: Vec<PlacedMachine> = machines.iter().map(place).collect();
        let own = machines.iter().enumerate().filter(|(index, _)| !fixed.contains(index));
        let own = own.map(|(_, machine)| machine.id).collect();
        let (index, cpus) = best_move(&CpuSet::from([0, 1, 2]), &machines, &own)?;
        Some((index, cpus.into_iter().collect()))
    }

    #[test]
    fn busy_machines_leave_each_other_and_nobody_else_moves() {
        // Two that share a CPU get half of it each.
        assert_eq!(moved(&[(&[0], 0.5), (&[0], 0.5), (&[1], 0.9)], &[]), Some((0, vec![2])));
        assert_eq!(moved(&[(&[0], 0.5), (&[0], 0.5)], &[0]), Some((1, vec![1])));
        assert_eq!(moved(&[(&[0, 1], 0.6), (&[1], 0.3), (&[2], 0.2)], &[]), Some((1, vec![2])));
        // The larger one moves when that leaves less on either CPU.
        assert_eq!(moved(&[(&[0], 0.1), (&[0], 0.5), (&[0], 0.4)], &[]), Some((1, vec![1])));
        // One alone has nothing to gain, nor do equals on all CPUs, nor idle ones.
        assert_eq!(moved(&[(&[0], 1.0)], &[]), None);
        assert_eq!(moved(&[(&[0], 0.5), (&[0], 0.5), (&[1], 1.0), (&[2], 1.0)], &[]), None);
        assert_eq!(moved(&[(&[0], 0.05), (&[0], 0.05)], &[]), None);
        assert_eq!(moved(&[(&[0], 0.5), (&[0], 0.5)], &[0, 1]), None);
        assert_eq!(moved(&[], &[]), None);
    }
}
