//! Recording encoder: an ffmpeg process that grabs a screen and writes fragmented MP4 to an open file.
//!
//! The file is playable however ffmpeg ends, except for its last second.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::display::Screen;
use crate::display::process::{ProcessGroup, log_stderr, spawn_group};
use crate::media::ffmpeg::{self, Pointer};
use hotdesk_base::tasks::Tasks;
use hotdesk_base::wait;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// How long ffmpeg may take to its first picture: 0.3 s is usual, a loaded host takes seconds.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long ffmpeg may take to write its buffered data when it is asked to end.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoFormat {
    /// Width in pixels, that of the screen.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
    /// Pictures per second.
    pub fps: u32,
}

impl VideoFormat {
    /// Width and height of the video: H.264 with yuv420p, which every player supports, needs even numbers.
    pub fn even(self) -> (u32, u32) {
        (u32::from(self.width).next_multiple_of(2), u32::from(self.height).next_multiple_of(2))
    }

    fn arguments(self, display: &str) -> Vec<String> {
        let Self { width, height, fps } = self;
        let mut all: Vec<String> = ffmpeg::words("-nostdin -hide_banner -loglevel warning").collect();
        all.extend(ffmpeg::grab(display, Size { width, height }, fps, Pointer::Drawn));
        all.extend(ffmpeg::h264("ultrafast"));
        // One thread, because the programs on the screen need the processor more. One fragment per second
        // limits the loss when ffmpeg is killed.
        all.extend(ffmpeg::words("-an -threads 1 -crf 26"));
        all.extend(["-g".to_owned(), fps.to_string()]);
        all.extend(ffmpeg::words(
            "-movflags +frag_keyframe+empty_moov+default_base_moof -flush_packets 1 -f mp4 pipe:1",
        ));
        all
    }
}

/// A running encoder. The process ends when this is dropped, and with the agent.
#[derive(Debug)]
pub struct RecordingEncoder {
    process: ProcessGroup,
    last_log: Arc<Mutex<String>>,
}

impl RecordingEncoder {
    /// Starts an encoder; on return it has taken the first picture.
    ///
    /// # Errors
    /// `Unavailable` (`encoder_failed`) when it ends or takes no picture in time.
    pub async fn start(
        program: &Path,
        environment: Vec<(String, String)>,
        screen: &Screen,
        format: VideoFormat,
        video: File,
        tasks: &Tasks,
    ) -> Result<Self> {
        let failed = |why: String| {
            Error::unavailable("The recording could not be started")
                .code(ErrorCode::EncoderFailed)
                .context(why)
        };
        let output = video.try_clone().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.args(format.arguments(&screen.display_name())).env_clear().envs(environment).current_dir("/");
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let mut process = spawn_group("ffmpeg", command).await.map_err(|error| failed(error.into()))?;
        let last_log = Arc::<Mutex<String>>::default();
        if let Some(stderr) = process.stderr.take() {
            log_stderr(tasks, "ffmpeg", screen.id.clone(), stderr, Arc::clone(&last_log))
                .map_err(|error| failed(error.into()))?;
        }
        let mut encoder = Self { process, last_log };
        // ffmpeg writes the header with the first picture.
        let written = wait::until(START_TIMEOUT, || {
            let written = video.metadata().is_ok_and(|facts| facts.len() > 0).then_some(());
            async move { written }
        });
        let begun = tokio::select! {
            written = written => written.ok_or_else(|| String::from("no picture within 10 s")),
            how = encoder.process.ended() => Err(how),
        };
        match begun {
            Ok(()) => Ok(encoder),
            Err(why) => {
                let why = format!("{why}: {}", encoder.last_log());
                encoder.end().await;
                Err(failed(why))
            }
        }
    }

    /// Waits until the process has ended; returns how it ended and its last log lines.
    pub async fn ended(&mut self) -> String {
        let how = self.process.ended().await;
        format!("{how}: {}", self.last_log())
    }

    /// Asks the process to write its buffered data and end.
    pub async fn end(self) {
        self.process.end(END_TIMEOUT).await;
    }

    fn last_log(&self) -> String {
        self.last_log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn videos_have_even_sides() {
        for (width, height, even) in [(800, 600, (800, 600)), (641, 361, (642, 362)), (1, 7680, (2, 7680))] {
            assert_eq!(VideoFormat { width, height, fps: 10 }.even(), even);
        }
    }
}
