//! Video encoder: an ffmpeg process that grabs a screen and writes each frame to a pipe once it is coded.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use super::flv::{BadVideo, FlvReader, Packet};
use super::rate::VideoRate;
use super::unit::{Configuration, VideoFrame};
use crate::display::process::{ProcessGroup, log_stderr, spawn_group};
use crate::display::{Moment, Screen};
use crate::media::ffmpeg::{self, Pointer};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// How long ffmpeg may take to end when it is asked to. It writes no file, so nothing is lost when it is
/// killed.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the screen's state may take to read; a screen that is busy for longer is grabbed all the same.
const MOMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of one read: the capacity of a pipe (pipe(7)).
const PIECE: usize = 64 * 1024;

/// What all encoders of a screen are started with.
#[derive(Debug)]
pub(super) struct EncoderSetup {
    pub(super) program: PathBuf,
    pub(super) environment: Vec<(String, String)>,
    pub(super) tasks: Tasks,
    /// Beginning of the times of the frames.
    pub(super) began: Instant,
}

/// A running encoder. The process ends when this is dropped, and with the agent.
#[derive(Debug)]
pub(super) struct VideoEncoder {
    process: ProcessGroup,
    last_log: Arc<Mutex<String>>,
    output: Receiver,
    reader: FlvReader,
    configuration: Option<Configuration>,
    began: Instant,
    /// Size of the grabbed screen: a screen of another size needs another encoder.
    pub(super) size: Size,
    /// Connection of the screen at the start, if known: a screen that was restarted since needs another
    /// encoder.
    pub(super) since: Option<Moment>,
}

impl VideoEncoder {
    /// Starts an encoder; its first frame comes later.
    ///
    /// # Errors
    /// `Unavailable` (`encoder_failed`) when the process cannot be started.
    pub(super) async fn start(setup: &EncoderSetup, screen: &Screen, rate: VideoRate) -> Result<Self> {
        let failed = |why: String| {
            Error::unavailable("The video could not be encoded").code(ErrorCode::EncoderFailed).context(why)
        };
        let broken = |error: std::io::Error| failed(error.to_string());
        // First, because the screen's thread updates its size only when it handles a request.
        let since = tokio::time::timeout(MOMENT_TIMEOUT, screen.moment()).await.ok().and_then(Result::ok);
        let size = screen.size();
        let (output, written) = std::io::pipe().map_err(broken)?;
        let mut command = Command::new(&setup.program);
        command.args(arguments(&screen.display_name(), size, rate));
        command.env_clear().envs(setup.environment.clone());
        command.current_dir("/").stdin(Stdio::null()).stdout(written).stderr(Stdio::piped());
        let mut process = spawn_group("ffmpeg", command).await.map_err(|error| failed(error.into()))?;
        let last_log = Arc::<Mutex<String>>::default();
        if let Some(stderr) = process.stderr.take() {
            log_stderr(&setup.tasks, "ffmpeg", screen.id.clone(), stderr, Arc::clone(&last_log))
                .map_err(|error| failed(error.into()))?;
        }
        let output = Receiver::from_owned_fd(output.into()).map_err(broken)?;
        let (reader, configuration, began) = (FlvReader::default(), None, setup.began);
        Ok(Self { process, last_log, output, reader, configuration, began, size, since })
    }

    /// Returns the next frame; `None` when the encoder has ended. Cancel-safe.
    ///
    /// # Errors
    /// When it writes something else.
    pub(super) async fn frame(&mut self) -> Result<Option<VideoFrame>, BadVideo> {
        loop {
            match self.reader.packet()? {
                Some(Packet::Configuration(record)) => {
                    self.configuration = Some(Configuration::parse(&record, self.size)?);
                }
                Some(Packet::Unit { is_key, nal_units }) => {
                    let configuration = self.configuration.as_ref();
                    let configuration =
                        configuration.ok_or(BadVideo("a frame precedes its configuration"))?;
                    return configuration.frame(is_key, micros_since(self.began), &nal_units).map(Some);
                }
                None => {
                    let buffer = self.reader.buffer();
                    buffer.reserve(PIECE);
                    match self.output.read_buf(buffer).await {
                        Ok(1..) => {}
                        Ok(0) | Err(_) => return Ok(None),
                    }
                }
            }
        }
    }

    /// The last line that it logged.
    pub(super) fn last_log(&self) -> String {
        self.last_log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the process to end, and waits until it has.
    pub(super) async fn end(self) {
        self.process.end(END_TIMEOUT).await;
    }
}

/// Microseconds since the beginning of the times of the frames.
pub(super) fn micros_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn arguments(display: &str, size: Size, VideoRate { fps, kbits }: VideoRate) -> Vec<String> {
    let mut all: Vec<String> = ffmpeg::words("-nostdin -hide_banner -loglevel warning").collect();
    all.extend(ffmpeg::grab(display, size, fps, Pointer::Hidden));
    all.extend(ffmpeg::h264("ultrafast"));
    // One thread, because the programs on the screen need the processor more.
    all.extend(ffmpeg::words("-an -threads 1 -crf 25 -bf 0 -sc_threshold 0"));
    // Half a second of the bits bounds a single frame.
    all.extend([
        "-maxrate".to_owned(),
        format!("{kbits}k"),
        "-bufsize".to_owned(),
        format!("{}k", kbits / 2),
    ]);
    // A key frame every second: a viewer that joins or was too slow waits for one.
    all.extend(["-g".to_owned(), fps.to_string()]);
    all.extend(ffmpeg::words("-flvflags no_duration_filesize+no_metadata -flush_packets 1 -f flv pipe:1"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_screen_is_grabbed_without_its_pointer() {
        let rate = VideoRate { fps: 20, kbits: 2000 };
        let all = arguments(":7", Size { width: 641, height: 360 }, rate).join(" ");
        for expected in [
            "-draw_mouse 0",
            "-framerate 20 -video_size 641x360 -i :7",
            "-maxrate 2000k -bufsize 1000k",
            "-g 20",
            "-bf 0",
        ] {
            assert!(all.contains(expected), "{expected}: {all}");
        }
        assert!(all.ends_with("-f flv pipe:1"), "{all}");
    }
}
