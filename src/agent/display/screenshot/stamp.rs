//! Identity of what a screenshot shows.

/// Identity of a screen's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::display) struct Stamp {
    /// Number of the X connection; a restarted screen has another one.
    pub(in crate::display) connection: u64,
    /// Number of content changes seen on that connection.
    pub(in crate::display) frame: u64,
    /// The cursor in the picture; `None` when it is not wanted or outside of the region.
    pub(in crate::display) cursor: Option<CursorStamp>,
}

/// Identity of the cursor's appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::display) struct CursorStamp {
    /// The X server's serial number of the cursor image.
    pub(in crate::display) serial: u32,
    /// Position in screen pixels.
    pub(in crate::display) at: (i16, i16),
}
