//! Groups of a viewer's input: clicks, drags, scrolls and typed keys, as actions of the timeline.
//!
//! It does no I/O and has no clock. What is typed is counted, because a person may type a password: no record
//! has a character.

use std::time::{Duration, Instant};

use crate::display::keys::{self, Modifier};
use hotdesk_domain::desktop::pointer::Button;
use hotdesk_domain::desktop::rfb::ClientInput;
use hotdesk_wire::desktop::action::timeline::ActionRecord;

/// `source` of the records.
const SOURCE: &str = "vnc";
/// Longest time between a click and a press that continues it to a double or triple click; desktops have
/// 400 ms by default.
const CLICK_PAUSE: Duration = Duration::from_millis(400);
/// Pause that ends typing and scrolling.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest group, so that its entry comes in time. A button that is held for longer is a press and, later, a
/// release. The API's longest drag takes as long.
const MAX_LENGTH: Duration = Duration::from_secs(30);
/// Largest distance in pixels, in each direction, that is no movement: hands shake. Desktops have about 8 for
/// drags and 5 for double clicks.
const NEAR: u16 = 5;
/// Most clicks of one action, as in the API.
const MAX_CLICKS: u8 = 3;
/// Most characters of one entry: about a paragraph.
const MAX_CHARACTERS: u64 = 200;
/// Most named keys of one entry, as in actions of the API.
const MAX_KEYS: usize = 100;
/// Buttons of RFB's mask that are the wheel.
const WHEEL: u8 = 0b0111_1000;

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

    fn point(&mut self, at: Instant, buttons: u8, place: Place, steps: &mut Vec<Step>) {
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

    fn release(&mut self, at: Instant, bit: u8, place: Place, steps: &mut Vec<Step>) {
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

    fn key(&mut self, at: Instant, is_down: bool, keysym: u32, steps: &mut Vec<Step>) {
        let Some(modifier) = Modifier::of_keysym(keysym) else {
            if is_down {
                self.alone = None;
                self.add_key(at, keys::name_unless_typing(keysym), steps);
            }
            return;
        };
        if !is_down {
            // With Shift, the key that goes up may have another keysym.
            self.modifiers.retain(|held| *held != modifier);
            if self.alone.take() == Some(modifier) {
                self.add_key(at, Some(modifier.name().to_owned()), steps);
            }
        } else if !self.modifiers.contains(&modifier) {
            self.alone = self.modifiers.is_empty().then_some(modifier);
            self.modifiers.push(modifier);
        }
    }

    /// Adds a key that went down: its name, or none when it types a character.
    fn add_key(&mut self, at: Instant, name: Option<String>, steps: &mut Vec<Step>) {
        if !matches!(&self.group, Some(Group { content: Content::Keys { .. }, .. })) {
            self.begin(at, Content::Keys { characters: 0, names: Vec::new() }, steps);
        }
        let Some(Group { last, content: Content::Keys { characters, names }, .. }) = &mut self.group else {
            return;
        };
        *last = at;
        let is_command =
            self.modifiers.iter().any(|held| [Modifier::Ctrl, Modifier::Alt, Modifier::Super].contains(held));
        match name {
            None if !is_command => *characters += 1,
            None => names.push(keys::masked_chord(&self.modifiers, "*")),
            Some(name) => names.push(keys::masked_chord(&self.modifiers, &name)),
        }
        if *characters == MAX_CHARACTERS || names.len() == MAX_KEYS {
            self.end(steps);
        }
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

fn is_near(one: Place, other: Place) -> bool {
    one.iter().zip(other).all(|(one, other)| one.abs_diff(other) <= NEAR)
}

/// The record of input that reached the screen.
fn record(action: &str) -> ActionRecord {
    ActionRecord {
        action: action.to_owned(),
        source: Some(SOURCE.to_owned()),
        success: true,
        ..ActionRecord::default()
    }
}

fn at_place(action: &str, bit: u8, place: Place) -> ActionRecord {
    let [x, y] = place.map(|axis| Some(f64::from(axis)));
    ActionRecord { x, y, button: button(bit).map(|button| button.name().to_owned()), ..record(action) }
}

fn clicked(bit: u8, place: Place, count: u8) -> ActionRecord {
    ActionRecord { count: Some(count), ..at_place("click", bit, place) }
}

/// The button of a bit of RFB's mask; `None` for the wheel.
fn button(bit: u8) -> Option<Button> {
    match bit {
        0 => Some(Button::Left),
        1 => Some(Button::Middle),
        2 => Some(Button::Right),
        7 => Some(Button::Back),
        _ => None,
    }
}

/// The direction of a bit of RFB's mask; `None` for a button.
fn direction(bit: u8) -> Option<&'static str> {
    match bit {
        3 => Some("up"),
        4 => Some("down"),
        5 => Some("left"),
        6 => Some("right"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETURN: u32 = 0xff0d;
    const DOWN: u32 = 0xff54;
    const CTRL: u32 = 0xffe3;
    const SHIFT: u32 = 0xffe1;
    const ALT: u32 = 0xffe9;
    const META: u32 = 0xffe7;

    /// An input, or what happens beside it, after a time in milliseconds.
    #[derive(Clone, Copy)]
    enum In {
        At(u64, u8, u16, u16),
        Down(u64, u32),
        Up(u64, u32),
        Text(u64, Option<u32>),
        Lost(u64),
        Junk,
        Pause(u64),
        Left,
    }

    /// Tells what came of inputs, in words. Each action must begin before it ends.
    fn told(inputs: &[In]) -> Vec<String> {
        let (mut grouping, mut steps, mut now) = (InputGroups::default(), Vec::new(), Instant::now());
        for input in inputs {
            let mut after = |pause: u64| {
                now += Duration::from_millis(pause);
                now
            };
            match *input {
                In::At(pause, buttons, x, y) => {
                    grouping.add(after(pause), ClientInput::Pointer { buttons, x, y }, &mut steps);
                }
                In::Down(pause, keysym) => {
                    grouping.add(after(pause), ClientInput::Key { is_down: true, keysym }, &mut steps);
                }
                In::Up(pause, keysym) => {
                    grouping.add(after(pause), ClientInput::Key { is_down: false, keysym }, &mut steps);
                }
                In::Text(pause, characters) => {
                    grouping.add(after(pause), ClientInput::Clipboard { characters }, &mut steps);
                }
                In::Lost(inputs) => grouping.lose(inputs, &mut steps),
                In::Junk => grouping.add(after(0), ClientInput::Unreadable, &mut steps),
                In::Pause(pause) => grouping.pass(after(pause), &mut steps),
                In::Left => grouping.finish(after(0), &mut steps),
            }
        }
        let (mut said, mut is_open) = (Vec::new(), false);
        for step in steps {
            match step {
                Step::Begin { .. } => {
                    assert!(!is_open, "{said:?}");
                    is_open = true;
                }
                Step::End { record, took } => {
                    assert!(is_open && record.success && record.source.as_deref() == Some("vnc"), "{said:?}");
                    is_open = false;
                    said.push(words(&record, took));
                }
            }
        }
        assert_eq!(is_open, grouping.group.is_some(), "{said:?}");
        said
    }

    fn words(record: &ActionRecord, took: Duration) -> String {
        let number = |value: Option<f64>| value.map(|value| value.to_string());
        let parts = [
            Some(record.action.clone()),
            record.button.clone(),
            record.direction.clone(),
            number(record.x),
            number(record.y),
            number(record.end_x),
            number(record.end_y),
            record.count.map(|count| format!("x{count}")),
            number(record.amount),
            record.characters.map(|count| format!("({count})")),
            record.keys.as_ref().map(|keys| keys.join(" ")),
            record.inputs.map(|count| format!("[{count}]")),
            Some(format!("{}ms", took.as_millis())),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pointers_click_drag_and_scroll() {
        use In::{At, Left, Pause};
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

    #[test]
    fn typed_keys_are_counted_and_others_are_named() {
        use In::{At, Down, Left, Pause, Text, Up};
        let typed: Vec<In> = "hunter2".bytes().map(|byte| Down(50, byte.into())).collect();
        for (inputs, expected) in [
            ([&typed[..], &[Pause(1000)]].concat(), vec!["type (7) 300ms"]),
            ([&typed[..], &[Down(10, RETURN), Left]].concat(), vec!["type (7) Return 310ms"]),
            ([&typed[..], &[At(10, 0, 1, 1), Down(10, 97), Left]].concat(), vec!["type (8) 320ms"]),
            (
                [&typed[..], &[At(10, 1, 1, 1), At(10, 0, 1, 1), Left]].concat(),
                vec!["type (7) 300ms", "click left 1 1 x1 10ms"],
            ),
            (
                [&typed[..], &typed[..], &[Down(1000, 97), Left]].concat(),
                vec!["type (14) 650ms", "type (1) 0ms"],
            ),
            (vec![Down(0, DOWN), Down(30, DOWN), Up(5, DOWN), Left], vec!["key Down Down 30ms"]),
            // Shift types, Control and Alt do not.
            (vec![Down(0, SHIFT), Down(1, 65), Up(1, 65), Up(1, SHIFT), Left], vec!["type (1) 0ms"]),
            (vec![Down(0, CTRL), Down(1, 99), Up(1, 99), Up(1, CTRL), Left], vec!["key ctrl+* 0ms"]),
            (
                vec![Down(0, CTRL), Down(1, ALT), Down(1, 113), Up(1, CTRL), Up(1, ALT), Down(1, 97), Left],
                vec!["type (1) ctrl+alt+* 3ms"],
            ),
            (vec![Down(0, ALT), Down(1, RETURN), Up(1, ALT), Left], vec!["key alt+Return 0ms"]),
            // A modifier alone, also when it repeats.
            (vec![Down(0, META), Down(9, META), Up(9, META), Left], vec!["key super 0ms"]),
            (
                vec![Down(0, CTRL), At(1, 1, 5, 5), At(1, 0, 5, 5), Up(1, CTRL), Left],
                vec!["click left 5 5 x1 1ms"],
            ),
            (vec![Down(0, CTRL), Down(0, SHIFT), Up(1, SHIFT), Up(1, CTRL), Left], vec![]),
            // Nothing is known of a key without a keysym.
            (vec![Down(0, 0), Left], vec!["type (1) 0ms"]),
            (
                vec![Down(0, 97), Text(5, Some(12)), Text(5, None)],
                vec!["type (1) 0ms", "set_clipboard (12) 0ms", "set_clipboard 0ms"],
            ),
        ] {
            assert_eq!(told(&inputs), expected);
        }
        assert_eq!(told(&[Down(1, 97); 450]), ["type (200) 199ms", "type (200) 199ms"]);
        assert_eq!(told(&[Down(999, 97); 40]), ["type (31) 29970ms"]);
        let arrows = told(&[Down(1, DOWN); 250]);
        assert_eq!((arrows.len(), arrows[0].matches("Down").count()), (2, MAX_KEYS));
    }

    #[test]
    fn after_lost_input_nothing_is_guessed() {
        use In::{At, Down, Junk, Left, Lost, Up};
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
