//! X client of the test window: paints, records input, answers pings and pastes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ButtonPressEvent, ClientMessageEvent, ConnectionExt as _, CreateGCAux, CreateWindowAux,
    EventMask, ImageFormat, InputFocus, KeyButMask, KeyPressEvent, PropMode, Window, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

use super::{PATTERN, TITLE, TestWindow, TestWindowState, WANTED};
use crate::display::fault::{Fault, Outcome};
use crate::display::keyboard_layout::keymap::Keymap;
use crate::display::keyboard_layout::keys::{Chord, Modifier};
use crate::display::link::{self, Deadline, Link, X_TIMEOUT};
use hotdesk_domain::desktop::region::Region;

/// Interval of the check whether the thread must end.
const TICK: Duration = Duration::from_millis(20);
/// A window manager gives a new window the keyboard sooner than this. Without one the window takes the focus
/// itself.
const FOCUS_TIMEOUT: Duration = Duration::from_millis(300);
/// Most recorded keys; a self-test presses some hundred.
const MAX_KEYS: usize = 4096;
/// Most of a pasted text that is read, in units of four bytes.
const MAX_PASTED: u32 = 64 * 1024;
/// Keysyms of modifiers: Shift to Hyper, and the level-3 shift.
const MODIFIERS: std::ops::RangeInclusive<u32> = 0xffe1..=0xffee;
const LEVEL3: u32 = 0xfe03;

x11rb::atom_manager! {
    TestWindowAtoms: TestWindowAtomsCookie {
        CLIPBOARD,
        HOTDESK_PASTED,
        UTF8_STRING,
        WM_PROTOCOLS,
        _NET_WM_NAME,
        _NET_WM_PID,
        _NET_WM_PING,
    }
}

/// Runs the thread: opens the window, reports when it is usable, records input.
pub(super) fn run(display: u16, shared: &TestWindowState, ready: oneshot::Sender<Outcome<Region>>) {
    let mut ready = Some(ready);
    let opened = TestProgram::open(display, shared);
    let ended = opened.and_then(|mut program| {
        while !shared.stop.load(Ordering::Relaxed) {
            program.process_event()?;
            if ready.is_some()
                && let Some(place) = program.focused_region()?
                && let Some(ready) = ready.take()
            {
                // The receiver is gone when the starter timed out; `stop` is set then.
                let _ = ready.send(Ok(place));
            }
        }
        Ok(())
    });
    match (ended, ready) {
        (Err(fault), Some(ready)) => drop(ready.send(Err(fault))),
        (Err(Fault::Broken(why)), None) => tracing::debug!(why, "the test window lost its X connection"),
        (Err(_) | Ok(()), _) => {}
    }
}

struct TestProgram<'a> {
    link: Link,
    deadline: Deadline,
    root: Window,
    id: Window,
    atoms: TestWindowAtoms,
    map: Keymap,
    shared: &'a TestWindowState,
    /// When it was painted.
    shown: Option<Instant>,
}

impl<'a> TestProgram<'a> {
    fn open(display: u16, shared: &'a TestWindowState) -> Outcome<Self> {
        let (link, deadline) = link::connect(display, X_TIMEOUT)?;
        let screen = link.setup().roots.first();
        let screen = screen.ok_or_else(|| Fault::Broken(String::from("no X screen")))?;
        let (root, depth, visual) = (screen.root, screen.root_depth, screen.root_visual);
        let atoms = TestWindowAtoms::new(&link)?.reply()?;
        let map = Keymap::read(&link)?;
        let id = link.generate_id()?;
        let events = EventMask::BUTTON_PRESS
            | EventMask::BUTTON_RELEASE
            | EventMask::KEY_PRESS
            | EventMask::KEY_RELEASE
            | EventMask::EXPOSURE;
        let look = CreateWindowAux::new().background_pixel(0).event_mask(events);
        let Region { x, y, width, height } = WANTED;
        let class = WindowClass::INPUT_OUTPUT;
        // The constants fit the types.
        let (x, y) = (x as i16, y as i16);
        link.create_window(depth, id, root, x, y, width, height, 0, class, visual, &look)?;
        let (mode, title) = (PropMode::REPLACE, TITLE.as_bytes());
        link.change_property8(mode, id, AtomEnum::WM_NAME, AtomEnum::STRING, title)?;
        link.change_property8(mode, id, atoms._NET_WM_NAME, atoms.UTF8_STRING, title)?;
        link.change_property8(mode, id, AtomEnum::WM_CLASS, AtomEnum::STRING, b"selftest\0Hotdesk\0")?;
        link.change_property32(mode, id, atoms.WM_PROTOCOLS, AtomEnum::ATOM, &[atoms._NET_WM_PING])?;
        link.change_property32(mode, id, atoms._NET_WM_PID, AtomEnum::CARDINAL, &[std::process::id()])?;
        link.map_window(id)?;
        link.flush()?;
        Ok(Self { link, deadline, root, id, atoms, map, shared, shown: None })
    }

    /// Handles one event; returns after a tick without one.
    fn process_event(&mut self) -> Outcome<()> {
        if self.shared.paste.swap(false, Ordering::Relaxed) {
            let (atoms, id) = (self.atoms, self.id);
            let (kind, into) = (atoms.UTF8_STRING, atoms.HOTDESK_PASTED);
            self.link.convert_selection(id, atoms.CLIPBOARD, kind, into, x11rb::CURRENT_TIME)?;
        }
        self.deadline.allow(TICK);
        self.link.flush()?;
        let event = match self.link.wait_for_event().map_err(Fault::from) {
            Ok(event) => event,
            Err(Fault::Silent) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        self.deadline.allow(X_TIMEOUT);
        #[allow(clippy::wildcard_enum_match_arm)] // x11rb's list of events grows with its extensions
        match event {
            Event::Expose(_) => self.paint()?,
            Event::MappingNotify(_) => self.map = Keymap::read(&self.link)?,
            Event::KeyPress(key) => self.key(&key),
            Event::KeyRelease(_) => self.shared.received().down -= 1,
            Event::ButtonPress(press) => self.button(&press, |(pressed, _)| *pressed += 1),
            Event::ButtonRelease(press) => self.button(&press, |(_, released)| *released += 1),
            Event::SelectionNotify(answer) => self.pasted(answer.property)?,
            Event::ClientMessage(message) if message.type_ == self.atoms.WM_PROTOCOLS => {
                self.answer_ping(message)?
            }
            _ => {}
        }
        Ok(())
    }

    fn paint(&mut self) -> Outcome<()> {
        let (width, height) = PATTERN;
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let pixels: Vec<u8> = places
            .flat_map(|(x, y)| {
                let [red, green, blue] = TestWindow::colour(x, y);
                [blue, green, red, 0]
            })
            .collect();
        let depth = self.link.get_geometry(self.id)?.reply()?.depth;
        let gc = self.link.generate_id()?;
        self.link.create_gc(gc, self.id, &CreateGCAux::new())?;
        self.link.put_image(ImageFormat::Z_PIXMAP, self.id, gc, width, height, 0, 0, 0, depth, &pixels)?;
        self.link.free_gc(gc)?;
        self.link.sync()?;
        self.shown.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Region of the window, once it is painted and has the keyboard.
    fn focused_region(&mut self) -> Outcome<Option<Region>> {
        let Some(shown) = self.shown else { return Ok(None) };
        self.deadline.allow(X_TIMEOUT);
        if self.link.get_input_focus()?.reply()?.focus != self.id {
            if shown.elapsed() > FOCUS_TIMEOUT {
                self.link.set_input_focus(InputFocus::PARENT, self.id, x11rb::CURRENT_TIME)?;
            }
            return Ok(None);
        }
        let geometry = self.link.get_geometry(self.id)?;
        let place = self.link.translate_coordinates(self.id, self.root, 0, 0)?;
        let (geometry, place) = (geometry.reply()?, place.reply()?);
        let corner = (u16::try_from(place.dst_x), u16::try_from(place.dst_y));
        let (Ok(x), Ok(y)) = corner else { return Ok(None) };
        Ok(Some(Region { x, y, width: geometry.width, height: geometry.height }))
    }

    fn key(&self, key: &KeyPressEvent) {
        let row = self.map.row(key.detail);
        let level = |level: usize| row.get(level).copied().unwrap_or_default();
        let has = |mask: KeyButMask| key.state.contains(mask);
        let (base, shifted) = (level(0), level(1));
        let mut received = self.shared.received();
        received.down += 1;
        if MODIFIERS.contains(&base) || base == LEVEL3 || received.keys.len() >= MAX_KEYS {
            return;
        }
        let keysym = if has(KeyButMask::SHIFT) && shifted != 0 { shifted } else { base };
        let held = [
            (KeyButMask::CONTROL, Modifier::Ctrl),
            (KeyButMask::SHIFT, Modifier::Shift),
            (KeyButMask::MOD1, Modifier::Alt),
            (KeyButMask::MOD4, Modifier::Super),
        ];
        let modifiers = held.into_iter().filter(|(mask, _)| has(*mask)).map(|(_, modifier)| modifier);
        let chord = Chord { modifiers: modifiers.collect(), keysym: base };
        received.keys.push((chord, keysym));
    }

    fn button(&self, press: &ButtonPressEvent, count: impl FnOnce(&mut (u32, u32))) {
        if let Some(button) = self.shared.received().buttons.get_mut(usize::from(press.detail)) {
            count(button);
        }
    }

    fn pasted(&self, property: u32) -> Outcome<()> {
        let text = if property == x11rb::NONE {
            String::new()
        } else {
            let read = self.link.get_property(true, self.id, property, AtomEnum::ANY, 0, MAX_PASTED)?;
            String::from_utf8_lossy(&read.reply()?.value).into_owned()
        };
        self.shared.received().pasted = Some(text);
        Ok(())
    }

    /// Answers `_NET_WM_PING` (EWMH) in the order of the key events.
    fn answer_ping(&self, mut ping: ClientMessageEvent) -> Outcome<()> {
        ping.window = self.root;
        let mask = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_REDIRECT;
        self.link.send_event(false, self.root, mask, ping)?;
        self.link.flush()?;
        Ok(())
    }
}
