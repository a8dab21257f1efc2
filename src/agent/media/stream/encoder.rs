//! How does a screen become an RTMP stream? An ffmpeg of its own grabs it and what the speaker plays, encodes and
//! publishes.
//!
//! What ffmpeg is told of the destination beyond host and port comes by its standard input, as a preset: its arguments
//! and its environment can be read by every program of the computer.

use std::io::{PipeReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::words::{Lines, Words};
use crate::display::process::{Kept, keep};
use crate::display::{Moment, Screen};
use crate::ffmpeg;
use hotdesk_base::secret::Secret;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::resolution::Size;
use hotdesk_domain::stream::Destination;

/// What the session's virtual speaker sounds.
pub const SPEAKER: &str = "hotdesk_speaker.monitor";
/// Pictures per second: what streaming services expect.
const FPS: u32 = 30;
/// How long a stream must go on before it counts as taken: servers that look at the key late accept first, and hang up
/// then.
const SETTLE: Duration = Duration::from_secs(1);
/// How long it may take to tell the server that the stream ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a screen may take to tell its moment; one that is busy for longer is grabbed all the same.
const MOMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long its last words may take to be read once it has ended: they lie in a pipe already.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// What every encoder of one stream is given.
#[derive(Debug)]
pub struct Plan {
    pub program: PathBuf,
    pub environment: Vec<(String, String)>,
    /// Scheme, host and port.
    pub url: String,
    pub destination: Destination,
    pub key: Secret,
    /// Whether there is sound to be heard; silence is sent else, because servers and players expect some.
    pub sound: bool,
    /// When the server must have taken the stream.
    pub patience: Duration,
}

impl Plan {
    fn arguments(&self, display: &str, size: Size, sound: bool) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |text: &str| all.extend(ffmpeg::words(text));
        add(
            "-nostdin -hide_banner -loglevel error -stats_period 0.25 -progress pipe:1 -thread_queue_size 64",
        );
        all.extend(ffmpeg::grab(display, size.width, size.height, FPS));
        let mut add = |text: &str| all.extend(ffmpeg::words(text));
        if sound {
            // 20 ms of sound at a time; unset the server collects two seconds.
            add("-thread_queue_size 512 -f pulse -fragment_size 3840 -i");
            add(SPEAKER);
        } else {
            add("-f lavfi -i anullsrc=r=48000:cl=stereo");
        }
        // The end of either is the end of both: else sound would go on alone when the screen is gone.
        add("-map 0:v -map 1:a -shortest");
        all.extend(ffmpeg::h264("veryfast"));
        let mut add = |text: &str| all.extend(ffmpeg::words(text));
        // A desk at rest takes next to nothing, a film the 4.5 Mbit/s that services recommend for 720p. A key frame
        // every two seconds, as they ask, so that viewers can join.
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

    /// The preset, ready to be read: it fits into a pipe, so that writing it never waits.
    fn preset(&self) -> std::io::Result<PipeReader> {
        let (reader, mut writer) = std::io::pipe()?;
        let (app, key) = (&self.destination.app, self.key.reveal());
        let text = format!("rtmp_app={app}\nrtmp_playpath={key}\nrtmp_tcurl={}\n", self.destination);
        writer.write_all(text.as_bytes())?;
        Ok(reader)
    }
}

/// A running encoder whose stream the server has taken. It ends with its value, and with the agent however that ends.
#[derive(Debug)]
pub struct Encoder {
    process: Kept,
    words: Arc<Words>,
    hearing: Option<JoinHandle<Option<()>>>,
    sent: Arc<AtomicU64>,
    /// What it grabs: a screen of another size needs another encoder.
    pub size: Size,
    /// When it began to grab, if the screen told: a screen that was started again since needs another encoder too.
    pub since: Option<Moment>,
    /// Whether the speaker is heard.
    pub sound: bool,
}

impl Encoder {
    /// Starts it; on return the server has taken the stream. Where there is no virtual speaker, silence is sent.
    ///
    /// # Errors
    /// `Unavailable` with the code `stream_refused` or `encoder_failed`; `Conflict` with the code `stream_stopped`.
    pub async fn start(
        plan: &Plan,
        screen: &Screen,
        stop: &CancellationToken,
        tasks: &Tasks,
    ) -> Result<Self> {
        let words = Arc::new(Words::without(&plan.key));
        let begun = Self::begin(plan, plan.sound, screen, stop, tasks, Arc::clone(&words)).await;
        if begun.is_err() && plan.sound && words.blame_the_speaker() {
            let words = Arc::new(Words::without(&plan.key));
            return Self::begin(plan, false, screen, stop, tasks, words).await;
        }
        begun
    }

    async fn begin(
        plan: &Plan,
        sound: bool,
        screen: &Screen,
        stop: &CancellationToken,
        tasks: &Tasks,
        words: Arc<Words>,
    ) -> Result<Self> {
        let failed = |why: String| {
            Error::unavailable("The stream could not be encoded").code("encoder_failed").context(why)
        };
        let broken = |error: std::io::Error| failed(error.to_string());
        // Asked first: the screen's thread learns of its size when it does something.
        let since = tokio::time::timeout(MOMENT_TIMEOUT, screen.moment()).await.ok().and_then(Result::ok);
        let size = screen.size();
        let (progress, output) = std::io::pipe().map_err(broken)?;
        let mut command = Command::new(&plan.program);
        command
            .args(plan.arguments(&screen.display_name(), size, sound))
            .env_clear()
            .envs(plan.environment.clone());
        command.current_dir("/").stdin(plan.preset().map_err(broken)?).stdout(output).stderr(Stdio::piped());
        let mut process = keep("ffmpeg", command).await.map_err(failed)?;
        let sent = Arc::<AtomicU64>::default();
        let hearing = process.stderr.take().map(|stderr| listen(tasks, stderr, Arc::clone(&words)));
        let hearing = hearing.transpose().map_err(broken)?;
        follow(tasks, progress, Arc::clone(&sent)).map_err(broken)?;
        let mut encoder = Self { process, words, hearing, sent, size, since, sound };
        let sent = Arc::clone(&encoder.sent);
        let taken = async {
            let begun = || async { (sent.load(Ordering::Relaxed) > 0).then_some(()) };
            wait::until(plan.patience, begun).await?;
            tokio::time::sleep(SETTLE).await;
            Some(())
        };
        let why = tokio::select! {
            biased;
            () = stop.cancelled() => {
                Error::conflict("The stream was stopped before the server took it").code("stream_stopped")
            }
            () = encoder.ended() => encoder.unbegun(),
            taken = taken => match taken {
                Some(()) => return Ok(encoder),
                None => refused("in time"),
            },
        };
        encoder.end().await;
        Err(why)
    }

    /// Why it ended before the server took anything.
    fn unbegun(&self) -> Error {
        let last = self.words.last();
        if self.words.blame_the_server() {
            return refused(&format!("({last})"));
        }
        Error::unavailable(format!("The stream could not be encoded ({last})")).code("encoder_failed")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Bytes that were given to the server so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// What it said last.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Waits until it has ended, and its last words were heard.
    pub async fn ended(&mut self) {
        self.process.ended().await;
        if let Some(hearing) = &mut self.hearing {
            // The group was killed, so that nobody holds the pipe; if somebody does, its words are not waited for.
            if tokio::time::timeout(LAST_WORDS_TIMEOUT, hearing).await.is_err() {
                tracing::debug!("an encoder's last words did not end");
            }
            self.hearing = None;
        }
    }

    /// Has it tell the server that the stream ends, and end.
    pub async fn end(self) {
        self.process.end(END_TIMEOUT).await;
    }
}

fn refused(how: &str) -> Error {
    Error::unavailable(format!("The streaming server did not take the stream {how}")).code("stream_refused")
}

/// Keeps what it says on standard error, and logs it without the key.
fn listen(
    tasks: &Tasks,
    stderr: std::process::ChildStderr,
    words: Arc<Words>,
) -> std::io::Result<JoinHandle<Option<()>>> {
    let mut lines = Lines::of(tokio::process::ChildStderr::from_std(stderr)?);
    let stop = tasks.stopping();
    Ok(tasks.spawn("a stream's words", async move {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = stop.cancelled() => return,
            };
            let Some(line) = line else { return };
            if let Some(line) = words.hear(&line) {
                tracing::debug!(line, "ffmpeg");
            }
        }
    }))
}

/// Reads how much was sent.
fn follow(tasks: &Tasks, progress: PipeReader, sent: Arc<AtomicU64>) -> std::io::Result<()> {
    let mut lines = Lines::of(Receiver::from_owned_fd(progress.into())?);
    let stop = tasks.stopping();
    let _follower = tasks.spawn("a stream's progress", async move {
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
        let plan = Plan {
            program: "ffmpeg".into(),
            environment: Vec::new(),
            url: String::from("rtmps://example.org:443/"),
            destination: Destination::parse("rtmps://example.org/hidden").unwrap(),
            key: Secret::new("hunter2?x=1"),
            sound: true,
            patience: Duration::ZERO,
        };
        let all = plan.arguments(":1", Size { width: 641, height: 360 }, true).join(" ");
        assert!(!all.contains("hunter2") && !all.contains("hidden"), "{all}");
        assert!(
            all.contains("-video_size 641x360") && all.contains("-tls_verify 1") && all.contains(SPEAKER)
        );
        assert!(all.ends_with("-fpre /dev/stdin rtmps://example.org:443/"));
        let told = std::io::read_to_string(plan.preset().unwrap()).unwrap();
        let wanted = "rtmp_app=hidden\nrtmp_playpath=hunter2?x=1\nrtmp_tcurl=rtmps://example.org/hidden\n";
        assert_eq!(told, wanted);
    }
}
