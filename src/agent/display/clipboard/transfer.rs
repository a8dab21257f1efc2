//! Data on its way to a program that pastes.

use std::time::Instant;

use x11rb::protocol::xproto::Window;

use super::content::TargetData;

/// Data that is being sent to a program.
pub(super) struct OutgoingTransfer {
    pub(super) requestor: Window,
    pub(super) property: u32,
    /// Serial number of the owned content.
    pub(super) serial: u64,
    pub(super) data: TargetData,
    /// Bytes sent so far; short data is sent at once.
    pub(super) sent: usize,
    pub(super) since: Instant,
}
