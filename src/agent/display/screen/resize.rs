//! Change of a screen's size in place through RandR: a mode, an output, a framebuffer.

use x11rb::connection::RequestConnection;
use x11rb::protocol::randr::{self, ConnectionExt as _, ModeInfo, SetConfig};
use x11rb::protocol::xproto::ConnectionExt as _;

use super::x11_worker::X11Worker;
use crate::display::fault::{Fault, Outcome};
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::Error;

/// Millimetres per inch, for the physical size that RandR takes.
const MM_PER_INCH: f64 = 25.4;
/// Dots per inch that the physical size implies for programs.
const DPI: f64 = 96.0;
/// Nominal frames per second of a mode; a virtual screen scans nothing out.
const NOMINAL_RATE: u32 = 60;

impl X11Worker {
    /// Changes the size; on return the server has it.
    pub(super) fn resize(&mut self, size: Size) -> Outcome<()> {
        let geometry = self.link.get_geometry(self.root)?.reply()?;
        if (geometry.width, geometry.height) == (size.width, size.height) {
            return Ok(());
        }
        if self.link.extension_information(randr::X11_EXTENSION_NAME)?.is_none() {
            return Err(cannot("it has no RandR extension"));
        }
        let range = self.link.randr_get_screen_size_range(self.root)?.reply()?;
        if size.width > range.max_width || size.height > range.max_height {
            return Err(cannot(&format!("its largest is {}x{}", range.max_width, range.max_height)));
        }
        self.set_mode(size, Size { width: geometry.width, height: geometry.height })?;
        let now = self.link.get_geometry(self.root)?.reply()?;
        self.size.set(Size { width: now.width, height: now.height });
        self.read_events()?;
        if (now.width, now.height) == (size.width, size.height) {
            return Ok(());
        }
        Err(cannot(&format!("it stayed at {}x{}", now.width, now.height)))
    }

    fn set_mode(&mut self, size: Size, old: Size) -> Outcome<()> {
        let resources = self.link.randr_get_screen_resources(self.root)?.reply()?;
        let (Some(&crtc), Some(&output)) = (resources.crtcs.first(), resources.outputs.first()) else {
            return Err(cannot("it has no output"));
        };
        let mode = self.mode(&resources, output, size)?;
        // The framebuffer must hold both sizes while the output changes.
        let both = Size { width: size.width.max(old.width), height: size.height.max(old.height) };
        self.set_frame(both)?;
        let set = self.link.randr_set_crtc_config(
            crtc,
            x11rb::CURRENT_TIME,
            resources.config_timestamp,
            0,
            0,
            mode,
            randr::Rotation::ROTATE0,
            &[output],
        )?;
        let status = set.reply().map_err(refused)?.status;
        if status != SetConfig::SUCCESS {
            self.set_frame(old)?;
            return Err(cannot(&format!("its output refused: {status:?}")));
        }
        self.set_frame(size)
    }

    /// A mode of this size; created when there is none.
    fn mode(
        &mut self,
        resources: &randr::GetScreenResourcesReply,
        output: randr::Output,
        size: Size,
    ) -> Outcome<randr::Mode> {
        let of_size = |mode: &&ModeInfo| (mode.width, mode.height) == (size.width, size.height);
        let info = self.link.randr_get_output_info(output, resources.config_timestamp)?.reply()?;
        if let Some(mode) = resources.modes.iter().find(of_size) {
            if !info.modes.contains(&mode.id) {
                self.link.randr_add_output_mode(output, mode.id)?.check().map_err(refused)?;
            }
            return Ok(mode.id);
        }
        let name = format!("{}x{}", size.width, size.height);
        let new = ModeInfo {
            width: size.width,
            height: size.height,
            htotal: size.width,
            vtotal: size.height,
            dot_clock: u32::from(size.width) * u32::from(size.height) * NOMINAL_RATE,
            // A side has at most four digits.
            name_len: name.len() as u16,
            ..ModeInfo::default()
        };
        let made = self.link.randr_create_mode(self.root, new, name.as_bytes())?;
        let mode = made.reply().map_err(refused)?.mode;
        self.link.randr_add_output_mode(output, mode)?.check().map_err(refused)?;
        Ok(mode)
    }

    fn set_frame(&self, size: Size) -> Outcome<()> {
        let mm = |pixels: u16| (f64::from(pixels) * MM_PER_INCH / DPI) as u32;
        let set = self.link.randr_set_screen_size(
            self.root,
            size.width,
            size.height,
            mm(size.width),
            mm(size.height),
        )?;
        set.check().map_err(refused)
    }
}

fn cannot(why: &str) -> Fault {
    Error::conflict("This screen's X server cannot change its size").context(why).into()
}

/// Turns an X error of a RandR request into "this server cannot".
fn refused(error: x11rb::errors::ReplyError) -> Fault {
    match Fault::from(error) {
        Fault::Refused(error) => cannot(&format!("{error:#}")),
        other @ (Fault::Silent | Fault::Broken(_)) => other,
    }
}
