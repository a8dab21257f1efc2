//! Detection of buttons that a viewer holds down.
//!
//! A viewer's pointer is a device of its own beside the XTEST pointer. X reports one press per button,
//! whichever device presses it. A press of a button that a viewer holds has no effect, and a release does not
//! release it.

use x11rb::connection::RequestConnection as _;
use x11rb::protocol::xinput::{self, ConnectionExt as _, DeviceClassData, DeviceType};
use x11rb::protocol::xproto::KeyButMask;

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

impl X11Worker {
    /// Fails with `Conflict` when another device holds the button.
    ///
    /// The pointer state alone is not enough: while a window manager handles a click, it shows our own
    /// released button as down. So this asks the devices when the pointer state showed the button as down
    /// before the action.
    pub(super) fn refuse_button_conflict(&self, button: Button) -> Outcome<()> {
        let number = button.number();
        if number > LAST_CORE || self.buttons_down & (u16::from(KeyButMask::BUTTON1) << (number - 1)) == 0 {
            return Ok(());
        }
        if self.link.extension_information(xinput::X11_EXTENSION_NAME)?.is_none() {
            return Ok(());
        }
        let devices = self.link.xinput_xi_query_device(ALL_DEVICES)?.reply()?.infos;
        let held = devices
            .iter()
            .filter(|device| device.type_ == DeviceType::SLAVE_POINTER && !device.name.ends_with(OURS))
            .flat_map(|device| &device.classes)
            .any(|class| match &class.data {
                DeviceClassData::Button(buttons) => {
                    buttons.state.first().is_some_and(|state| state & (1 << number) != 0)
                }
                DeviceClassData::Key(_)
                | DeviceClassData::Valuator(_)
                | DeviceClassData::Scroll(_)
                | DeviceClassData::Touch(_)
                | DeviceClassData::Gesture(_)
                | DeviceClassData::InvalidValue(_) => false,
            });
        if held {
            let message = format!("The {} button is held down by a viewer of the screen", button.name());
            return Err(Error::conflict(message).into());
        }
        Ok(())
    }
}
