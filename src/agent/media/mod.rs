//! Sound and video of a computer: audio playback, recordings, RTMP streams and VNC.

pub mod audio;
mod ffmpeg;
pub mod recording;
pub mod stream;
pub mod vnc;
