//! Rules for the pool: booted computers that nobody has claimed. A create takes one of its size.

use std::time::Duration;

use crate::computer::prepared::{DesktopSize, DesktopSpec};

/// Percentage of the host's memory. With less available the pool shrinks: computers need it.
pub const LOW_MEMORY_PERCENT: u64 = 10;

/// A size of which the pool has some.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSize {
    /// Isolation and hardware.
    pub spec: DesktopSpec,
    /// How many.
    pub wanted: u32,
}

/// Limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Most RAM of all its machines, in GB.
    pub max_memory_gb: u32,
    /// Age at which a machine is replaced.
    pub max_age: Duration,
}

/// A booted machine of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PooledMachine {
    /// Its size.
    pub size: DesktopSize,
    /// Whether it runs, and was booted from the present image by the present engine.
    pub usable: bool,
    /// Time since its boot.
    pub age: Duration,
}

/// Next steps of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolPlan {
    /// For each machine whether it is removed.
    pub remove: Vec<bool>,
    /// The next machine to boot.
    pub make: Option<DesktopSpec>,
}

/// Decides which machines a pool removes, and which one it boots next. The newest machines of a size stay. With
/// `low_memory` the oldest goes and none is booted.
pub fn plan(
    sizes: &[PoolSize],
    machines: &[PooledMachine],
    limits: PoolLimits,
    low_memory: bool,
) -> PoolPlan {
    let mut remove = vec![true; machines.len()];
    let (mut memory_gb, mut make) = (0_u32, None);
    for PoolSize { spec, wanted } in sizes {
        let (size, ram_gb) = (DesktopSize::from(spec), spec.hardware.ram_gb);
        let mut kept = 0;
        let fits = |memory_gb: u32| memory_gb.saturating_add(ram_gb) <= limits.max_memory_gb;
        for at in newest_first(machines) {
            let Some((machine, removed)) = machines.get(at).zip(remove.get_mut(at)) else { continue };
            let is_good = machine.usable && machine.age < limits.max_age && machine.size == size;
            if is_good && kept < *wanted && fits(memory_gb) {
                *removed = false;
                (kept, memory_gb) = (kept + 1, memory_gb.saturating_add(ram_gb));
            }
        }
        if kept < *wanted && make.is_none() && fits(memory_gb) {
            make = Some(spec.clone());
            memory_gb = memory_gb.saturating_add(ram_gb);
        }
    }
    if low_memory {
        make = None;
        let oldest = newest_first(machines).into_iter().rev().find(|at| remove.get(*at) == Some(&false));
        if let Some(removed) = oldest.and_then(|at| remove.get_mut(at)) {
            *removed = true;
        }
    }
    PoolPlan { remove, make }
}

fn newest_first(machines: &[PooledMachine]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..machines.len()).collect();
    order.sort_by_key(|at| machines.get(*at).map(|machine| machine.age));
    order
}

/// Whether so little of the host's memory is available that the pool shrinks. Both in bytes.
pub fn is_low_memory(available: u64, total: u64) -> bool {
    available < total / 100 * LOW_MEMORY_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::computer::isolation::Isolation;
    use crate::computer::prepared::services::ServiceStart;
    use crate::computer::{ComputerRequest, parse_computer_request};

    const LIMITS: PoolLimits = PoolLimits { max_memory_gb: 12, max_age: Duration::from_secs(100) };

    fn spec(ram: f64) -> DesktopSpec {
        let request = ComputerRequest { ram: Some(ram), ..ComputerRequest::default() };
        DesktopSpec {
            isolation: Isolation::Shared,
            hardware: parse_computer_request(&request).unwrap(),
            layers: Vec::new(),
            services: ServiceStart::AtLaunch,
        }
    }

    fn machine(ram: f64, age: u64) -> PooledMachine {
        let size = DesktopSize::from(&spec(ram));
        PooledMachine { size, usable: true, age: Duration::from_secs(age) }
    }

    /// Sizes, machines, whether memory is low; the machines to remove, and the RAM of the one to make.
    type PoolCase = (Vec<PoolSize>, Vec<PooledMachine>, bool, Vec<bool>, Option<f64>);

    #[test]
    fn a_pool_has_what_is_wanted_within_its_limits() {
        let size = |ram, wanted| PoolSize { spec: spec(ram), wanted };
        let dead = PooledMachine { usable: false, ..machine(4.0, 1) };
        let cases: [PoolCase; 11] = [
            (vec![], vec![machine(4.0, 1)], false, vec![true], None),
            (vec![size(4.0, 2)], vec![], false, vec![], Some(4.0)),
            (vec![size(4.0, 2)], vec![machine(4.0, 1)], false, vec![false], Some(4.0)),
            (vec![size(4.0, 1)], vec![machine(4.0, 9), machine(4.0, 1)], false, vec![true, false], None),
            (vec![size(4.0, 1)], vec![machine(4.0, 100)], false, vec![true], Some(4.0)),
            (vec![size(4.0, 1)], vec![dead], false, vec![true], Some(4.0)),
            // The sizes share the memory, the first before the others.
            (
                vec![size(8.0, 1), size(4.0, 2)],
                vec![machine(8.0, 1), machine(4.0, 1)],
                false,
                vec![false, false],
                None,
            ),
            (vec![size(4.0, 2), size(8.0, 1)], vec![machine(8.0, 1)], false, vec![false], Some(4.0)),
            (
                vec![size(4.0, 2), size(8.0, 1)],
                vec![machine(4.0, 1), machine(8.0, 1)],
                false,
                vec![false, true],
                Some(4.0),
            ),
            (vec![size(4.0, 9)], vec![machine(4.0, 1), machine(4.0, 2)], true, vec![false, true], None),
            (vec![size(16.0, 1)], vec![], false, vec![], None),
        ];
        for (sizes, machines, low_memory, remove, make) in cases {
            let expected = PoolPlan { remove, make: make.map(spec) };
            assert_eq!(plan(&sizes, &machines, LIMITS, low_memory), expected, "{sizes:?} {machines:?}");
        }
    }

    #[test]
    fn a_tenth_of_the_memory_is_not_for_the_pool() {
        for (available, low) in [(0, true), (99, true), (100, false), (1000, false)] {
            assert_eq!(is_low_memory(available, 1000), low, "{available}");
        }
    }
}
