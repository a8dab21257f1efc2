//! Audio of the computer: the monitor of its virtual speaker, streamed to listeners (docs/channels.md).
//!
//! Each listener has its own connection to PulseAudio, which resamples for it; without listeners there is no
//! connection.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;

mod pulse;
mod server;

use crate::display::desktop::Desktop;
use hotdesk_base::wait;
use hotdesk_domain::desktop::audio::AudioFormat;
use hotdesk_domain::desktop::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::socket::{CloseReason, PeerGone, PeerMessage, Receiver, Sender};
use hotdesk_wire::desktop::channel::audio::{AudioClientMessage, AudioServerMessage};
use pulse::AudioCapture;
use tokio_util::sync::CancellationToken;

/// Most listeners: PulseAudio serves 64 clients, and the computer's programs are some of them.
pub const MAX_LISTENERS: usize = 16;
/// Most frames that wait for a slow listener: one second. Then the oldest are dropped, so the sound is never
/// older.
const MAX_WAITING: usize = 50;
/// Most answers that the listener has not read yet; further ones are dropped.
const MAX_ANSWERS: usize = 64;
/// How long PulseAudio may take to start, or to be restarted by the session.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without data after which the speaker counts as suspended and silence is sent.
const SUSPENDED_AFTER: Duration = Duration::from_millis(500);

/// Audio output of a computer.
#[derive(Clone)]
pub struct Audio {
    desktop: Arc<dyn Desktop>,
    slots: Arc<Semaphore>,
}

/// Query parameters of a listener's socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct AudioQuery<'a> {
    /// Samples per second.
    pub sample_rate: Option<&'a str>,
    /// Number of channels.
    pub channels: Option<&'a str>,
}

impl Audio {
    /// `desktop` supplies the session's environment, which names its PulseAudio server.
    pub fn new(desktop: Arc<dyn Desktop>) -> Self {
        Self { desktop, slots: Arc::new(Semaphore::new(MAX_LISTENERS)) }
    }

    /// Streams the sound until the listener stops or disconnects, the sound server is lost, or `stop` is
    /// cancelled. A failure is sent as an `error` message, then the socket is closed with the channel's code
    /// for it.
    pub async fn listen(
        &self,
        query: AudioQuery<'_>,
        sender: Sender,
        receiver: Receiver,
        stop: CancellationToken,
    ) -> CloseReason {
        let Ok(_slot) = self.slots.try_acquire() else {
            let message = format!("{MAX_LISTENERS} listeners are connected already");
            return refuse(&sender, &Error::unavailable(message)).await;
        };
        let format = match AudioFormat::parse(query.sample_rate, query.channels) {
            Ok(format) => format,
            Err(error) => return refuse(&sender, &error).await,
        };
        let queue = Queue::default();
        let started = Notify::new();
        let ended = tokio::select! {
            ended = self.play(format, &queue, &sender, &started) => ended,
            () = handle_messages(receiver, &sender, &started) => Ok(()),
            () = stop.cancelled() => return CloseReason::new(GOING_AWAY, "the computer is stopping"),
        };
        match ended {
            Ok(()) => CloseReason::new(NORMAL, ""),
            Err(error) => refuse(&sender, &error).await,
        }
    }

    /// Records and sends until the listener disconnects.
    ///
    /// # Errors
    /// `Unavailable` when there is no sound server, or it does not come back.
    async fn play(
        &self,
        format: AudioFormat,
        queue: &Queue,
        sender: &Sender,
        started: &Notify,
    ) -> Result<()> {
        let mut recording = self.record(format).await?;
        let first = AudioServerMessage::Started { sample_rate: format.rate, channels: format.channels };
        if sender.json(&first).await.is_err() {
            return Ok(());
        }
        started.notify_one();
        let record = async {
            loop {
                let lost = fill(&mut recording, format, queue).await;
                tracing::info!(
                    error = format_args!("{lost:#}"),
                    "the connection to the sound server ended; reconnecting"
                );
                match self.record(format).await {
                    Ok(again) => recording = again,
                    Err(error) => return error,
                }
            }
        };
        tokio::select! {
            error = record => Err(error),
            PeerGone = send(format, queue, sender) => Ok(()),
        }
    }

    /// Starts a recording; waits for a sound server that is starting.
    async fn record(&self, format: AudioFormat) -> Result<AudioCapture> {
        let address = server::find(&*self.desktop)?;
        let begun =
            wait::until(SERVER_TIMEOUT, || async { AudioCapture::begin(&address, format).await.ok() }).await;
        match begun {
            Some(recording) => Ok(recording),
            // Another attempt, for its error.
            None => AudioCapture::begin(&address, format).await,
        }
    }
}

/// Moves recorded sound into the queue, in frames, until the recording ends; returns the reason.
async fn fill(recording: &mut AudioCapture, format: AudioFormat, queue: &Queue) -> Error {
    let mut rest = Vec::new();
    loop {
        match recording.next().await {
            Ok(sound) => rest.extend_from_slice(sound),
            Err(error) => return error,
        }
        let whole = rest.len() - rest.len() % format.frame();
        for frame in rest[..whole].chunks(format.frame()) {
            queue.push(Bytes::copy_from_slice(frame));
        }
        rest.drain(..whole);
    }
}

/// Sends frames until the listener disconnects. Sends silence in real time while the speaker is suspended or
/// its server restarts.
async fn send(format: AudioFormat, queue: &Queue, sender: &Sender) -> PeerGone {
    let silence = Bytes::from(vec![0; format.frame()]);
    // Silence at first, because a suspended speaker takes a moment to start.
    let mut suspended = true;
    // Time up to which sound was sent.
    let mut sent_until = Instant::now();
    loop {
        let timeout = if suspended { format.frame_time() } else { SUSPENDED_AFTER };
        let frame = match tokio::time::timeout_at(sent_until + timeout, queue.next()).await {
            Ok(frame) => {
                suspended = false;
                sent_until = Instant::now();
                frame
            }
            Err(_) => {
                suspended = true;
                sent_until += format.frame_time();
                silence.clone()
            }
        };
        if let Err(gone) = sender.binary(frame).await {
            return gone;
        }
    }
}

/// Handles the listener's messages until it stops or disconnects. Answers wait for `started`, which must be
/// the first message (docs/channels.md).
async fn handle_messages(mut receiver: Receiver, sender: &Sender, started: &Notify) {
    let (answer, mut answers) = mpsc::channel(MAX_ANSWERS);
    let listen = async move {
        while let Some(heard) = receiver.receive().await {
            let said = match &heard {
                PeerMessage::Text(text) => {
                    serde_json::from_str(text).map_err(|error| format!("not understood: {error}"))
                }
                PeerMessage::Binary(_) => Err(String::from("messages are JSON in text frames")),
            };
            // An answer is dropped when the listener does not read.
            let _unread = match said {
                Ok(AudioClientMessage::Stop) => return,
                Ok(AudioClientMessage::Ping) => answer.try_send(Ok(())),
                Err(message) => answer.try_send(Err(message)),
            };
        }
    };
    let answering = async {
        while let Some(said) = answers.recv().await {
            let message = match &said {
                Ok(()) => AudioServerMessage::Pong,
                Err(message) => AudioServerMessage::Error { message },
            };
            if sender.json(&message).await.is_err() {
                return;
            }
        }
    };
    let mut listen = pin!(listen);
    tokio::select! {
        biased;
        () = started.notified() => {}
        () = &mut listen => return,
    }
    // Messages before a stop are answered.
    tokio::join!(listen, answering);
}

/// Sends the reason for which there is no sound.
async fn refuse(sender: &Sender, error: &Error) -> CloseReason {
    tracing::info!(error = format_args!("{error:#}"), "cannot stream audio");
    // A listener that has disconnected does not need the reason.
    let _gone = sender.json(&AudioServerMessage::Error { message: &error.message }).await;
    CloseReason::new(Channel::Audio.close_code(Failure::Failed), error.message.clone())
}

/// Queue of frames, limited to the newest [`MAX_WAITING`].
#[derive(Debug, Default)]
struct Queue {
    frames: Mutex<VecDeque<Bytes>>,
    news: Notify,
}

impl Queue {
    fn push(&self, frame: Bytes) {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if frames.len() == MAX_WAITING {
            frames.pop_front();
        }
        frames.push_back(frame);
        drop(frames);
        self.news.notify_one();
    }

    /// Returns the oldest frame; waits for one. Cancel-safe.
    async fn next(&self) -> Bytes {
        loop {
            let first = self.frames.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match first {
                Some(frame) => return frame,
                None => self.news.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_listener_gets_the_newest_frames() {
        let queue = Queue::default();
        for number in 0..120_u8 {
            queue.push(Bytes::from(vec![number]));
        }
        assert_eq!(queue.next().await, Bytes::from(vec![70]));
        for _ in 1..MAX_WAITING {
            queue.next().await;
        }
        assert!(tokio::time::timeout(Duration::from_millis(1), queue.next()).await.is_err());
    }
}
