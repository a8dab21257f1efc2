//! Stream encoder: an ffmpeg process that grabs a screen and the speaker's sound and publishes them by RTMP.
//!
//! Every program of the computer can read ffmpeg's arguments and environment. So the secret parts of the
//! destination (all but host and port) come by standard input, as a preset.

use std::io::{PipeReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::SPEAKER;
use super::ffmpeg_log::{FfmpegLog, Lines};
use crate::display::process::{ProcessGroup, spawn_group};
use crate::display::{Moment, Screen};
use crate::media::ffmpeg::{self, Pointer};
use hotdesk_base::secret::Secret;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::wait;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::desktop::stream::Destination;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Pictures per second that streaming services expect.
const FPS: u32 = 30;
/// How long a stream must run before it counts as accepted: some servers accept first and disconnect after
/// they have checked the key.
const SETTLE: Duration = Duration::from_secs(1);
/// How long ffmpeg may take to end the stream at the server.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the screen's state may take to read; a screen that is busy for longer is grabbed all the same.
const MOMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the rest of the log may take to read after the end: it is in a pipe already.
const LOG_TIMEOUT: Duration = Duration::from_secs(1);

/// Parameters of all encoders of one stream.
#[derive(Debug)]
pub struct StreamPlan {
    pub program: PathBuf,
    pub environment: Vec<(String, String)>,
    /// Scheme, host and port.
    pub url: String,
    pub destination: Destination,
    pub key: Secret,
    /// Whether to send the speaker's sound; otherwise silence, because servers and players expect sound.
    pub sound: bool,
    /// How long the server may take to accept the stream.
    pub start_timeout: Duration,
}

impl StreamPlan {
    fn arguments(&self, display: &str, size: Size, sound: bool) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |text: &str| all.extend(ffmpeg::words(text));
        add(
            "-nostdin -hide_banner -loglevel error -stats_period 0.25 -progress pipe:1 -thread_queue_size 64",
        );
        all.extend(ffmpeg::grab(display, size, FPS, Pointer::Drawn));
        let mut add = |text: &str| all.extend(ffmpeg::words(text));
        if sound {
            // 20 ms of sound at a time; by default the sound server collects two seconds.
            add("-thread_queue_size 512 -f pulse -fragment_size 3840 -i");
            add(SPEAKER);
        } else {
            add("-f lavfi -i anullsrc=r=48000:cl=stereo");
        }
        // The end of either input ends both: otherwise sound would continue when the screen is gone.
        add("-map 0:v -map 1:a -shortest");
        all.extend(ffmpeg::h264("veryfast"));
        let mut add = |text: &str| all.extend(ffmpeg::words(text));
        // An idle desktop needs very little, a film the 4.5 Mbit/s that services recommend for 720p. One key
        // frame every two seconds, as services require, so that viewers can join.
        add("-threads 2 -crf 23 -maxrate 4500k -bufsize 9000k -sc_threshold 0 -g");
        add(&(2 * FPS).to_string());
        add("-c:a aac -b:a 128k -ar 48000 -ac 2 -flvflags no_duration_filesize -f flv");
        if self.destination.secure {
            add("-tls_verify 1");
        }
        add("-fpre /dev/stdin");
        all.push(self.url.clone());
        all
    }

    /// Pipe that contains the preset. It fits into the pipe's buffer, so the write does not block.
    fn preset(&self) -> std::io::Result<PipeReader> {
        let (reader, mut writer) = std::io::pipe()?;
        let (app, key) = (&self.destination.app, self.key.reveal());
        let text = format!("rtmp_app={app}\nrtmp_playpath={key}\nrtmp_tcurl={}\n", self.destination);
        writer.write_all(text.as_bytes())?;
        Ok(reader)
    }
}

/// A running encoder whose stream the server has accepted. The process ends when this is dropped, and with
/// the agent.
#[derive(Debug)]
pub struct StreamEncoder {
    process: ProcessGroup,
    log: Arc<FfmpegLog>,
    log_task: Option<JoinHandle<Option<()>>>,
    sent: Arc<AtomicU64>,
    /// Size of the grabbed screen: a screen of another size needs another encoder.
    pub size: Size,
    /// Connection of the screen at the start, if known: a screen that was restarted since needs another
    /// encoder.
    pub since: Option<Moment>,
    /// Whether the speaker's sound is sent.
    pub sound: bool,
}

impl StreamEncoder {
    /// Starts an encoder; on return the server has accepted the stream. Without a virtual speaker it sends
    /// silence.
    ///
    /// # Errors
    /// `Unavailable` (`stream_refused`, `encoder_failed`); `Conflict` (`stream_stopped`) when `stop` is
    /// cancelled before.
    pub async fn start(
        plan: &StreamPlan,
        screen: &Screen,
        stop: &CancellationToken,
        tasks: &Tasks,
    ) -> Result<Self> {
        let log = Arc::new(FfmpegLog::without(&plan.key));
        let begun = Self::begin(plan, plan.sound, screen, stop, tasks, Arc::clone(&log)).await;
        if begun.is_err() && plan.sound && log.blames_speaker() {
            let log = Arc::new(FfmpegLog::without(&plan.key));
            return Self::begin(plan, false, screen, stop, tasks, log).await;
        }
        begun
    }

    async fn begin(
        plan: &StreamPlan,
        sound: bool,
        screen: &Screen,
        stop: &CancellationToken,
        tasks: &Tasks,
        log: Arc<FfmpegLog>,
    ) -> Result<Self> {
        let failed = |why: String| {
            Error::unavailable("The stream could not be encoded").code(ErrorCode::EncoderFailed).context(why)
        };
        let broken = |error: std::io::Error| failed(error.to_string());
        // First, because the screen's thread updates its size only when it handles a request.
        let since = tokio::time::timeout(MOMENT_TIMEOUT, screen.moment()).await.ok().and_then(Result::ok);
        let size = screen.size();
        let (progress, output) = std::io::pipe().map_err(broken)?;
        let mut command = Command::new(&plan.program);
        command
            .args(plan.arguments(&screen.display_name(), size, sound))
            .env_clear()
            .envs(plan.environment.clone());
        command.current_dir("/").stdin(plan.preset().map_err(broken)?).stdout(output).stderr(Stdio::piped());
        let mut process = spawn_group("ffmpeg", command).await.map_err(|error| failed(error.into()))?;
        let sent = Arc::<AtomicU64>::default();
        let hearing = process.stderr.take().map(|stderr| listen(tasks, stderr, Arc::clone(&log)));
        let hearing = hearing.transpose().map_err(broken)?;
        follow(tasks, progress, Arc::clone(&sent)).map_err(broken)?;
        let mut encoder = Self { process, log, log_task: hearing, sent, size, since, sound };
        let sent = Arc::clone(&encoder.sent);
        let taken = async {
            let begun = || async { (sent.load(Ordering::Relaxed) > 0).then_some(()) };
            wait::until(plan.start_timeout, begun).await?;
            tokio::time::sleep(SETTLE).await;
            Some(())
        };
        let why = tokio::select! {
            biased;
            () = stop.cancelled() => {
                Error::conflict("The stream was stopped before the server took it").code(ErrorCode::StreamStopped)
            }
            () = encoder.ended() => encoder.start_failure(),
            taken = taken => match taken {
                Some(()) => return Ok(encoder),
                None => refused("in time"),
            },
        };
        encoder.end().await;
        Err(why)
    }

    /// Error for an encoder that ended before the server accepted the stream.
    fn start_failure(&self) -> Error {
        let last = self.log.last();
        if self.log.blames_server() {
            return refused(&format!("({last})"));
        }
        Error::unavailable(format!("The stream could not be encoded ({last})")).code(ErrorCode::EncoderFailed)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Bytes sent to the server so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Last log lines.
    pub fn log(&self) -> &FfmpegLog {
        &self.log
    }

    /// Waits until the process has ended and its log is read.
    pub async fn ended(&mut self) {
        self.process.ended().await;
        if let Some(hearing) = &mut self.log_task {
            // The process group was killed, so no process has the pipe open; if one has, its output is not
            // awaited.
            if tokio::time::timeout(LOG_TIMEOUT, hearing).await.is_err() {
                tracing::debug!("the log of a stream encoder did not end in time");
            }
            self.log_task = None;
        }
    }

    /// Asks the process to end the stream at the server and exit.
    pub async fn end(self) {
        self.process.end(END_TIMEOUT).await;
    }
}

fn refused(how: &str) -> Error {
    Error::unavailable(format!("The streaming server did not take the stream {how}"))
        .code(ErrorCode::StreamRefused)
}

/// Reads the process's log lines and logs them without the key.
fn listen(
    tasks: &Tasks,
    stderr: std::process::ChildStderr,
    log: Arc<FfmpegLog>,
) -> std::io::Result<JoinHandle<Option<()>>> {
    let mut lines = Lines::of(tokio::process::ChildStderr::from_std(stderr)?);
    let stop = tasks.stopping();
    Ok(tasks.spawn("stream encoder log", async move {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = stop.cancelled() => return,
            };
            let Some(line) = line else { return };
            if let Some(line) = log.push(&line) {
                tracing::debug!(line, "ffmpeg");
            }
        }
    }))
}

/// Reads the number of sent bytes.
fn follow(tasks: &Tasks, progress: PipeReader, sent: Arc<AtomicU64>) -> std::io::Result<()> {
    let mut lines = Lines::of(Receiver::from_owned_fd(progress.into())?);
    let stop = tasks.stopping();
    let _task = tasks.spawn("stream progress", async move {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = stop.cancelled() => return,
            };
            let Some(line) = line else { return };
            if let Some(bytes) = line.strip_prefix("total_size=").and_then(|bytes| bytes.trim().parse().ok())
            {
                sent.store(bytes, Ordering::Relaxed);
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_in_the_arguments() {
        let plan = StreamPlan {
            program: "ffmpeg".into(),
            environment: Vec::new(),
            url: String::from("rtmps://example.org:443/"),
            destination: Destination::parse("rtmps://example.org/hidden").unwrap(),
            key: Secret::new("hunter2?x=1"),
            sound: true,
            start_timeout: Duration::ZERO,
        };
        let all = plan.arguments(":1", Size { width: 641, height: 360 }, true).join(" ");
        assert!(!all.contains("hunter2") && !all.contains("hidden"), "{all}");
        assert!(
            all.contains("-video_size 641x360") && all.contains("-tls_verify 1") && all.contains(SPEAKER)
        );
        assert!(all.ends_with("-fpre /dev/stdin rtmps://example.org:443/"));
        let preset = std::io::read_to_string(plan.preset().unwrap()).unwrap();
        let wanted = "rtmp_app=hidden\nrtmp_playpath=hunter2?x=1\nrtmp_tcurl=rtmps://example.org/hidden\n";
        assert_eq!(preset, wanted);
    }
}
