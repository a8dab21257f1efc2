//! Retention rules for recordings: which old ones are removed.

/// Default limit of bytes of all recordings: hours of an idle desktop, and little of a computer's disk.
pub const QUOTA: u64 = 1024 * 1024 * 1024;
/// Default free bytes that the disk must have while a recording runs: programs need them more.
pub const MIN_FREE: u64 = 256 * 1024 * 1024;
/// Default limit of the number of recordings.
pub const MAX_COUNT: usize = 100;

/// Limits of the recordings.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// Most bytes of all recordings.
    pub quota: u64,
    /// Free bytes that the disk must have while a recording runs.
    pub min_free: u64,
    /// Most recordings.
    pub max_count: usize,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self { quota: QUOTA, min_free: MIN_FREE, max_count: MAX_COUNT }
    }
}

/// Size and state of a recording.
#[derive(Clone, Copy, Debug)]
pub struct StoredRecording {
    /// Bytes of its files.
    pub bytes: u64,
    /// Whether it is running.
    pub running: bool,
}

/// Returns the indices of the recordings (`all`: oldest first) to remove, and whether the limits hold then.
/// `coming` is the number of recordings that are to be added.
pub fn to_remove(all: &[StoredRecording], limits: RetentionLimits, coming: usize) -> (Vec<usize>, bool) {
    let mut bytes = all.iter().fold(0_u64, |bytes, share| bytes.saturating_add(share.bytes));
    let mut count = all.len() + coming;
    let mut gone = Vec::new();
    // A new recording needs bytes as well: it does not fit in a quota that is just full.
    let fits = |bytes: u64, count: usize| {
        bytes.saturating_add(coming as u64) <= limits.quota && count <= limits.max_count
    };
    for (at, share) in all.iter().enumerate().filter(|(_, share)| !share.running) {
        if fits(bytes, count) {
            break;
        }
        bytes = bytes.saturating_sub(share.bytes);
        count -= 1;
        gone.push(at);
    }
    (gone, fits(bytes, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_ended_recordings_are_removed_first() {
        let ended = |bytes| StoredRecording { bytes, running: false };
        let runs = |bytes| StoredRecording { bytes, running: true };
        let limits = RetentionLimits { quota: 100, min_free: 0, max_count: 3 };
        for (all, coming, gone, fits) in [
            (vec![], 1, vec![], true),
            (vec![ended(50), ended(50)], 0, vec![], true),
            (vec![ended(50), ended(50)], 1, vec![0], true),
            (vec![ended(1), ended(1), ended(1)], 1, vec![0], true),
            (vec![ended(90), runs(30), ended(20)], 0, vec![0], true),
            (vec![runs(90), ended(5), ended(20)], 0, vec![1, 2], true),
            (vec![runs(90), runs(30), ended(5)], 0, vec![2], false),
            (vec![runs(101)], 0, vec![], false),
        ] {
            assert_eq!(to_remove(&all, limits, coming), (gone, fits), "{all:?} {coming}");
        }
    }
}
