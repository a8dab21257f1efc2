//! How does a screen become a video? An ffmpeg of its own grabs it and writes fragmented MP4 to a file that is handed to
//! it: what was written plays whatever becomes of ffmpeg, but for its last second.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::display::Screen;
use crate::display::process::{Kept, keep, listen};
use crate::ffmpeg;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Result};

/// How long ffmpeg may take to its first picture: 0.3 s is usual, a loaded host takes seconds.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to write what it has when it is asked to end.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// What is recorded, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pixels across, as the screen has them.
    pub width: u16,
    /// Pixels down.
    pub height: u16,
    /// Pictures per second.
    pub fps: u32,
}

impl Shape {
    /// The sides of the video: H.264 with half the colours (yuv420p, which everything plays) needs even ones.
    pub fn even(self) -> (u32, u32) {
        (u32::from(self.width).next_multiple_of(2), u32::from(self.height).next_multiple_of(2))
    }

    fn arguments(self, display: &str) -> Vec<String> {
        let Self { width, height, fps } = self;
        let mut all: Vec<String> = ffmpeg::words("-nostdin -hide_banner -loglevel warning").collect();
        all.extend(ffmpeg::grab(display, width, height, fps));
        all.extend(ffmpeg::h264("ultrafast"));
        // One thread: the programs on the screen need the processor more. A fragment a second, so that little is lost
        // when it is killed.
        all.extend(ffmpeg::words("-an -threads 1 -crf 26"));
        all.extend(["-g".to_owned(), fps.to_string()]);
        all.extend(ffmpeg::words(
            "-movflags +frag_keyframe+empty_moov+default_base_moof -flush_packets 1 -f mp4 pipe:1",
        ));
        all
    }
}

/// A running encoder. It ends with its value, and with the agent however that ends.
#[derive(Debug)]
pub struct Encoder {
    process: Kept,
    last_words: Arc<Mutex<String>>,
}

impl Encoder {
    /// Starts it; on return its first picture was taken.
    ///
    /// # Errors
    /// `Unavailable` when it does not come to that.
    pub async fn start(
        program: &Path,
        environment: Vec<(String, String)>,
        screen: &Screen,
        shape: Shape,
        video: File,
        tasks: &Tasks,
    ) -> Result<Self> {
        let failed = |why: String| {
            Error::unavailable("The recording could not be started").code("encoder_failed").context(why)
        };
        let output = video.try_clone().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.args(shape.arguments(&screen.display_name())).env_clear().envs(environment).current_dir("/");
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let mut process = keep("ffmpeg", command).await.map_err(failed)?;
        let last_words = Arc::<Mutex<String>>::default();
        if let Some(stderr) = process.stderr.take() {
            listen(tasks, "ffmpeg", screen.id.clone(), stderr, Arc::clone(&last_words)).map_err(failed)?;
        }
        let mut encoder = Self { process, last_words };
        // The header is written when the first picture is there.
        let written = wait::until(START_TIMEOUT, || {
            let written = video.metadata().is_ok_and(|facts| facts.len() > 0).then_some(());
            async move { written }
        });
        let begun = tokio::select! {
            written = written => written.ok_or_else(|| String::from("no picture in time")),
            how = encoder.process.ended() => Err(how),
        };
        match begun {
            Ok(()) => Ok(encoder),
            Err(why) => {
                let why = format!("{why}: {}", encoder.last_words());
                encoder.end().await;
                Err(failed(why))
            }
        }
    }

    /// Waits until it has ended; the text says how, for the log.
    pub async fn ended(&mut self) -> String {
        let how = self.process.ended().await;
        format!("{how}: {}", self.last_words())
    }

    /// Has it write what it has and end.
    pub async fn end(self) {
        self.process.end(END_TIMEOUT).await;
    }

    fn last_words(&self) -> String {
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn videos_have_even_sides() {
        for (width, height, even) in [(800, 600, (800, 600)), (641, 361, (642, 362)), (1, 7680, (2, 7680))] {
            assert_eq!(Shape { width, height, fps: 10 }.even(), even);
        }
    }
}
