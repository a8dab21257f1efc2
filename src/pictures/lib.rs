//! Floor 3: pixels of a screen, and pictures of them as PNG, JPEG and WebP with scaling and a byte budget.
//!
//! A crate of its own, because builds for tests optimize what works on pixels and nothing else.

mod budget;
mod encode;
mod encoder_buffers;
mod frame;
mod options;
mod png_writer;

pub use self::encode::{EncodedImage, Encoders};
pub use self::frame::{Cursor, Frame, Pool};
pub use self::options::ScreenshotOptions;
