//! Records of the actions of a viewer.

use super::Place;
use hotdesk_domain::desktop::pointer::Button;
use hotdesk_wire::desktop::action::timeline::ActionRecord;

/// `source` of the records.
const SOURCE: &str = "vnc";

/// The record of input that reached the screen.
pub(super) fn record(action: &str) -> ActionRecord {
    ActionRecord {
        action: action.to_owned(),
        source: Some(SOURCE.to_owned()),
        success: true,
        ..ActionRecord::default()
    }
}

pub(super) fn at_place(action: &str, bit: u8, place: Place) -> ActionRecord {
    let [x, y] = place.map(|axis| Some(f64::from(axis)));
    ActionRecord { x, y, button: button(bit).map(|button| button.name().to_owned()), ..record(action) }
}

pub(super) fn clicked(bit: u8, place: Place, count: u8) -> ActionRecord {
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
pub(super) fn direction(bit: u8) -> Option<&'static str> {
    match bit {
        3 => Some("up"),
        4 => Some("down"),
        5 => Some("left"),
        6 => Some("right"),
        _ => None,
    }
}
