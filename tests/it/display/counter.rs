//! X client that counts its input events.

use std::collections::BTreeMap;

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{ConnectionExt, CreateWindowAux, EventMask, InputFocus, WindowClass};
use x11rb::rust_connection::RustConnection;

/// Number of presses and releases of each button or key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pressed: BTreeMap<u8, u32>,
    pub released: BTreeMap<u8, u32>,
}

impl Counts {
    /// The given number of presses and of releases for each.
    pub fn from_pairs<const N: usize>(pairs: [(u8, u32); N]) -> Self {
        Self { pressed: pairs.into(), released: pairs.into() }
    }
}

/// A focused window over the whole screen, above all others.
pub struct Counter {
    link: RustConnection,
    root: u32,
    pub buttons: Counts,
    pub keys: Counts,
    /// Button presses by y coordinate.
    pub rows: BTreeMap<i16, u32>,
}

impl Counter {
    pub fn open(display: &str) -> Self {
        let (link, screen) = x11rb::connect(Some(display)).expect("an X connection");
        let screen = &link.setup().roots[screen];
        let (root, visual) = (screen.root, screen.root_visual);
        let id = link.generate_id().expect("an id");
        let mask = EventMask::BUTTON_PRESS
            | EventMask::BUTTON_RELEASE
            | EventMask::KEY_PRESS
            | EventMask::KEY_RELEASE
            | EventMask::EXPOSURE;
        let attributes = CreateWindowAux::new().background_pixel(0).override_redirect(1).event_mask(mask);
        link.create_window(24, id, root, 0, 0, 2000, 2000, 0, WindowClass::INPUT_OUTPUT, visual, &attributes)
            .expect("a window");
        link.map_window(id).expect("mapping");
        link.flush().expect("a flush");
        while !matches!(link.wait_for_event().expect("an event"), Event::Expose(_)) {}
        link.set_input_focus(InputFocus::PARENT, id, 0_u32).expect("the focus");
        link.get_input_focus().expect("a request").reply().expect("a reply");
        Self { link, root, buttons: Counts::default(), keys: Counts::default(), rows: BTreeMap::new() }
    }

    /// Counts all events that were sent so far.
    pub fn count(&mut self) {
        self.link.get_input_focus().expect("a request").reply().expect("a reply");
        while let Some(event) = self.link.poll_for_event().expect("the connection") {
            #[allow(clippy::wildcard_enum_match_arm)] // x11rb's list of events grows with its extensions
            let one = match event {
                Event::ButtonPress(event) => {
                    *self.rows.entry(event.event_y).or_default() += 1;
                    self.buttons.pressed.entry(event.detail)
                }
                Event::ButtonRelease(event) => self.buttons.released.entry(event.detail),
                Event::KeyPress(event) => self.keys.pressed.entry(event.detail),
                Event::KeyRelease(event) => self.keys.released.entry(event.detail),
                _ => continue,
            };
            *one.or_default() += 1;
        }
    }

    /// Returns the counts of buttons and of keys since the last call, and resets them.
    pub fn take(&mut self) -> (Counts, Counts) {
        self.count();
        (std::mem::take(&mut self.buttons), std::mem::take(&mut self.keys))
    }

    /// Keys and buttons that are pressed now, as the X server reports them.
    pub fn pressed_now(&self) -> (Vec<u8>, u16) {
        let keys = self.link.query_keymap().expect("a request").reply().expect("the keys").keys;
        let bits = |(at, byte): (usize, &u8)| {
            let byte = *byte;
            (0..8_u8).filter(move |bit| byte & 1 << bit != 0).map(move |bit| (at * 8) as u8 + bit)
        };
        let pointer = self.link.query_pointer(self.root).expect("a request").reply().expect("the pointer");
        let buttons = u16::from(pointer.mask) & 0x1f00;
        (keys.iter().enumerate().flat_map(bits).collect(), buttons)
    }

    pub fn any_pressed(&self) -> bool {
        self.pressed_now() != (Vec::new(), 0)
    }
}
