//! History of the painted areas of a screen.

use std::collections::VecDeque;

use hotdesk_domain::desktop::area::{Area, merge};

/// Positions remembered: 10 seconds of a screen that changes and is read 50 times a second.
const MAX_MOMENTS: usize = 512;
/// Most areas of one position, and of a result. Further areas are joined, because more of them tell a reader
/// nothing.
const MAX_AREAS: usize = 24;

/// A position in the content history of a screen. Positions of one connection are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Number of the X connection; a restarted screen has another one.
    pub(in crate::display) connection: u64,
    /// Number of content changes seen on that connection.
    pub(in crate::display) frame: u64,
}

impl Moment {
    /// Whether both positions are of one X connection, so that they can be compared.
    pub fn is_same_connection(self, other: Self) -> bool {
        self.connection == other.connection
    }
}

/// Painted areas between two positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaintedChange {
    /// The later position.
    pub now: Moment,
    /// Areas in screen pixels that cover everything painted, in no order; at most a few.
    pub areas: Vec<Area>,
    /// False when the earlier position is forgotten, or when the X server does not report damage. Anything
    /// may have changed then.
    pub known: bool,
}

/// Painted areas by position of one connection.
#[derive(Debug, Default)]
pub(in crate::display) struct DamageHistory {
    areas_by_frame: VecDeque<(u64, Vec<Area>)>,
    /// The newest forgotten position.
    forgotten: u64,
}

impl DamageHistory {
    /// Records what was painted up to the position `frame`.
    pub(in crate::display) fn add(&mut self, frame: u64, areas: impl IntoIterator<Item = Area>) {
        self.areas_by_frame.push_back((frame, merge(areas, MAX_AREAS)));
        while self.areas_by_frame.len() > MAX_MOMENTS {
            if let Some((frame, _)) = self.areas_by_frame.pop_front() {
                self.forgotten = frame;
            }
        }
    }

    /// The areas painted after the position `frame`; `None` when it is forgotten.
    pub(in crate::display) fn since(&self, frame: u64) -> Option<Vec<Area>> {
        if frame < self.forgotten {
            return None;
        }
        let later = self.areas_by_frame.iter().rev().take_while(|(at, _)| *at > frame);
        Some(merge(later.flat_map(|(_, areas)| areas.iter().copied()), MAX_AREAS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(x: i32) -> Area {
        Area { x, y: 0, width: 1, height: 1 }
    }

    #[test]
    fn only_later_areas_are_returned_and_the_history_is_bounded() {
        let mut changes = DamageHistory::default();
        assert_eq!(changes.since(0), Some(vec![]));
        changes.add(1, [dot(1)]);
        changes.add(2, [dot(5), dot(9)]);
        let mut seen = changes.since(0).unwrap();
        seen.sort_by_key(|area| area.x);
        assert_eq!(seen, [dot(1), dot(5), dot(9)]);
        assert_eq!(changes.since(1).unwrap().len(), 2);
        assert_eq!(changes.since(2), Some(vec![]));
        for frame in 3..MAX_MOMENTS as u64 + 10 {
            changes.add(frame, [dot(2)]);
        }
        assert_eq!(changes.since(0), None);
        assert_eq!(changes.since(MAX_MOMENTS as u64), Some(vec![dot(2)]));
        assert_eq!(changes.areas_by_frame.len(), MAX_MOMENTS);
    }
}
