//! Groups of a viewer's input: clicks, drags, scrolls and typed keys, as actions of the timeline.
//!
//! It does no I/O and has no clock. What is typed is counted, because a person may type a password: no record
//! has a character.

mod keyboard;
mod pointer;
mod records;

#[cfg(test)]
mod fixture;

use std::time::{Duration, Instant};

use crate::display::keys::Modifier;
use hotdesk_domain::desktop::rfb::ClientInput;
use hotdesk_wire::desktop::action::timeline::ActionRecord;
use records::{at_place, clicked, direction, record};

/// Longest time between a click and a press that continues it to a double or triple click; desktops have
/// 400 ms by default.
const CLICK_PAUSE: Duration = Duration::from_millis(400);
/// Pause that ends typing and scrolling.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest group, so that its entry comes in time. A button that is held for longer is a press and, later, a
/// release. The API's longest drag takes as long.
const MAX_LENGTH: Duration = Duration::from_secs(30);

/// A position on the screen in pixels.
type Place = [u16; 2];

/// A step of the timeline.
#[derive(Debug)]
pub(super) enum Step {
    /// An action has begun.
    Begin {
        /// Whether it has pictures.
        is_pictured: bool,
    },
    /// The action that began last has ended.
    End {
        /// What it was, without its screen.
        record: Box<ActionRecord>,
        /// From its first to its last input.
        took: Duration,
    },
}

/// Groups the input of a viewer.
#[derive(Debug, Default)]
pub(super) struct InputGroups {
    /// Buttons that are down.
    buttons: u8,
    /// Those of them whose press is an action already.
    told: u8,
    place: Place,
    /// Modifiers that are down, each once.
    modifiers: Vec<Modifier>,
    /// A modifier that is down and was used with nothing.
    alone: Option<Modifier>,
    group: Option<Group>,
    /// Whether input before the next one is missing.
    is_gap: bool,
}

/// An action that may go on.
#[derive(Debug)]
struct Group {
    began: Instant,
    /// When its last input came.
    last: Instant,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// A button that is down, after clicks that it continues.
    Press {
        bit: u8,
        from: Place,
        clicks: u8,
    },
    Clicks {
        bit: u8,
        at: Place,
        count: u8,
    },
    Scroll {
        bit: u8,
        at: Place,
        steps: u32,
    },
    Keys {
        characters: u64,
        names: Vec<String>,
    },
}

impl Group {
    fn due(&self) -> Instant {
        match self.content {
            Content::Press { .. } => self.began + MAX_LENGTH,
            Content::Clicks { .. } => self.last + CLICK_PAUSE,
            Content::Scroll { .. } | Content::Keys { .. } => (self.last + PAUSE).min(self.began + MAX_LENGTH),
        }
    }
}

impl InputGroups {
    /// When [`InputGroups::pass`] has something to do, unless input comes before.
    pub(super) fn due(&self) -> Option<Instant> {
        self.group.as_ref().map(Group::due)
    }

    /// Ends what is over at a time.
    pub(super) fn pass(&mut self, now: Instant, steps: &mut Vec<Step>) {
        if self.due().is_some_and(|due| due <= now) {
            self.end(steps);
        }
    }

    /// Adds an input. Times must not fall.
    pub(super) fn add(&mut self, at: Instant, input: ClientInput, steps: &mut Vec<Step>) {
        self.pass(at, steps);
        match input {
            ClientInput::Pointer { buttons, x, y } => self.point(at, buttons, [x, y], steps),
            ClientInput::Key { is_down, keysym } => self.key(at, is_down, keysym, steps),
            ClientInput::Clipboard { characters } => {
                let record =
                    ActionRecord { characters: characters.map(u64::from), ..record("set_clipboard") };
                self.tell(record, false, steps);
            }
            ClientInput::Unreadable => self.tell(record("not_recorded"), false, steps),
        }
    }

    /// Notes that inputs are missing here. What is held down is not known then.
    pub(super) fn lose(&mut self, inputs: u64, steps: &mut Vec<Step>) {
        self.end(steps);
        self.modifiers.clear();
        self.alone = None;
        self.is_gap = true;
        if inputs > 0 {
            let record = ActionRecord { inputs: Some(inputs), ..record("not_recorded") };
            self.tell(record, false, steps);
        }
    }

    /// Ends everything, because the viewer has left. Buttons that it holds come up where they are.
    pub(super) fn finish(&mut self, at: Instant, steps: &mut Vec<Step>) {
        self.pass(at, steps);
        let held = self.group.as_ref().and_then(|group| match group.content {
            Content::Press { bit, .. } => Some(bit),
            Content::Clicks { .. } | Content::Scroll { .. } | Content::Keys { .. } => None,
        });
        if let Some(bit) = held {
            self.release(at, bit, self.place, steps);
        }
        self.end(steps);
    }

    fn begin(&mut self, at: Instant, content: Content, steps: &mut Vec<Step>) {
        self.end(steps);
        steps.push(Step::Begin { is_pictured: true });
        self.group = Some(Group { began: at, last: at, content });
    }

    /// Tells an action of one input.
    fn tell(&mut self, record: ActionRecord, is_pictured: bool, steps: &mut Vec<Step>) {
        self.end(steps);
        steps.push(Step::Begin { is_pictured });
        steps.push(Step::End { record: Box::new(record), took: Duration::ZERO });
    }

    /// Ends the group as it is.
    fn end(&mut self, steps: &mut Vec<Step>) {
        let Some(group) = &mut self.group else { return };
        let record = match &mut group.content {
            Content::Press { bit, from, clicks } => {
                let (bit, from, clicks) = (*bit, *from, *clicks);
                if clicks > 0 {
                    let record = clicked(bit, from, clicks);
                    steps.push(Step::End { record: Box::new(record), took: group.last - group.began });
                    steps.push(Step::Begin { is_pictured: true });
                    group.began = group.last;
                }
                self.told |= 1 << bit;
                at_place("mouse_down", bit, from)
            }
            Content::Clicks { bit, at, count } => clicked(*bit, *at, *count),
            Content::Scroll { bit, at, steps } => ActionRecord {
                direction: direction(*bit).map(str::to_owned),
                amount: Some(f64::from(*steps)),
                ..at_place("scroll", *bit, *at)
            },
            Content::Keys { characters: 0, names } => {
                ActionRecord { keys: Some(std::mem::take(names)), ..record("key") }
            }
            Content::Keys { characters, names } => ActionRecord {
                characters: Some(*characters),
                keys: Some(std::mem::take(names)).filter(|names| !names.is_empty()),
                ..record("type")
            },
        };
        self.end_as(record, steps);
    }

    /// Ends the group as this action.
    fn end_as(&mut self, record: ActionRecord, steps: &mut Vec<Step>) {
        if let Some(group) = self.group.take() {
            steps.push(Step::End { record: Box::new(record), took: group.last - group.began });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::In::{At, Down, Junk, Left, Lost, Up};
    use super::fixture::{CTRL, told};

    #[test]
    fn after_lost_input_nothing_is_guessed() {
        for (inputs, expected) in [
            (vec![Lost(3)], vec!["not_recorded [3] 0ms"]),
            (vec![Lost(0)], vec![]),
            (vec![Junk], vec!["not_recorded 0ms"]),
            // The release of a button that is down was lost, or its press.
            (
                vec![At(0, 1, 5, 5), Lost(1), At(9, 0, 6, 6), At(9, 1, 7, 7), At(9, 0, 7, 7), Left],
                vec!["mouse_down left 5 5 0ms", "not_recorded [1] 0ms", "click left 7 7 x1 9ms"],
            ),
            (
                vec![Lost(1), At(9, 1, 6, 6), At(9, 0, 7, 7)],
                vec!["not_recorded [1] 0ms", "mouse_up left 7 7 0ms"],
            ),
            // A modifier is forgotten: what follows is counted as typed.
            (
                vec![Down(0, CTRL), Lost(2), Down(1, 97), Up(1, CTRL), Left],
                vec!["not_recorded [2] 0ms", "type (1) 0ms"],
            ),
        ] {
            assert_eq!(told(&inputs), expected);
        }
    }
}
