//! Rules for boot snapshots: disk and memory of a booted, settled desktop, from which computers of one size begin.

use hotdesk_base::time::UnixMillis;

/// A boot snapshot, as far as its retention is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedSnapshot {
    /// Digest of what the boot depended on besides the size: isolation, image, agent and engine.
    pub inputs: String,
    /// Whether it is complete.
    pub ready: bool,
    /// When a computer last began from it, or when it was made.
    pub used_at: UnixMillis,
}

/// Decides which boot snapshots to remove, in order: those that are incomplete, those of other inputs than the present
/// ones of each isolation, and of the rest all but the `keep` that were used last.
pub fn expired(snapshots: &[RetainedSnapshot], inputs: &[String], keep: usize) -> Vec<bool> {
    let is_usable = |it: &RetainedSnapshot| it.ready && inputs.contains(&it.inputs);
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
            assert_eq!(expired(&snapshots, &["now".to_owned()], keep), removed, "{snapshots:?}, {keep}");
        }
    }
}
