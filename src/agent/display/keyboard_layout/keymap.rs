//! The X server's current key map.

use std::collections::HashMap;

use x11rb::connection::Connection;
use x11rb::protocol::xproto::ConnectionExt as _;

use super::keys;
use super::pools::Stroke;
use crate::display::fault::Outcome;
use crate::display::link::Link;

/// Keycodes that may be rebound: those without a symbol in the evdev map, and F13 to F24 (191 to 202). Media
/// keys are never rebound, because programs such as Chromium identify them by keycode.
const SPARE: [u8; 23] = [
    149, 154, 168, 178, 183, 184, 191, 192, 193, 194, 195, 196, 197, 198, 199, 200, 201, 202, 217, 219, 222,
    230, 248,
];
/// In the evdev map F13 to F24 carry vendor symbols that no such key sends. On other keys a vendor symbol
/// means "in use".
const F13_TO_F24: std::ops::RangeInclusive<u8> = 191..=202;
/// First vendor keysym.
const VENDOR: u32 = 0x1000_0000;

/// A key map.
#[derive(Debug)]
pub(in crate::display) struct Keymap {
    first: u8,
    /// Keysyms per keycode.
    pub(in crate::display) width: usize,
    rows: Vec<u32>,
    strokes: HashMap<u32, Stroke>,
    /// Keycodes of the modifier map.
    pub(in crate::display) modifier_codes: Vec<u8>,
}

impl Keymap {
    /// Reads the key map from the server.
    pub(in crate::display) fn read(link: &Link) -> Outcome<Self> {
        let setup = link.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let map = link.get_keyboard_mapping(first, last - first + 1)?;
        let modifiers = link.get_modifier_mapping()?;
        let map = map.reply()?;
        let modifier_codes = modifiers.reply()?.keycodes.into_iter().filter(|code| *code != 0).collect();
        let mut keymap = Self {
            first,
            width: usize::from(map.keysyms_per_keycode).max(1),
            rows: map.keysyms,
            strokes: HashMap::new(),
            modifier_codes,
        };
        // Plain keysyms first: a key without Shift is preferred.
        for level in 0..2.min(keymap.width) {
            for code in (first..=last).filter(|code| !SPARE.contains(code)) {
                let keysym = canonical(keymap.row(code).get(level).copied().unwrap_or_default());
                if keysym != 0 {
                    keymap.strokes.entry(keysym).or_insert(Stroke { code, shift: level == 1 });
                }
            }
        }
        Ok(keymap)
    }

    /// The keysyms of a keycode.
    pub(in crate::display) fn row(&self, code: u8) -> &[u32] {
        let from = usize::from(code.saturating_sub(self.first)) * self.width;
        self.rows.get(from..from + self.width).unwrap_or_default()
    }

    /// The key that types a keysym; spare keys do not count.
    pub(in crate::display) fn stroke(&self, keysym: u32) -> Option<Stroke> {
        self.strokes.get(&keysym).copied()
    }

    /// The spare keycodes of this map, ascending, with their first two keysyms.
    pub(in crate::display) fn spare(&self) -> Vec<(u8, [u32; 2])> {
        let free = |code: &u8| {
            !self.modifier_codes.contains(code)
                && !self.row(*code).is_empty()
                && (F13_TO_F24.contains(code)
                    || self.row(*code).iter().all(|keysym| *keysym < VENDOR && !is_function(*keysym)))
        };
        let two = |code: u8| {
            let mut levels = self.row(code).iter().map(|keysym| canonical(*keysym));
            (code, [levels.next().unwrap_or_default(), levels.next().unwrap_or_default()])
        };
        SPARE.into_iter().filter(free).map(two).collect()
    }
}

fn is_function(keysym: u32) -> bool {
    keysym != 0 && keys::to_char(keysym).is_none()
}

/// Maps the several keysyms of one character to a single one.
fn canonical(keysym: u32) -> u32 {
    keys::to_char(keysym).and_then(keys::of_char).unwrap_or(keysym)
}
