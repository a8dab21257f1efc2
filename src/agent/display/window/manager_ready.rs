//! Readiness of the window manager.
//!
//! Openbox announces itself before it handles events, and never manages a window that is mapped in between.
//! It answers `_NET_REQUEST_FRAME_EXTENTS` only when it handles events, and after the events before it.

use std::time::{Duration, Instant};

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConnectionExt as _, CreateWindowAux, EventMask, Window, WindowClass,
};

use crate::display::fault::Outcome;
use crate::display::screen::x11_worker::X11Worker;

/// Timeout of one request; the caller repeats it.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause between two checks for the answer.
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// Most entries of `_NET_SUPPORTED` that are read; openbox has 80.
const MAX_SUPPORTED: u32 = 1024;

impl X11Worker {
    /// Whether the window manager answers requests. True for one that does not support the request.
    pub(in crate::display) fn window_manager_responds(&mut self) -> Outcome<bool> {
        self.rearm();
        let [question, answer, supported] =
            ["_NET_REQUEST_FRAME_EXTENTS", "_NET_FRAME_EXTENTS", "_NET_SUPPORTED"]
                .map(|name| self.link.intern_atom(false, name.as_bytes()));
        let (question, answer) = (question?.reply()?.atom, answer?.reply()?.atom);
        let supported = supported?.reply()?.atom;
        let known =
            self.link.get_property(false, self.root, supported, AtomEnum::ATOM, 0, MAX_SUPPORTED)?.reply()?;
        if !known.value32().into_iter().flatten().any(|atom| atom == question) {
            return Ok(true);
        }
        let window = self.link.generate_id()?;
        let (class, look) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        self.link.create_window(0, window, self.root, 0, 0, 1, 1, 0, class, 0, &look)?;
        let event = ClientMessageEvent::new(32, window, question, [0; 5]);
        let to = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_REDIRECT;
        self.link.send_event(false, self.root, to, event)?;
        let answered = self.is_answered(window, answer);
        self.link.destroy_window(window)?;
        self.barrier()?;
        answered
    }

    fn is_answered(&self, window: Window, answer: u32) -> Outcome<bool> {
        let until = Instant::now() + ANSWER_TIMEOUT;
        loop {
            self.rearm();
            let extents = self.link.get_property(false, window, answer, AtomEnum::CARDINAL, 0, 4)?.reply()?;
            if !extents.value.is_empty() {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(POLL_PAUSE);
        }
    }
}
