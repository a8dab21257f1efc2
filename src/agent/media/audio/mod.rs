//! What does the computer play? The monitor of its virtual speaker, for whoever listens (wire.md 10.5).
//!
//! Each listener has a connection to PulseAudio of its own, which resamples for it; without listeners there is none.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;

mod pulse;
mod server;

use super::desktop::Desktop;
use hotdesk_base::wait;
use hotdesk_domain::audio::Form;
use hotdesk_domain::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::socket::{Closing, Gone, Heard, Receiver, Sender};
use hotdesk_wire::audio::{Said, Told};
use pulse::Recording;
use tokio_util::sync::CancellationToken;

/// Listeners at once: PulseAudio serves 64 clients, and the computer's programs are some of them.
pub const MAX_LISTENERS: usize = 16;
/// Frames that wait for a slow listener: a second. Then the oldest are dropped, so that what is heard is never older.
const MAX_WAITING: usize = 50;
/// Answers that wait for a listener to read them; what it leaves unread beyond that it does not miss.
const MAX_ANSWERS: usize = 64;
/// How long PulseAudio may take to appear, or to be started again by the session after its end.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// A speaker that gives nothing for this long stands still, and silence is made up for it.
const STILL: Duration = Duration::from_millis(500);

/// The sound of a computer.
#[derive(Clone)]
pub struct Audio {
    desktop: Arc<dyn Desktop>,
    slots: Arc<Semaphore>,
}

/// What a listener asks for, as its query has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Samples a second.
    pub sample_rate: Option<&'a str>,
    /// Channels.
    pub channels: Option<&'a str>,
}

impl Audio {
    /// The session's environment tells where its PulseAudio is.
    pub fn new(desktop: Arc<dyn Desktop>) -> Self {
        Self { desktop, slots: Arc::new(Semaphore::new(MAX_LISTENERS)) }
    }

    /// Sends what is played until the listener stops or leaves, the sound server is gone for good, or `stop` is
    /// cancelled. What cannot be is told in an `error`, then closed with the channel's code for it.
    pub async fn listen(
        &self,
        asked: Asked<'_>,
        sender: Sender,
        receiver: Receiver,
        stop: CancellationToken,
    ) -> Closing {
        let Ok(_slot) = self.slots.try_acquire() else {
            let message = format!("{MAX_LISTENERS} listeners are there already");
            return refuse(&sender, &Error::unavailable(message)).await;
        };
        let form = match Form::parse(asked.sample_rate, asked.channels) {
            Ok(form) => form,
            Err(error) => return refuse(&sender, &error).await,
        };
        let queue = Queue::default();
        let started = Notify::new();
        let ended = tokio::select! {
            ended = self.play(form, &queue, &sender, &started) => ended,
            () = hear(receiver, &sender, &started) => Ok(()),
            () = stop.cancelled() => return Closing::new(GOING_AWAY, "the computer is stopping"),
        };
        match ended {
            Ok(()) => Closing::new(NORMAL, ""),
            Err(error) => refuse(&sender, &error).await,
        }
    }

    /// Records and sends until the listener is gone.
    ///
    /// # Errors
    /// `Unavailable` when there is no sound server, or none any more.
    async fn play(&self, form: Form, queue: &Queue, sender: &Sender, started: &Notify) -> Result<()> {
        let mut recording = self.record(form).await?;
        let first = Told::Started { sample_rate: form.rate, channels: form.channels };
        if sender.json(&first).await.is_err() {
            return Ok(());
        }
        started.notify_one();
        let record = async {
            loop {
                let lost = fill(&mut recording, form, queue).await;
                tracing::info!(error = %lost, "the recording ended");
                match self.record(form).await {
                    Ok(again) => recording = again,
                    Err(error) => return error,
                }
            }
        };
        tokio::select! {
            error = record => Err(error),
            Gone = send(form, queue, sender) => Ok(()),
        }
    }

    /// Begins a recording, waiting for a sound server that is on its way up.
    async fn record(&self, form: Form) -> Result<Recording> {
        let place = server::place(&*self.desktop)?;
        let begun = wait::until(SERVER_TIMEOUT, || async { Recording::begin(&place, form).await.ok() }).await;
        match begun {
            Some(recording) => Ok(recording),
            // Once more, to be told why not.
            None => Recording::begin(&place, form).await,
        }
    }
}

/// Puts what is recorded into the queue, in frames, until the recording ends; why it did.
async fn fill(recording: &mut Recording, form: Form, queue: &Queue) -> Error {
    let mut rest = Vec::new();
    loop {
        match recording.next().await {
            Ok(sound) => rest.extend_from_slice(sound),
            Err(error) => return error,
        }
        let whole = rest.len() - rest.len() % form.frame();
        for frame in rest[..whole].chunks(form.frame()) {
            queue.push(Bytes::copy_from_slice(frame));
        }
        rest.drain(..whole);
    }
}

/// Sends frame after frame until the listener is gone. Where the speaker stands still, because somebody suspended it or
/// its server is being started again, silence takes its place in time.
async fn send(form: Form, queue: &Queue, sender: &Sender) -> Gone {
    let silence = Bytes::from(vec![0; form.frame()]);
    // So that a listener hears at once that it is heard: a speaker that was suspended takes a moment to come.
    let mut still = true;
    // Up to which moment there is sound.
    let mut told = Instant::now();
    loop {
        let patience = if still { form.frame_time() } else { STILL };
        let frame = match tokio::time::timeout_at(told + patience, queue.next()).await {
            Ok(frame) => {
                still = false;
                told = Instant::now();
                frame
            }
            Err(_) => {
                still = true;
                told += form.frame_time();
                silence.clone()
            }
        };
        if let Err(gone) = sender.binary(frame).await {
            return gone;
        }
    }
}

/// Hears the listener out, until it stops or is gone. Nothing is answered before it was told that it is `started`, which is
/// the first that it is told (wire.md 10.5).
async fn hear(mut receiver: Receiver, sender: &Sender, started: &Notify) {
    let (answer, mut answers) = mpsc::channel(MAX_ANSWERS);
    let listen = async move {
        while let Some(heard) = receiver.receive().await {
            let said = match &heard {
                Heard::Text(text) => {
                    serde_json::from_str(text).map_err(|error| format!("not understood: {error}"))
                }
                Heard::Binary(_) => Err(String::from("messages are JSON in text frames")),
            };
            // An answer is dropped when the listener reads nothing.
            let _unread = match said {
                Ok(Said::Stop) => return,
                Ok(Said::Ping) => answer.try_send(Ok(())),
                Err(message) => answer.try_send(Err(message)),
            };
        }
    };
    let speak = async {
        while let Some(said) = answers.recv().await {
            let told = match &said {
                Ok(()) => Told::Pong,
                Err(message) => Told::Error { message },
            };
            if sender.json(&told).await.is_err() {
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
    // What was said before a stop is answered.
    tokio::join!(listen, speak);
}

/// Tells why nothing is heard.
async fn refuse(sender: &Sender, error: &Error) -> Closing {
    tracing::info!(%error, "no sound");
    // A listener that is gone already misses nothing.
    let _gone = sender.json(&Told::Error { message: &error.message }).await;
    Closing::new(Channel::Audio.close_code(Failure::Failed), error.message.clone())
}

/// The frames that wait to be sent, the newest [`MAX_WAITING`] of them.
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

    /// The oldest frame; waits for one. Cancel-safe.
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
    async fn the_newest_frames_wait_for_a_slow_listener() {
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
