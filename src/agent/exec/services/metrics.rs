//! Figures of the computer's processors, memory and disk.

use std::path::Path;

use sysinfo::{Disks, System};

/// Reads a metric in percent; `None` for one that is not known.
pub(super) fn read_metric(system: &mut System, metric: &str) -> Option<f64> {
    let share = |used: u64, total: u64| if total == 0 { 0.0 } else { used as f64 * 100.0 / total as f64 };
    match metric {
        "cpu" => {
            system.refresh_cpu_usage();
            Some(f64::from(system.global_cpu_usage()))
        }
        "memory" => {
            system.refresh_memory();
            Some(share(system.used_memory(), system.total_memory()))
        }
        "disk" => disk_use().map(|(used, total)| share(used, total)),
        _ => None,
    }
}

/// Used and all bytes of the disk; `None` where it is not known.
pub(super) fn disk_use() -> Option<(u64, u64)> {
    let disks = Disks::new_with_refreshed_list().ok()?;
    let root = disks.iter().find(|disk| disk.mount_point() == Path::new("/"))?;
    Some((root.total_space().saturating_sub(root.available_space()), root.total_space()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_a_percentage() {
        let mut system = System::new().unwrap();
        for metric in hotdesk_domain::computer::template::trigger::METRICS {
            // A container of the test may have no disk at its root.
            if let Some(value) = read_metric(&mut system, metric) {
                assert!((0.0..=100.0).contains(&value), "{metric} {value}");
            }
        }
        assert_eq!(read_metric(&mut system, "luck"), None);
    }
}
