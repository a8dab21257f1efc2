//! Input of a viewer and the actions that it becomes, for tests.

use std::time::{Duration, Instant};

use super::{InputGroups, Step};
use hotdesk_domain::desktop::rfb::ClientInput;
use hotdesk_wire::desktop::action::timeline::ActionRecord;

pub(super) const CTRL: u32 = 0xffe3;
pub(super) const SHIFT: u32 = 0xffe1;

/// An input, or what happens beside it, after a time in milliseconds.
#[derive(Clone, Copy)]
pub(super) enum In {
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
pub(super) fn told(inputs: &[In]) -> Vec<String> {
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
