//! Properties of an action that follow from its body alone.

use std::time::Duration;

use super::timeline::ActionRecord;
use crate::desktop::effect::Options;

/// X and Y of a position in a body; each is absent if the body does not name it.
pub type Coordinates<'a> = [Option<&'a mut f64>; 2];

/// Body of an action. The defaults are those of an action that only observes, takes no time and has no
/// position.
pub trait ActionBody {
    /// Returns the common options; `None` for actions that only observe or wait. Only actions with options
    /// take the screen's turn, can change the screen and get pictures in a timeline.
    fn options(&self) -> Option<&Options> {
        None
    }

    /// Returns how long the action takes at most by itself, without a wait for a stable screen after it.
    fn duration(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the positions of the body, the start of the action first. With a `frame` they are pixels of
    /// that picture.
    fn positions(&mut self) -> Vec<Coordinates<'_>> {
        Vec::new()
    }

    /// Adds to the record of the action what the request says of the action. Keys and keywords are the
    /// client's text; the agent masks them. A body never adds typed text.
    fn record(&self, _entry: &mut ActionRecord) {}
}
