//! Bounds of the timelines of screens (docs/api/timeline.md).

/// Most entries of one computer by default; the oldest make room. It is several working days of an agent that
/// acts every few seconds in some hours of them.
pub const DEFAULT_ENTRIES: u32 = 2000;
/// Most entries that the operator may allow for one computer: a list and its pictures stay readable.
pub const MAX_ENTRIES: u32 = 20_000;
/// Most megabytes of one computer's entries and pictures by default: 2000 entries with two pictures of the
/// usual 5 KB fit.
pub const DEFAULT_MEGABYTES: u32 = 24;
/// Most megabytes that the operator may allow.
pub const MAX_MEGABYTES: u32 = 1024;
/// Largest width and height of the small pictures in pixels.
pub const PICTURE_SIZE: [f64; 2] = [160.0, 90.0];
/// Largest small picture in bytes. Usual ones have 2 to 6 KB; noise of this size has about 15 KB.
pub const MAX_PICTURE_BYTES: usize = 32 * 1024;
/// Most pixels that the header of a small picture may claim: a list shows hundreds, and a browser decodes each of these to
/// at most 1 MB. It is far more than [`PICTURE_SIZE`], because a screen may grow while its picture is taken.
pub const MAX_PICTURE_PIXELS: u32 = 256 * 1024;
/// Largest record of an action in bytes, as JSON. Real ones have some hundred; a title has at most some KB.
pub const MAX_RECORD_BYTES: usize = 16 * 1024;
/// Most entries of one answer of an agent.
pub const MAX_PAGE_ENTRIES: usize = 64;
/// Most bytes of the entries of one answer of an agent, with pictures before they are in base64, unless one
/// entry alone is larger.
pub const MAX_PAGE_BYTES: usize = 1024 * 1024;
