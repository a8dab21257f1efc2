//! Sound and video of a computer: audio playback, recordings, timelines, RTMP streams, live video and VNC.

pub mod audio;
mod ffmpeg;
pub mod recording;
pub mod stream;
pub mod timeline;
pub mod video;
pub mod vnc;
