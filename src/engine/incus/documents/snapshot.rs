//! Label of a snapshot: its size, and whether it has memory.

use std::fmt;

use uuid::Uuid;

/// Label that an instance has while a snapshot of it is taken. The snapshot keeps it, because nobody changes the configuration of
/// a snapshot. In the instance it means nothing afterwards.
pub(in crate::incus) const SNAPSHOT: &str = "user.hotdesk.snapshot";
/// Word for a snapshot without memory.
const DISK: &str = "disk";

/// What the label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::incus) struct SnapshotLabel {
    /// The snapshot, because the label of an earlier one may be there.
    pub(in crate::incus) snapshot: Uuid,
    /// Bytes of the instance that neither its image nor an earlier snapshot has; 0 where the pool cannot say.
    pub(in crate::incus) bytes: u64,
    /// The generation of the boot whose memory the snapshot has; `None` without memory.
    pub(in crate::incus) memory: Option<u64>,
}

impl SnapshotLabel {
    /// Reads the label of a snapshot; `None` when the text is that of another one.
    pub(in crate::incus) fn read(text: &str, snapshot: Uuid) -> Option<Self> {
        let mut words = text.split(' ');
        let named: Uuid = words.next()?.parse().ok()?;
        let bytes = words.next()?.parse().ok()?;
        let memory = match words.next()? {
            DISK => None,
            generation => Some(generation.parse().ok()?),
        };
        (named == snapshot && words.next().is_none()).then_some(Self { snapshot, bytes, memory })
    }
}

impl fmt::Display for SnapshotLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.snapshot, self.bytes)?;
        match self.memory {
            Some(generation) => write!(f, "{generation}"),
            None => f.write_str(DISK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_that_of_one_snapshot() {
        let snapshot = Uuid::new_v4();
        for memory in [None, Some(7)] {
            let label = SnapshotLabel { snapshot, bytes: 500, memory };
            let text = label.to_string();
            assert_eq!(SnapshotLabel::read(&text, snapshot), Some(label));
            assert_eq!(SnapshotLabel::read(&text, Uuid::new_v4()), None);
        }
        for wrong in ["", "x", "500 disk"].into_iter().map(str::to_owned).chain([
            format!("{snapshot} 500"),
            format!("{snapshot} 500 no"),
            format!("{snapshot} 500 7 8"),
        ]) {
            assert_eq!(SnapshotLabel::read(&wrong, snapshot), None, "{wrong}");
        }
    }
}
