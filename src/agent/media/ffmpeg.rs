//! Program path, environment and common arguments of ffmpeg, for recordings, streams and video.

use std::path::{Path, PathBuf};

use crate::display::Screen;
use crate::display::desktop::Desktop;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Looks up the program in the agent's `PATH`.
///
/// # Errors
/// `Conflict` (`no_encoder`) when it is not installed.
pub fn find(program: &Path) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // `join` leaves an absolute path unchanged.
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| {
        Error::conflict("ffmpeg is not installed on this computer; install it to record or stream")
            .code(ErrorCode::NoEncoder)
    })
}

/// Environment of the program: the screen's display and the session's sound server, and nothing else of the
/// agent's environment.
///
/// # Errors
/// `NotFound` when the screen does not exist any more.
pub fn environment(desktop: &dyn Desktop, home: &Path, screen: &Screen) -> Result<Vec<(String, String)>> {
    let path = std::env::var("PATH").unwrap_or_default();
    let home = home.to_string_lossy().into_owned();
    let mut all = vec![(String::from("PATH"), path), (String::from("HOME"), home)];
    all.extend(desktop.environment(Some(&screen.id))?);
    Ok(all)
}

/// Splits arguments at spaces.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(' ').map(str::to_owned)
}

/// Whether a grabbed picture has the pointer in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// It is drawn.
    Drawn,
    /// It is left out: who watches has one of their own.
    Hidden,
}

/// Arguments that grab a screen of this size.
pub fn grab(display: &str, size: Size, fps: u32, pointer: Pointer) -> Vec<String> {
    // Without these options ffmpeg probes its input for a second, and the video starts before ffmpeg reports
    // it.
    let mut all: Vec<String> = words("-fpsprobesize 0 -analyzeduration 0 -f x11grab -draw_mouse").collect();
    let drawn = if pointer == Pointer::Drawn { "1" } else { "0" };
    let (size, fps) = (format!("{}x{}", size.width, size.height), fps.to_string());
    all.extend([drawn, "-framerate", &fps, "-video_size", &size, "-i", display].map(str::to_owned));
    all
}

/// Arguments for H.264 that every player supports: yuv420p, which needs an even width and height, without
/// encoder delay.
pub fn h264(preset: &str) -> Vec<String> {
    let mut all: Vec<String> =
        words("-vf pad=ceil(iw/2)*2:ceil(ih/2)*2 -c:v libx264 -pix_fmt yuv420p").collect();
    all.extend(["-preset", preset, "-tune", "zerolatency"].map(str::to_owned));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_encoder_has_its_error_code() {
        assert_eq!(find(Path::new("no-such-encoder")).unwrap_err().code, Some(ErrorCode::NoEncoder));
        assert_eq!(find(Path::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
    }
}
