//! Keyboard input through XTEST.
//!
//! Keys are pressed in the current key map. Spare keycodes provide characters that the map lacks. Before a
//! key is pressed the keyboard is made neutral: stuck keys are released, latches are cleared, locks (Caps
//! Lock) and another layout group are saved and restored afterwards.

use std::time::{Duration, Instant};

use x11rb::protocol::xkb::{self, ConnectionExt as _, Group};
use x11rb::protocol::xproto::{self, ConnectionExt as _, ModMask};
use x11rb::protocol::xtest::ConnectionExt as _;
use xkeysym::key;

use super::ping::Listener;
use crate::display::fault::Outcome;
use crate::display::keyboard_layout::keymap::Keymap;
use crate::display::keyboard_layout::keys::{Chord, Modifier};
use crate::display::keyboard_layout::pools::{Pools, Stroke};
use crate::display::screen::x11_worker::{CancelCheck, X11Worker};
use hotdesk_domain::error::Error;

/// Time for programs to process a change of the key map. Programs that cannot be pinged also get it to look
/// up typed keys before the next change. Measured: 0 wrong of 1,086 characters at 40 ms, 1 of 543 at 15 ms.
const SETTLE: Duration = Duration::from_millis(40);
/// Keys between two round trips: bounds the unread input of a slow program, costs 0.01 ms.
const BATCH: usize = 64;
/// How long a person at the same screen may hold a modifier before the request fails.
const PERSON_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two checks of the held modifiers.
const PERSON_PAUSE: Duration = Duration::from_millis(20);
/// The core keyboard (XKB `UseCoreKbd`).
const CORE: u16 = 0x100;

/// Saved locked modifiers and layout group.
#[derive(Clone, Copy, Debug, Default)]
struct Locks {
    mods: u16,
    group: u8,
}

/// Result of typing a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypingResult {
    /// Number of keys pressed: one per character, and one for `\r\n`.
    pub delivered: usize,
    /// Number of keys pressed before another window got the keyboard, as seen by the checks between batches.
    pub focus_changed_at: Option<usize>,
}

impl X11Worker {
    /// Types text. Stops early when the request is cancelled, and with `stop_astray` when another window gets
    /// the keyboard. Keys that a client holds down are released meanwhile.
    pub(super) fn type_text(
        &mut self,
        wanted: &[u32],
        stop_astray: bool,
        cancelled: CancelCheck<'_>,
    ) -> Outcome<TypingResult> {
        let map = self.keymap()?;
        let client_keys = std::mem::take(&mut self.held_by_client.keys);
        let locks = self.neutral()?;
        let typed = self.type_neutral(&map, wanted, stop_astray, cancelled);
        self.restore(locks)?;
        for code in client_keys {
            self.press_and_hold(code)?;
        }
        typed
    }

    fn type_neutral(
        &mut self,
        map: &Keymap,
        wanted: &[u32],
        stop_astray: bool,
        cancelled: CancelCheck<'_>,
    ) -> Outcome<TypingResult> {
        let mut typed = TypingResult { delivered: 0, focus_changed_at: None };
        let mut listener = self.listener_for(map, wanted)?;
        let mut focus = self.focus()?;
        while typed.delivered < wanted.len() && !cancelled() {
            let rest = &wanted[typed.delivered..];
            let ready = self.bind_spare_keys(map, rest, &mut listener)?;
            for batch in rest[..ready].chunks(BATCH) {
                if cancelled() {
                    return Ok(typed);
                }
                for keysym in batch {
                    let stroke = self.stroke_for(map, *keysym)?;
                    self.press_key(map, stroke)?;
                }
                typed.delivered += batch.len();
                // Also serves as the barrier of the batch.
                let now = self.focus()?;
                if now != focus && typed.delivered < wanted.len() {
                    typed.focus_changed_at.get_or_insert(typed.delivered);
                    if stop_astray {
                        return Ok(typed);
                    }
                }
                focus = now;
            }
            self.record_typed(map, &rest[..ready]);
        }
        Ok(typed)
    }

    fn focus(&self) -> Outcome<u32> {
        self.rearm();
        Ok(self.link.get_input_focus()?.reply()?.focus)
    }

    /// Presses chords one after another, each for `hold`.
    pub(super) fn press_chords(
        &mut self,
        chords: &[Chord],
        hold: Duration,
        cancelled: CancelCheck<'_>,
    ) -> Outcome<()> {
        for chord in chords {
            if cancelled() {
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
        // Caps_Lock and similar keys change the locks on purpose. The locks were cleared before, so the
        // current ones are what was toggled.
        let group = if toggled.group == 0 { locks.group } else { toggled.group };
        self.restore(Locks { mods: locks.mods ^ toggled.mods, group })?;
        pressed
    }

    fn press_neutral(&mut self, map: &Keymap, chord: &Chord, hold: Duration) -> Outcome<()> {
        let mut listener = self.listener_for(map, &[chord.keysym])?;
        self.bind_spare_keys(map, &[chord.keysym], &mut listener)?;
        let stroke = self.stroke_for(map, chord.keysym)?;
        self.hold_modifiers_of(map, &chord.modifiers)?;
        self.press_key_for(map, stroke, hold)?;
        self.record_typed(map, &[chord.keysym]);
        self.release_pressed()
    }

    /// Presses modifiers; they are released at the end of the request.
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

    /// Presses a chord's keys and holds them down until [`X11Worker::release_chord`].
    pub(super) fn hold_chord(&mut self, chord: &Chord) -> Outcome<()> {
        for code in self.codes(chord)? {
            if !self.is_down(code) {
                self.press_and_hold(code)?;
            }
        }
        self.barrier()
    }

    /// Releases a chord's keys, held by a client or not.
    pub(super) fn release_chord(&mut self, chord: &Chord) -> Outcome<()> {
        for code in self.codes(chord)?.into_iter().rev() {
            self.key_up(code)?;
            self.held_by_client.keys.retain(|held| *held != code);
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
        self.pressed.keys.contains(&code) || self.held_by_client.keys.contains(&code)
    }

    fn press_and_hold(&mut self, code: u8) -> Outcome<()> {
        self.key_down(code)?;
        self.pressed.keys.retain(|held| *held != code);
        self.held_by_client.keys.push(code);
        Ok(())
    }

    /// Binds spare keys for the next keysyms; returns how many keysyms can be typed now.
    fn bind_spare_keys(
        &mut self,
        map: &Keymap,
        wanted: &[u32],
        listener: &mut Option<Listener>,
    ) -> Outcome<usize> {
        if wanted.iter().all(|keysym| map.stroke(*keysym).is_some()) {
            return Ok(wanted.len());
        }
        let Some(pools) = &mut self.keyboard.pools else {
            return Err(Error::internal("the key map has no spare keycodes").into());
        };
        let step = pools.step(wanted, |keysym| map.stroke(keysym).is_some());
        let Some(half) = step.rebind else { return Ok(step.take) };
        let (first, count, rows) = pools.rows(half, map.width, |code| map.row(code).to_vec());
        self.wait_for_lookup(listener)?;
        self.rearm();
        // The width is a byte in the server's reply.
        self.link.change_keyboard_mapping(count, first, map.width as u8, &rows)?.check()?;
        self.wait_for_new_map(listener)?;
        Ok(step.take)
    }

    /// The program that has the keyboard; `None` when no spare key is needed.
    fn listener_for(&mut self, map: &Keymap, wanted: &[u32]) -> Outcome<Option<Listener>> {
        if wanted.iter().all(|keysym| map.stroke(*keysym).is_some()) { Ok(None) } else { self.listener() }
    }

    /// Waits until the program looked up the keys typed with spare keycodes, before any of them changes.
    fn wait_for_lookup(&mut self, listener: &mut Option<Listener>) -> Outcome<()> {
        let Some(last) = self.keyboard.typed else { return Ok(()) };
        self.ask_again(listener)?;
        if !matches!(listener, Some(Listener::Answers(_))) {
            std::thread::sleep((last + SETTLE).saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    /// Waits until the program processed a new key map. A ping shows that it read the change. Browsers
    /// process the change in a later turn of their event loop, which the second ping covers on a loaded
    /// machine.
    fn wait_for_new_map(&mut self, listener: &mut Option<Listener>) -> Outcome<()> {
        self.ask_again(listener)?;
        std::thread::sleep(SETTLE);
        self.ask_again(listener)
    }

    /// Pings the program. One that does not answer hangs, so it is not pinged again.
    fn ask_again(&mut self, listener: &mut Option<Listener>) -> Outcome<()> {
        if let Some(program) = listener
            && !self.has_processed_input(program)?
        {
            *listener = None;
        }
        Ok(())
    }

    fn stroke_for(&self, map: &Keymap, keysym: u32) -> Outcome<Stroke> {
        let spare = || self.keyboard.pools.as_ref().and_then(|pools| pools.find(keysym));
        map.stroke(keysym)
            .or_else(|| spare().map(|(_, stroke)| stroke))
            .ok_or_else(|| Error::internal(format!("keysym {keysym:#x} was not bound")).into())
    }

    fn record_typed(&mut self, map: &Keymap, typed: &[u32]) {
        if typed.iter().any(|keysym| map.stroke(*keysym).is_none()) {
            self.keyboard.typed = Some(Instant::now());
        }
    }

    /// Presses and releases one key, with Shift where its level needs it.
    fn press_key(&mut self, map: &Keymap, stroke: Stroke) -> Outcome<()> {
        self.press_key_for(map, stroke, Duration::ZERO)
    }

    fn press_key_for(&mut self, map: &Keymap, stroke: Stroke, hold: Duration) -> Outcome<()> {
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
        self.pressed.keys.push(code);
        Ok(())
    }

    fn key_up(&mut self, code: u8) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::KEY_RELEASE_EVENT, code, 0, self.root, 0, 0, 0)?;
        self.pressed.keys.retain(|held| *held != code);
        Ok(())
    }

    /// The current key map; another program may have changed it since the last request.
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

    /// Makes the keyboard neutral and returns the previous locks.
    fn neutral(&mut self) -> Outcome<Locks> {
        self.release_stuck_keys()?;
        let locks = self.locks()?;
        self.restore(Locks::default())?;
        Ok(locks)
    }

    /// Releases keys that an aborted request, or another XTEST client, left down.
    fn release_stuck_keys(&mut self) -> Outcome<()> {
        self.rearm();
        let down = self.link.query_keymap()?.reply()?.keys;
        for code in (0..=u8::MAX).filter(|code| down[usize::from(code / 8)] & (1 << (code % 8)) != 0) {
            if self.held_by_client.keys.contains(&code) {
                continue;
            }
            self.link.xtest_fake_input(xproto::KEY_RELEASE_EVENT, code, 0, self.root, 0, 0, 0)?;
        }
        self.barrier()?;
        if !self.held_by_client.keys.is_empty() {
            // The client holds modifiers on purpose.
            return Ok(());
        }
        let give_up = Instant::now() + PERSON_TIMEOUT;
        while self.keyboard.has_xkb && u16::from(self.link.xkb_get_state(CORE)?.reply()?.base_mods) != 0 {
            if Instant::now() > give_up {
                let error = Error::unavailable(
                    "A person at this screen holds a modifier key: try again after its release",
                );
                return Err(error.retry_after(crate::display::fault::RETRY_SECONDS).into());
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

    /// Sets locks and group, and clears all latches.
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
