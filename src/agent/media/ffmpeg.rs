//! How is ffmpeg found, what does it need to know, and how does it grab a screen? For recordings and streams alike.

use std::path::{Path, PathBuf};

use super::desktop::Desktop;
use super::display::Screen;
use hotdesk_domain::error::{Error, Result};

/// Looks for the program on the agent's `PATH`.
///
/// # Errors
/// `Conflict` with the code `no_encoder`.
pub fn find(program: &Path) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // An absolute name stays what it is.
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| {
        Error::conflict("No ffmpeg is installed on this computer to record or stream with").code("no_encoder")
    })
}

/// What it finds in its environment: the screen's display and the session's sound, and nothing of the agent's own.
///
/// # Errors
/// `NotFound` when the screen is gone.
pub fn environment(desktop: &dyn Desktop, home: &Path, screen: &Screen) -> Result<Vec<(String, String)>> {
    let path = std::env::var("PATH").unwrap_or_default();
    let home = home.to_string_lossy().into_owned();
    let mut all = vec![(String::from("PATH"), path), (String::from("HOME"), home)];
    all.extend(desktop.environment(Some(&screen.id))?);
    Ok(all)
}

/// Arguments without white space in them, as one text.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(' ').map(str::to_owned)
}

/// The arguments that make a screen, with its pointer, an input.
pub fn grab(display: &str, width: u16, height: u16, fps: u32) -> Vec<String> {
    // Without these it grabs for a second to learn what it was told, and the video begins before it says so.
    let mut all: Vec<String> = words("-fpsprobesize 0 -analyzeduration 0 -f x11grab -draw_mouse 1").collect();
    let (size, fps) = (format!("{width}x{height}"), fps.to_string());
    all.extend(["-framerate", &fps, "-video_size", &size, "-i", display].map(str::to_owned));
    all
}

/// The arguments that make it H.264 that everything plays: with half the colours (yuv420p), which needs even sides.
/// Nothing is held back for later.
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
    fn a_missing_encoder_is_told_by_its_code() {
        assert_eq!(find(Path::new("no-such-encoder")).unwrap_err().code, Some("no_encoder"));
        assert_eq!(find(Path::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
    }
}
