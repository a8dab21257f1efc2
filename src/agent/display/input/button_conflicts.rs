//! Does somebody else hold a button down? X hears of a button once, whichever devices press it.
//!
//! A viewer's pointer is a device of its own beside XTEST's. What it holds cannot be pressed here, and a release from here
//! does not let it go.

use x11rb::connection::RequestConnection as _;
use x11rb::protocol::xinput::{self, ConnectionExt as _, DeviceClassData, DeviceType};
use x11rb::protocol::xproto::KeyButMask;

use super::fault::Outcome;
use super::seat::Seat;
use hotdesk_domain::error::Error;
use hotdesk_domain::pointer::Button;

/// How the server calls the devices that XTEST acts by.
const OURS: &[u8] = b"XTEST pointer";
/// Asks for every device (XI2 protocol, XIAllDevices).
const ALL_DEVICES: u16 = 0;
/// The last button that the core protocol tells of; viewers have no further ones.
const LAST_CORE: u8 = 5;

impl Seat {
    /// Refuses when another device holds a button, so that to press it or to let it go would do nothing.
    ///
    /// The pointer alone does not tell: while a window manager thinks about a click, it shows our own button as down that
    /// has come up. So the devices are asked, when the pointer showed it as down before the action.
    pub(super) fn only_ours(&self, button: Button) -> Outcome<()> {
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
