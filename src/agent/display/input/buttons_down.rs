//! Buttons that are down before an action presses one.
//!
//! A viewer's pointer is a device of its own beside the XTEST pointer. X reports one press per button,
//! whichever device presses it. A press of a button that a viewer holds has no effect, and a release does not
//! release it.
//!
//! A window manager that handles a click freezes the pointer until it passes the click on. Meanwhile X queues
//! our events and shows our released button as down. When the pointer is thawed between a further press and
//! its release, X finds the XTEST pointer's button down and drops the queued release, and with it the further
//! press: the program sees one click instead of two.

use std::time::{Duration, Instant};

use x11rb::connection::RequestConnection as _;
use x11rb::protocol::xinput::{self, ConnectionExt as _, DeviceClassData, DeviceType};
use x11rb::protocol::xproto::{ConnectionExt as _, KeyButMask};

use crate::display::fault::Outcome;
use crate::display::screen::x11_worker::X11Worker;
use hotdesk_domain::desktop::pointer::Button;
use hotdesk_domain::error::Error;

/// End of the names of the server's XTEST pointers.
const OURS: &[u8] = b"XTEST pointer";
/// Selects all devices (XI2, `XIAllDevices`).
const ALL_DEVICES: u16 = 0;
/// The last button in the core protocol's state mask; viewers have no further ones.
const LAST_CORE: u8 = 5;
/// Masks of the buttons up to it.
const CORE: u16 = 0x1f00;
/// Longest wait for a window manager that holds the last click. One needs below a millisecond, on a busy
/// machine some; one that hangs must not end all input.
const THAW_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two looks at the pointer.
const THAW_PAUSE: Duration = Duration::from_micros(200);

impl X11Worker {
    /// Prepares a press: fails with `Conflict` when a viewer holds the button, and waits until the last click
    /// has been passed on.
    pub(super) fn clear_button(&mut self, button: Button) -> Outcome<()> {
        self.refuse_button_conflict(button)?;
        self.wait_for_thaw()
    }

    /// Waits while the pointer shows a button as down that neither a viewer nor a client of ours holds, for
    /// at most [`THAW_TIMEOUT`].
    pub(super) fn wait_for_thaw(&mut self) -> Outcome<()> {
        let held_by_client = |button: u8| self.held_by_client.buttons.contains(&button);
        let client = (1..=LAST_CORE).filter(|button| held_by_client(*button)).map(mask).sum::<u16>();
        if self.buttons_down & CORE & !client == 0 {
            return Ok(());
        }
        let held = client | self.held_by_viewers()?;
        let began = Instant::now();
        while self.buttons_down & CORE & !held != 0 && began.elapsed() < THAW_TIMEOUT {
            std::thread::sleep(THAW_PAUSE);
            self.look_at_buttons()?;
        }
        Ok(())
    }

    /// Reads which buttons are down.
    pub(super) fn look_at_buttons(&mut self) -> Outcome<()> {
        self.rearm();
        self.buttons_down = u16::from(self.link.query_pointer(self.root)?.reply()?.mask);
        Ok(())
    }

    /// Fails with `Conflict` when another device holds the button.
    ///
    /// The pointer state alone is not enough: while a window manager handles a click, it shows our own
    /// released button as down. So this asks the devices when the pointer state showed the button as down
    /// before the action.
    pub(super) fn refuse_button_conflict(&self, button: Button) -> Outcome<()> {
        let number = button.number();
        if number > LAST_CORE || self.buttons_down & mask(number) == 0 {
            return Ok(());
        }
        if self.held_by_viewers()? & mask(number) != 0 {
            let message = format!("The {} button is held down by a viewer of the screen", button.name());
            return Err(Error::conflict(message).into());
        }
        Ok(())
    }

    /// The core protocol's mask of the buttons that devices other than XTEST hold.
    fn held_by_viewers(&self) -> Outcome<u16> {
        if self.link.extension_information(xinput::X11_EXTENSION_NAME)?.is_none() {
            return Ok(0);
        }
        let devices = self.link.xinput_xi_query_device(ALL_DEVICES)?.reply()?.infos;
        let states = devices
            .iter()
            .filter(|device| device.type_ == DeviceType::SLAVE_POINTER && !device.name.ends_with(OURS))
            .flat_map(|device| &device.classes)
            .filter_map(|class| match &class.data {
                DeviceClassData::Button(buttons) => buttons.state.first().copied(),
                DeviceClassData::Key(_)
                | DeviceClassData::Valuator(_)
                | DeviceClassData::Scroll(_)
                | DeviceClassData::Touch(_)
                | DeviceClassData::Gesture(_)
                | DeviceClassData::InvalidValue(_) => None,
            });
        let down = states.fold(0, |all, state| all | state);
        Ok((1..=LAST_CORE).filter(|button| down & (1 << button) != 0).map(mask).sum())
    }
}

/// The core protocol's mask of a button, 1 to [`LAST_CORE`].
fn mask(button: u8) -> u16 {
    u16::from(KeyButMask::BUTTON1) << (button - 1)
}
