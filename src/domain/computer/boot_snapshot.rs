//! Rules for boot snapshots: disk and memory of a booted, settled desktop, from which computers of one size begin.

use crate::computer::Hardware;
use hotdesk_base::time::UnixMillis;

/// Size of the machine in a boot snapshot. Its memory continues only in a machine of the same size; the bandwidth is
/// set when it continues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BootSize(String);

impl BootSize {
    /// Returns the size that the store has as this text.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the text that identifies the size, in the store and in the log.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Hardware> for BootSize {
    fn from(hardware: &Hardware) -> Self {
        let Hardware { cpu, ram_gb, disk_gb, resolution, bandwidth_mbps: _ } = hardware;
        Self(format!("{cpu} vCPU, {ram_gb} GB RAM, {disk_gb} GB disk, {resolution}"))
    }
}

/// A boot snapshot, as far as its retention is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedSnapshot {
    /// Digest of what the boot depended on besides the size: image, agent and engine.
    pub inputs: String,
    /// Whether it is complete.
    pub ready: bool,
    /// When a computer last began from it, or when it was made.
    pub used_at: UnixMillis,
}

/// Decides which boot snapshots to remove, in order: those that are incomplete, those of other inputs than the present
/// ones, and of the rest all but the `keep` that were used last.
pub fn expired(snapshots: &[RetainedSnapshot], inputs: &str, keep: usize) -> Vec<bool> {
    let is_usable = |it: &RetainedSnapshot| it.ready && it.inputs == inputs;
    snapshots
        .iter()
        .enumerate()
        .map(|(at, it)| {
            let is_newer = |(other_at, other): &(usize, &RetainedSnapshot)| {
                is_usable(other) && (other.used_at, *other_at) > (it.used_at, at)
            };
            !is_usable(it) || snapshots.iter().enumerate().filter(is_newer).count() >= keep
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_create_can_use_is_removed_and_then_the_oldest() {
        let snapshot = |inputs: &str, ready, used_at| RetainedSnapshot {
            inputs: inputs.to_owned(),
            ready,
            used_at: UnixMillis::new(used_at),
        };
        let cases = [
            (vec![], 2, vec![]),
            (vec![snapshot("now", true, 1)], 0, vec![true]),
            (
                vec![snapshot("now", false, 9), snapshot("before", true, 9), snapshot("now", true, 1)],
                1,
                vec![true, true, false],
            ),
            (
                vec![snapshot("now", true, 3), snapshot("now", true, 1), snapshot("now", true, 2)],
                2,
                vec![false, true, false],
            ),
            (vec![snapshot("now", true, 1), snapshot("now", true, 1)], 1, vec![true, false]),
        ];
        for (snapshots, keep, removed) in cases {
            assert_eq!(expired(&snapshots, "now", keep), removed, "{snapshots:?}, {keep}");
        }
    }

    #[test]
    fn sizes_differ_by_all_but_the_bandwidth() {
        let hardware = Hardware {
            cpu: 0.5,
            ram_gb: 4,
            disk_gb: 8,
            resolution: "1280x720x24".parse().unwrap(),
            bandwidth_mbps: 0,
        };
        let size = BootSize::from(&hardware);
        assert_eq!(size.as_str(), "0.5 vCPU, 4 GB RAM, 8 GB disk, 1280x720x24");
        assert_eq!(size, BootSize::from(&Hardware { bandwidth_mbps: 5, ..hardware }));
        for other in [
            Hardware { cpu: 1.0, ..hardware },
            Hardware { ram_gb: 8, ..hardware },
            Hardware { disk_gb: 9, ..hardware },
            Hardware { resolution: "1024x768x24".parse().unwrap(), ..hardware },
        ] {
            assert_ne!(size, BootSize::from(&other), "{other:?}");
        }
    }
}
