//! How much may be kept, and what goes first? Pure rules over sizes.

/// Bytes of all recordings together: hours of a quiet desktop, and small beside a computer's disk.
pub const QUOTA: u64 = 1024 * 1024 * 1024;
/// Bytes that the disk must have left while something records: programs need them more.
pub const LEAST_FREE: u64 = 256 * 1024 * 1024;
/// Recordings that are remembered.
pub const MOST_KEPT: usize = 100;

/// What bounds the recordings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all together.
    pub quota: u64,
    /// Bytes that the disk must have left.
    pub least_free: u64,
    /// How many there may be.
    pub most: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { quota: QUOTA, least_free: LEAST_FREE, most: MOST_KEPT }
    }
}

/// A recording as far as its place is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Its bytes.
    pub bytes: u64,
    /// Whether it goes on.
    pub running: bool,
}

/// Which of all recordings, oldest first, are to go; and whether the rest keeps to the limits. `coming` is how many more
/// there will be.
pub fn too_much(all: &[Share], limits: Limits, coming: usize) -> (Vec<usize>, bool) {
    let mut bytes = all.iter().fold(0_u64, |bytes, share| bytes.saturating_add(share.bytes));
    let mut count = all.len() + coming;
    let mut gone = Vec::new();
    // One that is to come needs bytes as well: a quota that is just full has no room for it.
    let fits = |bytes: u64, count: usize| {
        bytes.saturating_add(coming as u64) <= limits.quota && count <= limits.most
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
    fn the_oldest_that_have_ended_go_first_and_what_runs_stays() {
        let ended = |bytes| Share { bytes, running: false };
        let runs = |bytes| Share { bytes, running: true };
        let limits = Limits { quota: 100, least_free: 0, most: 3 };
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
            assert_eq!(too_much(&all, limits, coming), (gone, fits), "{all:?} {coming}");
        }
    }
}
