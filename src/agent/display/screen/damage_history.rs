//! What has changed on a screen since a moment? The areas that were painted, remembered for a while.

use std::collections::VecDeque;

use hotdesk_domain::area::{Area, joined};

/// Moments remembered: a screen that is looked at 50 times a second while it changes is remembered for 10 seconds.
const MOST_MOMENTS: usize = 512;
/// Areas remembered of one moment, and told of a span: more say no more to a reader than the few that hold them.
const MOST_AREAS: usize = 24;

/// A moment of a screen's content. Those of one connection are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Which connection counted; a restarted screen counts from new.
    pub(super) seat: u64,
    /// Changes of content seen on that connection.
    pub(super) frame: u64,
}

impl Moment {
    /// Whether both are of one life of the screen.
    pub fn shares_its_screen_with(self, other: Self) -> bool {
        self.seat == other.seat
    }
}

/// What was painted in a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The end of the span.
    pub now: Moment,
    /// What was painted; a few areas that hold everything.
    pub areas: Vec<Area>,
    /// False when the beginning is not remembered any more, or the X server tells no damage: then anything may have
    /// changed.
    pub known: bool,
}

/// The areas painted at the last moments of one connection.
#[derive(Debug, Default)]
pub(super) struct Changes {
    kept: VecDeque<(u64, Vec<Area>)>,
    /// The newest moment that is not remembered any more.
    forgotten: u64,
}

impl Changes {
    /// Notes what was painted by the moment `frame`.
    pub(super) fn note(&mut self, frame: u64, areas: impl IntoIterator<Item = Area>) {
        self.kept.push_back((frame, joined(areas, MOST_AREAS)));
        while self.kept.len() > MOST_MOMENTS {
            if let Some((frame, _)) = self.kept.pop_front() {
                self.forgotten = frame;
            }
        }
    }

    /// What was painted after the moment `frame`; `None` when it is not remembered.
    pub(super) fn since(&self, frame: u64) -> Option<Vec<Area>> {
        if frame < self.forgotten {
            return None;
        }
        let later = self.kept.iter().rev().take_while(|(at, _)| *at > frame);
        Some(joined(later.flat_map(|(_, areas)| areas.iter().copied()), MOST_AREAS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(x: i32) -> Area {
        Area { x, y: 0, width: 1, height: 1 }
    }

    #[test]
    fn only_what_came_later_is_told_and_the_past_is_bounded() {
        let mut changes = Changes::default();
        assert_eq!(changes.since(0), Some(vec![]));
        changes.note(1, [dot(1)]);
        changes.note(2, [dot(5), dot(9)]);
        let mut seen = changes.since(0).unwrap();
        seen.sort_by_key(|area| area.x);
        assert_eq!(seen, [dot(1), dot(5), dot(9)]);
        assert_eq!(changes.since(1).unwrap().len(), 2);
        assert_eq!(changes.since(2), Some(vec![]));
        for frame in 3..MOST_MOMENTS as u64 + 10 {
            changes.note(frame, [dot(2)]);
        }
        assert_eq!(changes.since(0), None);
        assert_eq!(changes.since(MOST_MOMENTS as u64), Some(vec![dot(2)]));
        assert_eq!(changes.kept.len(), MOST_MOMENTS);
    }
}
