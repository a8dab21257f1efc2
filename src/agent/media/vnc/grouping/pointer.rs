//! Buttons, movements and the wheel of a viewer's pointer.

use std::time::Instant;

use super::records::at_place;
use super::{Content, Group, InputGroups, Place, Step};
use hotdesk_wire::desktop::action::timeline::ActionRecord;

/// Largest distance in pixels, in each direction, that is no movement: hands shake. Desktops have about 8 for
/// drags and 5 for double clicks.
const NEAR: u16 = 5;
/// Most clicks of one action, as in the API.
const MAX_CLICKS: u8 = 3;
/// Buttons of RFB's mask that are the wheel.
const WHEEL: u8 = 0b0111_1000;

impl InputGroups {
    pub(super) fn point(&mut self, at: Instant, buttons: u8, place: Place, steps: &mut Vec<Step>) {
        let before = std::mem::replace(&mut self.buttons, buttons);
        self.place = place;
        if std::mem::take(&mut self.is_gap) {
            self.told = buttons & !WHEEL;
            return;
        }
        for bit in 0..8 {
            let mask = 1 << bit;
            match (before & mask != 0, buttons & mask != 0) {
                (false, true) if mask & WHEEL != 0 => self.scroll(at, bit, place, steps),
                (false, true) => self.press(at, bit, place, steps),
                (true, false) if mask & WHEEL == 0 => self.release(at, bit, place, steps),
                (true, _) | (false, false) => {}
            }
        }
    }

    fn press(&mut self, at: Instant, bit: u8, place: Place, steps: &mut Vec<Step>) {
        self.alone = None;
        if let Some(Group { last, content, .. }) = &mut self.group
            && let Content::Clicks { bit: clicked, at: from, count } = *content
            && clicked == bit
            && is_near(from, place)
        {
            *last = at;
            *content = Content::Press { bit, from: place, clicks: count };
            return;
        }
        self.begin(at, Content::Press { bit, from: place, clicks: 0 }, steps);
    }

    pub(super) fn release(&mut self, at: Instant, bit: u8, place: Place, steps: &mut Vec<Step>) {
        if self.told & (1 << bit) != 0 {
            self.told &= !(1 << bit);
            self.tell(at_place("mouse_up", bit, place), true, steps);
            return;
        }
        let Some(Group { last, content, .. }) = &mut self.group else { return };
        let Content::Press { bit: pressed, from, clicks } = *content else { return };
        if pressed != bit {
            return;
        }
        let before = std::mem::replace(last, at);
        if is_near(from, place) {
            *content = Content::Clicks { bit, at: from, count: clicks + 1 };
            if clicks + 1 == MAX_CLICKS {
                self.end(steps);
            }
            return;
        }
        if clicks > 0 {
            // The clicks are an action of their own.
            *last = before;
            *content = Content::Clicks { bit, at: from, count: clicks };
            self.begin(at, Content::Press { bit, from, clicks: 0 }, steps);
        }
        let [x, y] = place.map(|axis| Some(f64::from(axis)));
        let record = ActionRecord { end_x: x, end_y: y, ..at_place("drag", bit, from) };
        self.end_as(record, steps);
    }

    fn scroll(&mut self, at: Instant, bit: u8, place: Place, steps: &mut Vec<Step>) {
        self.alone = None;
        if let Some(Group { last, content: Content::Scroll { bit: earlier, at: from, steps: count }, .. }) =
            &mut self.group
            && *earlier == bit
            && is_near(*from, place)
        {
            *last = at;
            *count = count.saturating_add(1);
            return;
        }
        self.begin(at, Content::Scroll { bit, at: place, steps: 1 }, steps);
    }
}

fn is_near(one: Place, other: Place) -> bool {
    one.iter().zip(other).all(|(one, other)| one.abs_diff(other) <= NEAR)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::In::{self, At, Left, Pause};
    use super::super::fixture::told;

    #[test]
    fn pointers_click_drag_and_scroll() {
        let click = [At(10, 1, 50, 60), At(90, 0, 51, 60)];
        let table: &[(&[In], &[&str])] = &[
            (&[At(0, 0, 1, 1), At(10, 0, 2, 2), Pause(9000)], &[]),
            (&[click[0], click[1]], &[]),
            (&[click[0], click[1], Pause(400)], &["click left 50 60 x1 90ms"]),
            (&[click[0], click[1], click[0], click[1], Pause(400)], &["click left 50 60 x2 190ms"]),
            // A third one ends it; a fourth one is another.
            (
                &[click[0], click[1], click[0], click[1], click[0], click[1], click[0], click[1], Left],
                &["click left 50 60 x3 290ms", "click left 50 60 x1 90ms"],
            ),
            // Too late, too far, another button.
            (
                &[click[0], click[1], At(400, 1, 50, 60), At(5, 0, 50, 60), Left],
                &["click left 50 60 x1 90ms", "click left 50 60 x1 5ms"],
            ),
            (
                &[click[0], click[1], At(5, 1, 56, 60), At(5, 0, 56, 60), Left],
                &["click left 50 60 x1 90ms", "click left 56 60 x1 5ms"],
            ),
            (
                &[click[0], click[1], At(5, 4, 50, 60), At(5, 0, 50, 60), Left],
                &["click left 50 60 x1 90ms", "click right 50 60 x1 5ms"],
            ),
            (&[At(0, 1, 10, 10), At(50, 1, 40, 40), At(50, 0, 100, 90)], &["drag left 10 10 100 90 100ms"]),
            // A double click whose second press drags.
            (
                &[click[0], click[1], At(10, 1, 50, 60), At(10, 0, 150, 60)],
                &["click left 50 60 x1 100ms", "drag left 50 60 150 60 0ms"],
            ),
            // Two buttons at once, and one that is held for long.
            (
                &[At(0, 1, 5, 5), At(10, 5, 5, 5), At(10, 1, 5, 5), At(500, 0, 9, 9)],
                &["mouse_down left 5 5 0ms", "click right 5 5 x1 10ms", "mouse_up left 9 9 0ms"],
            ),
            (
                &[At(0, 2, 5, 5), Pause(30_000), At(1, 2, 70, 70), At(1, 0, 80, 80)],
                &["mouse_down middle 5 5 0ms", "mouse_up middle 80 80 0ms"],
            ),
            // The wheel: a step is a press and a release.
            (
                &[At(0, 16, 7, 8), At(1, 0, 7, 8), At(90, 16, 7, 9), At(1, 0, 7, 9), Pause(1000)],
                &["scroll down 7 8 2 91ms"],
            ),
            (
                &[At(0, 16, 7, 8), At(1, 0, 7, 8), At(90, 8, 7, 8), At(1, 0, 7, 8), Left],
                &["scroll down 7 8 1 0ms", "scroll up 7 8 1 0ms"],
            ),
            (
                &[At(0, 16, 7, 8), At(1, 0, 7, 8), At(1, 16, 70, 8), At(1, 0, 70, 8), Left],
                &["scroll down 7 8 1 0ms", "scroll down 70 8 1 0ms"],
            ),
            (&[At(0, 64, 7, 8), At(1, 0, 7, 8), At(1000, 64, 7, 8)], &["scroll right 7 8 1 0ms"]),
            // A viewer that leaves with a button down has released it.
            (&[At(0, 1, 5, 5), Left], &["click left 5 5 x1 0ms"]),
            (&[At(0, 1, 5, 5), At(9, 1, 50, 5), Left], &["drag left 5 5 50 5 9ms"]),
            (&[At(0, 128, 5, 5), At(9, 0, 5, 5), Left], &["click back 5 5 x1 9ms"]),
        ];
        for (index, (inputs, expected)) in table.iter().enumerate() {
            // Where the viewer leaves, the time since the last input is not part of the action.
            assert_eq!(told(inputs), *expected, "row {index}");
        }
    }
}
