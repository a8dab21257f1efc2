//! How are keys pressed? By XTEST, in the key map as it is, with spare keycodes for what it lacks.
//!
//! Before anything is pressed the keyboard is made neutral: keys that are still down come up, latches and locks
//! (Caps Lock) and another layout group are set aside, and put back afterwards.

use std::time::{Duration, Instant};

use x11rb::protocol::xkb::{self, ConnectionExt as _, Group};
use x11rb::protocol::xproto::{self, ConnectionExt as _, ModMask};
use x11rb::protocol::xtest::ConnectionExt as _;
use xkeysym::key;

use super::fault::Outcome;
use super::keymap::Keymap;
use super::keys::{self, Chord, Modifier};
use super::ping::Listener;
use super::pools::{Pools, Stroke};
use super::seat::{Gone, Seat};
use hotdesk_domain::error::{Error, Result};

/// Longest text of one request: a book chapter. Typed from the map it takes 5 s, wholly by spare keys 6 minutes.
pub const MAX_TEXT_CHARS: usize = 100_000;
/// What programs get to take in a change of the key map; and, if they cannot be asked, to look up what was typed before the
/// next change, beside being watched until they sleep. Measured: 0 wrong in 1,086 characters at 40 ms, 1 in 543 at 15 ms.
const SETTLE: Duration = Duration::from_millis(40);
/// Keys between two round trips: bounds what a slow program has not read yet, costs 0.01 ms.
const BATCH: usize = 64;
/// How long a person at the same screen may hold a modifier before we give up.
const PERSON_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two looks at what a person holds.
const PERSON_PAUSE: Duration = Duration::from_millis(20);
/// The keyboard that programs hear.
const CORE: u16 = 0x100;

/// What a seat knows of its keyboard between requests.
#[derive(Debug)]
pub(super) struct Keyboard {
    has_xkb: bool,
    pools: Option<Pools>,
    /// When a spare key was last pressed.
    typed: Option<Instant>,
}

impl Keyboard {
    pub(super) fn new(has_xkb: bool) -> Self {
        Self { has_xkb, pools: None, typed: None }
    }
}

/// Locked modifiers and group, set aside.
#[derive(Clone, Copy, Debug, Default)]
struct Locks {
    mods: u16,
    group: u8,
}

/// Reads text as keysyms: `\n`, `\r\n` and `\r` are Return, `\t` is Tab.
///
/// # Errors
/// `TooLarge` past [`MAX_TEXT_CHARS`]; `Invalid` for any other control character and for code points that are no
/// characters.
pub(super) fn keysyms(text: &str) -> Result<Vec<u32>> {
    // Bytes first: counting is only worth it for texts that may be too long.
    if text.len() > MAX_TEXT_CHARS && text.chars().count() > MAX_TEXT_CHARS {
        return Err(Error::too_large(format!("text is longer than {MAX_TEXT_CHARS} characters")));
    }
    let mut keysyms = Vec::with_capacity(text.len());
    let mut after_return = false;
    for character in text.chars() {
        let repeated = character == '\n' && after_return;
        after_return = character == '\r';
        match character {
            '\n' if repeated => {}
            '\n' | '\r' => keysyms.push(key::Return),
            '\t' => keysyms.push(key::Tab),
            _ => keysyms.push(keys::of_char(character).ok_or_else(|| {
                Error::invalid(format!("text holds U+{:04X}, which no key types", u32::from(character)))
            })?),
        }
    }
    Ok(keysyms)
}

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed {
    /// How many keys were pressed; one per character, and one for `\r\n`.
    pub delivered: usize,
    /// After how many of them another window had the keyboard, as far as the looks between them tell.
    pub focus_changed_at: Option<usize>,
}

impl Seat {
    /// Types text. Stops early when nobody waits for it any more, and, where asked to, when another window has the
    /// keyboard. What a client keeps down is let go meanwhile.
    pub(super) fn type_text(&mut self, wanted: &[u32], stop_astray: bool, gone: Gone<'_>) -> Outcome<Typed> {
        let map = self.keymap()?;
        let kept = std::mem::take(&mut self.kept.keys);
        let locks = self.neutral()?;
        let typed = self.type_neutral(&map, wanted, stop_astray, gone);
        self.restore(locks)?;
        for code in kept {
            self.keep_down(code)?;
        }
        typed
    }

    fn type_neutral(
        &mut self,
        map: &Keymap,
        wanted: &[u32],
        stop_astray: bool,
        gone: Gone<'_>,
    ) -> Outcome<Typed> {
        let mut typed = Typed { delivered: 0, focus_changed_at: None };
        let mut listener = self.listener_for(map, wanted)?;
        let mut focus = self.focus()?;
        while typed.delivered < wanted.len() && !gone() {
            let rest = &wanted[typed.delivered..];
            let ready = self.provide(map, rest, &mut listener)?;
            for batch in rest[..ready].chunks(BATCH) {
                if gone() {
                    return Ok(typed);
                }
                for keysym in batch {
                    let stroke = self.find(map, *keysym)?;
                    self.strike(map, stroke)?;
                }
                typed.delivered += batch.len();
                // A round trip, as a barrier is.
                let now = self.focus()?;
                if now != focus && typed.delivered < wanted.len() {
                    typed.focus_changed_at.get_or_insert(typed.delivered);
                    if stop_astray {
                        return Ok(typed);
                    }
                }
                focus = now;
            }
            self.note_typed(map, &rest[..ready]);
        }
        Ok(typed)
    }

    fn focus(&self) -> Outcome<u32> {
        self.rearm();
        Ok(self.link.get_input_focus()?.reply()?.focus)
    }

    /// Presses chords one after another, each held for `hold`.
    pub(super) fn press_chords(&mut self, chords: &[Chord], hold: Duration, gone: Gone<'_>) -> Outcome<()> {
        for chord in chords {
            if gone() {
                break;
            }
            self.press_chord(chord, hold)?;
        }
        Ok(())
    }

    fn press_chord(&mut self, chord: &Chord, hold: Duration) -> Outcome<()> {
        let map = self.keymap()?;
        let locks = self.neutral()?;
        let pressed = self.press_neutral(&map, chord, hold);
        let toggled = self.locks()?;
        // Caps_Lock and the like change the locks on purpose: from none, so what is set now is what was toggled.
        let group = if toggled.group == 0 { locks.group } else { toggled.group };
        self.restore(Locks { mods: locks.mods ^ toggled.mods, group })?;
        pressed
    }

    fn press_neutral(&mut self, map: &Keymap, chord: &Chord, hold: Duration) -> Outcome<()> {
        let mut listener = self.listener_for(map, &[chord.keysym])?;
        self.provide(map, &[chord.keysym], &mut listener)?;
        let stroke = self.find(map, chord.keysym)?;
        self.hold_modifiers_of(map, &chord.modifiers)?;
        self.strike_for(map, stroke, hold)?;
        self.note_typed(map, &[chord.keysym]);
        self.release_held()
    }

    /// Presses modifiers; they come up with the rest of what the request holds.
    pub(super) fn hold_modifiers(&mut self, modifiers: &[Modifier]) -> Outcome<()> {
        if modifiers.is_empty() {
            return Ok(());
        }
        let map = self.keymap()?;
        self.hold_modifiers_of(&map, modifiers)
    }

    fn hold_modifiers_of(&mut self, map: &Keymap, modifiers: &[Modifier]) -> Outcome<()> {
        for modifier in modifiers {
            let code = modifier_code(map, modifier.keysym())?;
            if !self.is_down(code) {
                self.key_down(code)?;
            }
        }
        Ok(())
    }

    /// Presses a chord's keys and leaves them down until [`Seat::lift`].
    pub(super) fn keep(&mut self, chord: &Chord) -> Outcome<()> {
        for code in self.codes(chord)? {
            if !self.is_down(code) {
                self.keep_down(code)?;
            }
        }
        self.barrier()
    }

    /// Lets a chord's keys come up, kept or not.
    pub(super) fn lift(&mut self, chord: &Chord) -> Outcome<()> {
        for code in self.codes(chord)?.into_iter().rev() {
            self.key_up(code)?;
            self.kept.keys.retain(|kept| *kept != code);
        }
        self.barrier()
    }

    fn codes(&mut self, chord: &Chord) -> Outcome<Vec<u8>> {
        let map = self.keymap()?;
        let mut codes = Vec::new();
        for modifier in &chord.modifiers {
            codes.push(modifier_code(&map, modifier.keysym())?);
        }
        let unmapped = || Error::invalid("a key that is not on the keyboard layout cannot be held down");
        codes.push(map.stroke(chord.keysym).ok_or_else(unmapped)?.code);
        Ok(codes)
    }

    fn is_down(&self, code: u8) -> bool {
        self.held.keys.contains(&code) || self.kept.keys.contains(&code)
    }

    fn keep_down(&mut self, code: u8) -> Outcome<()> {
        self.key_down(code)?;
        self.held.keys.retain(|held| *held != code);
        self.kept.keys.push(code);
        Ok(())
    }

    /// Binds what is needed for the next keysyms; returns how many can be typed now.
    fn provide(&mut self, map: &Keymap, wanted: &[u32], listener: &mut Option<Listener>) -> Outcome<usize> {
        if wanted.iter().all(|keysym| map.stroke(*keysym).is_some()) {
            return Ok(wanted.len());
        }
        let Some(pools) = &mut self.keyboard.pools else {
            return Err(Error::internal("the key map has no spare keycodes").into());
        };
        let step = pools.step(wanted, |keysym| map.stroke(keysym).is_some());
        let Some(half) = step.rebind else { return Ok(step.take) };
        let (first, count, rows) = pools.rows(half, map.width, |code| map.row(code).to_vec());
        self.let_catch_up(listener)?;
        self.rearm();
        // The width came from a byte of the server's reply.
        self.link.change_keyboard_mapping(count, first, map.width as u8, &rows)?.check()?;
        self.let_take_in(listener)?;
        Ok(step.take)
    }

    /// The program that has the keyboard, when it may have to be asked.
    fn listener_for(&mut self, map: &Keymap, wanted: &[u32]) -> Outcome<Option<Listener>> {
        if wanted.iter().all(|keysym| map.stroke(*keysym).is_some()) { Ok(None) } else { self.listener() }
    }

    /// Gives the program time to look up what was typed by spare keys, before any of them changes.
    fn let_catch_up(&mut self, listener: &mut Option<Listener>) -> Outcome<()> {
        let Some(last) = self.keyboard.typed else { return Ok(()) };
        self.ask_again(listener)?;
        if !matches!(listener, Some(Listener::Answers(_))) {
            std::thread::sleep((last + SETTLE).saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    /// Gives the program time to take in a new map. One that is asked says when it has seen the news; browsers act on it
    /// in a later round of their own, which the second question outlasts however loaded the machine is.
    fn let_take_in(&mut self, listener: &mut Option<Listener>) -> Outcome<()> {
        self.ask_again(listener)?;
        std::thread::sleep(SETTLE);
        self.ask_again(listener)
    }

    /// Asks the program; one that does not answer is stuck, and asking it again would only take long.
    fn ask_again(&mut self, listener: &mut Option<Listener>) -> Outcome<()> {
        if let Some(program) = listener
            && !self.has_heard(program)?
        {
            *listener = None;
        }
        Ok(())
    }

    fn find(&self, map: &Keymap, keysym: u32) -> Outcome<Stroke> {
        let spare = || self.keyboard.pools.as_ref().and_then(|pools| pools.find(keysym));
        map.stroke(keysym)
            .or_else(|| spare().map(|(_, stroke)| stroke))
            .ok_or_else(|| Error::internal(format!("keysym {keysym:#x} was not bound")).into())
    }

    fn note_typed(&mut self, map: &Keymap, typed: &[u32]) {
        if typed.iter().any(|keysym| map.stroke(*keysym).is_none()) {
            self.keyboard.typed = Some(Instant::now());
        }
    }

    /// Presses and releases one key, with Shift where its level needs it.
    fn strike(&mut self, map: &Keymap, stroke: Stroke) -> Outcome<()> {
        self.strike_for(map, stroke, Duration::ZERO)
    }

    fn strike_for(&mut self, map: &Keymap, stroke: Stroke, hold: Duration) -> Outcome<()> {
        let shift = if stroke.shift { Some(modifier_code(map, key::Shift_L)?) } else { None };
        let shift = shift.filter(|code| !self.is_down(*code));
        if let Some(code) = shift {
            self.key_down(code)?;
        }
        self.key_down(stroke.code)?;
        if !hold.is_zero() {
            self.barrier()?;
            std::thread::sleep(hold);
        }
        self.key_up(stroke.code)?;
        if let Some(code) = shift {
            self.key_up(code)?;
        }
        Ok(())
    }

    fn key_down(&mut self, code: u8) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::KEY_PRESS_EVENT, code, 0, self.root, 0, 0, 0)?;
        self.held.keys.push(code);
        Ok(())
    }

    fn key_up(&mut self, code: u8) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::KEY_RELEASE_EVENT, code, 0, self.root, 0, 0, 0)?;
        self.held.keys.retain(|held| *held != code);
        Ok(())
    }

    /// The present map; another program may have changed it since the last request.
    fn keymap(&mut self) -> Outcome<Keymap> {
        self.rearm();
        let map = Keymap::read(&self.link)?;
        let spare = map.spare();
        let known = self.keyboard.pools.as_ref().is_some_and(|pools| pools.is_of(&spare));
        if !known {
            self.keyboard.pools = Pools::new(spare);
        }
        Ok(map)
    }

    /// Makes the keyboard neutral and says what was locked.
    fn neutral(&mut self) -> Outcome<Locks> {
        self.release_stuck_keys()?;
        let locks = self.locks()?;
        self.restore(Locks::default())?;
        Ok(locks)
    }

    /// Keys that a dead request, or a program that used XTEST, left down.
    fn release_stuck_keys(&mut self) -> Outcome<()> {
        self.rearm();
        let down = self.link.query_keymap()?.reply()?.keys;
        for code in (0..=u8::MAX).filter(|code| down[usize::from(code / 8)] & (1 << (code % 8)) != 0) {
            if self.kept.keys.contains(&code) {
                continue;
            }
            self.link.xtest_fake_input(xproto::KEY_RELEASE_EVENT, code, 0, self.root, 0, 0, 0)?;
        }
        self.barrier()?;
        if !self.kept.keys.is_empty() {
            // Modifiers are down on purpose.
            return Ok(());
        }
        let give_up = Instant::now() + PERSON_TIMEOUT;
        while self.keyboard.has_xkb && u16::from(self.link.xkb_get_state(CORE)?.reply()?.base_mods) != 0 {
            if Instant::now() > give_up {
                let error = Error::unavailable("a person at this screen holds a modifier key");
                return Err(error.retry_after(super::fault::RETRY_SECONDS).into());
            }
            std::thread::sleep(PERSON_PAUSE);
            self.rearm();
        }
        Ok(())
    }

    fn locks(&mut self) -> Outcome<Locks> {
        if !self.keyboard.has_xkb {
            return Ok(Locks::default());
        }
        self.rearm();
        let state = self.link.xkb_get_state(CORE)?.reply()?;
        Ok(Locks { mods: state.locked_mods.into(), group: state.locked_group.into() })
    }

    /// Sets locks and group, and clears every latch.
    fn restore(&mut self, locks: Locks) -> Outcome<()> {
        if !self.keyboard.has_xkb {
            return Ok(());
        }
        self.rearm();
        let every = ModMask::from(0xff_u8);
        let mods = ModMask::from(locks.mods);
        let group = Group::from(locks.group);
        xkb::latch_lock_state(&self.link, CORE, every, mods, true, group, every, true, 0)?;
        self.barrier()
    }
}

fn modifier_code(map: &Keymap, keysym: u32) -> Outcome<u8> {
    let stroke = map.stroke(keysym).filter(|stroke| map.modifier_codes.contains(&stroke.code));
    let named = || Error::internal(format!("the key map has no modifier with keysym {keysym:#x}"));
    Ok(stroke.ok_or_else(named)?.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_keysyms_or_is_refused() {
        assert_eq!(keysyms("a\r\n\n\t\r").unwrap(), [0x61, key::Return, key::Return, key::Tab, key::Return]);
        assert_eq!(keysyms("é日\u{301}").unwrap(), [0xe9, 0x0100_65e5, 0x0100_0301]);
        assert!(keysyms("").unwrap().is_empty());
        for bad in ["\0", "a\u{8}", "\u{1b}[A", "\u{7f}", "\u{85}", "\u{fdd0}", "\u{1ffff}"] {
            assert!(keysyms(bad).unwrap_err().message.contains("U+"), "{bad:?}");
        }
        assert!(keysyms(&"日".repeat(MAX_TEXT_CHARS)).is_ok());
        assert!(keysyms(&"a".repeat(MAX_TEXT_CHARS + 1)).is_err());
    }
}
