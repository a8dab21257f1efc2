//! Messages of the channels of sound and video.

pub mod audio;
pub mod video;
