//! X client that paints known pixels and records its input events.

use std::time::{Duration, Instant};

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt, CreateGCAux, CreateWindowAux, EventMask, InputFocus, PropMode, Rectangle,
    WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

/// A window with its own connection, above all others.
pub struct Window {
    pub link: RustConnection,
    pub id: u32,
}

/// A received input event, in the window's coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputEvent {
    Press(u8, i16, i16),
    Release(u8, i16, i16),
    Motion(i16, i16),
    Key(u8, u16),
}

impl Window {
    pub fn open(display: &str, x: i16, y: i16, width: u16, height: u16, colour: u32) -> Self {
        let (link, screen) = x11rb::connect(Some(display)).expect("an X connection");
        let screen = &link.setup().roots[screen];
        let (root, visual) = (screen.root, screen.root_visual);
        let id = link.generate_id().expect("an id");
        let attributes = CreateWindowAux::new().background_pixel(colour).override_redirect(1).event_mask(
            EventMask::BUTTON_PRESS
                | EventMask::BUTTON_RELEASE
                | EventMask::POINTER_MOTION
                | EventMask::KEY_PRESS
                | EventMask::EXPOSURE,
        );
        link.create_window(
            24,
            id,
            root,
            x,
            y,
            width,
            height,
            0,
            WindowClass::INPUT_OUTPUT,
            visual,
            &attributes,
        )
        .expect("a window");
        link.map_window(id).expect("mapping");
        let window = Self { link, id };
        window.link.flush().expect("a flush");
        loop {
            if let Event::Expose(_) = window.link.wait_for_event().expect("an event") {
                return window;
            }
        }
    }

    pub fn fill(&self, x: i16, y: i16, width: u16, height: u16, colour: u32) {
        let gc = self.link.generate_id().expect("an id");
        self.link.create_gc(gc, self.id, &CreateGCAux::new().foreground(colour)).expect("a context");
        let area = Rectangle { x, y, width, height };
        self.link.poly_fill_rectangle(self.id, gc, &[area]).expect("a rectangle");
        self.link.free_gc(gc).expect("freeing");
        self.sync();
    }

    /// Takes the focus: window managers give none to override-redirect windows.
    pub fn focus(&self) {
        self.link.set_input_focus(InputFocus::PARENT, self.id, 0_u32).expect("the focus");
        self.sync();
    }

    pub fn name(&self, title: &str) {
        let (kind, text) = (AtomEnum::STRING, title.as_bytes());
        self.link
            .change_property8(PropMode::REPLACE, self.id, AtomEnum::WM_NAME, kind, text)
            .expect("a title");
        self.sync();
    }

    pub fn sync(&self) {
        self.link.get_input_focus().expect("a request").reply().expect("a reply");
    }

    /// All input events so far. Events that were delivered before the answer to an action are included.
    pub fn events(&self) -> Vec<InputEvent> {
        self.sync();
        let mut events = Vec::new();
        while let Some(event) = self.link.poll_for_event().expect("the connection") {
            #[allow(clippy::wildcard_enum_match_arm)] // x11rb's list of events grows with its extensions
            events.extend(match event {
                Event::ButtonPress(e) => Some(InputEvent::Press(e.detail, e.event_x, e.event_y)),
                Event::ButtonRelease(e) => Some(InputEvent::Release(e.detail, e.event_x, e.event_y)),
                Event::MotionNotify(e) => Some(InputEvent::Motion(e.event_x, e.event_y)),
                Event::KeyPress(e) => Some(InputEvent::Key(e.detail, e.state.into())),
                _ => None,
            });
        }
        events
    }

    /// Button events only.
    pub fn clicks(&self) -> Vec<InputEvent> {
        self.events()
            .into_iter()
            .filter(|event| matches!(event, InputEvent::Press(..) | InputEvent::Release(..)))
            .collect()
    }

    /// Waits until a condition holds for the events since the last call; returns them.
    pub fn wait_for(&self, timeout: Duration, condition: impl Fn(&[InputEvent]) -> bool) -> Vec<InputEvent> {
        let (until, mut all) = (Instant::now() + timeout, Vec::new());
        loop {
            all.extend(self.events());
            if condition(&all) {
                return all;
            }
            assert!(Instant::now() < until, "the condition must hold for {all:?}");
            std::thread::yield_now();
        }
    }
}

/// A program that reads keys as Xlib programs do: in its own thread, with a new keymap after every
/// `MappingNotify`.
pub struct KeyReader {
    text: std::sync::Arc<std::sync::Mutex<Vec<(u32, u16)>>>,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl KeyReader {
    /// A window over the whole screen that supports `_NET_WM_PING`. For other windows the agent guesses
    /// idleness from the process, which here is that of the tests.
    pub fn open(display: &str) -> Self {
        Self::open_slow(display, Duration::ZERO)
    }

    /// A reader that takes `delay` for each key.
    pub fn open_slow(display: &str, delay: Duration) -> Self {
        let window = Window::open(display, 0, 0, 2000, 2000, 0);
        let atom = |name: &str| {
            let request = window.link.intern_atom(false, name.as_bytes()).expect("a request");
            request.reply().expect("an atom").atom
        };
        let kind = AtomEnum::ATOM;
        window
            .link
            .change_property32(
                PropMode::REPLACE,
                window.id,
                atom("WM_PROTOCOLS"),
                kind,
                &[atom("_NET_WM_PING")],
            )
            .expect("the protocols");
        window.sync();
        Self::start(window, delay)
    }

    fn start(window: Window, delay: Duration) -> Self {
        window.focus();
        let text = std::sync::Arc::<std::sync::Mutex<Vec<(u32, u16)>>>::default();
        let stop = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
        let (received, stopped) = (text.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut map = key_map(&window.link);
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                // The X server may end first.
                let Ok(event) = window.link.poll_for_event() else { return };
                match event {
                    Some(Event::MappingNotify(_)) => map = key_map(&window.link),
                    Some(Event::KeyPress(key)) => {
                        std::thread::sleep(delay);
                        let keysym = lookup(&map, key.detail, key.state.into());
                        received.lock().expect("the text").push((keysym, key.state.into()));
                    }
                    Some(Event::ClientMessage(mut ping)) => {
                        let root = window.link.setup().roots[0].root;
                        ping.window = root;
                        let mask = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_REDIRECT;
                        window.link.send_event(false, root, mask, ping).expect("an answer");
                        window.link.flush().expect("a flush");
                    }
                    Some(_) => {}
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        Self { text, stop, thread: Some(thread) }
    }

    /// Waits for this many keys, without modifiers, and takes them.
    pub fn keys(&self, count: usize) -> Vec<(u32, u16)> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let mut received = self.text.lock().expect("the text");
            received.retain(|(keysym, _)| !(0xffe1..=0xffee).contains(keysym));
            if received.len() >= count {
                return std::mem::take(&mut received);
            }
            assert!(Instant::now() < until, "{} of {count} keys", received.len());
            drop(received);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Takes the next characters as text.
    pub fn text(&self, count: usize) -> String {
        self.keys(count).into_iter().map(|(keysym, _)| character(keysym)).collect()
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

struct KeyMap {
    first: u8,
    width: usize,
    keysyms: Vec<u32>,
}

fn key_map(link: &RustConnection) -> KeyMap {
    let (first, last) = (link.setup().min_keycode, link.setup().max_keycode);
    let map = link.get_keyboard_mapping(first, last - first + 1).expect("a request").reply().expect("a map");
    KeyMap { first, width: map.keysyms_per_keycode.into(), keysyms: map.keysyms }
}

/// Keysym lookup of the core protocol (section 5): group by bits 13 and 14, Shift, Lock.
fn lookup(map: &KeyMap, code: u8, state: u16) -> u32 {
    let row = &map.keysyms[usize::from(code - map.first) * map.width..][..map.width];
    let group = if state >> 13 & 3 == 0 { 0 } else { 2 };
    let keysym = match row[group + usize::from(state & 1)] {
        0 => row[group],
        keysym => keysym,
    };
    let small = (0x61..=0x7a).contains(&keysym);
    if state & 2 != 0 && small { keysym - 0x20 } else { keysym }
}

fn character(keysym: u32) -> char {
    match keysym {
        0xff0d => '\n',
        0xff09 => '\t',
        _ => xkeysym::Keysym::new(keysym).key_char().unwrap_or('\u{fffd}'),
    }
}
