//! Watcher of audio streams: start and stop of playback, reported by the PulseAudio server.

use std::collections::{BTreeSet, HashMap};
use std::io::Cursor;
use std::path::PathBuf;
use std::time::Duration;

use pulseaudio::protocol::{
    self, AuthParams, AuthReply, Command, CommandReply, Prop, Props, SetClientNameReply, SinkInputInfo,
    SinkInputInfoList, SubscriptionEventFacility, SubscriptionEventType, SubscriptionMask,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::watcher::Watcher;
use crate::display::session_env_in;
use hotdesk_base::step_error::StepError;
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::event::{Event, EventData};

/// Timeout for the server to answer or to read a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Largest message of the server in bytes; a desktop's list of streams is a few kilobytes.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Most streams that are tracked; a desktop has a handful.
const MAX_STREAMS: usize = 1024;
/// Length of a cookie, which the server requires even when it admits every client (pulse/native protocol).
const COOKIE_BYTES: usize = 256;

/// Watcher of the sound server.
#[derive(Debug)]
pub(super) struct AudioWatcher {
    feed: Feed,
    session_dir: PathBuf,
    /// Ids of the streams that are playing; `None` before the first list.
    playing: Option<BTreeSet<u32>>,
}

impl AudioWatcher {
    pub(super) fn new(feed: Feed, session_dir: PathBuf) -> Self {
        Self { feed, session_dir, playing: None }
    }

    fn publish(&self, data: EventData) {
        self.feed.publish(Event::now(data));
    }

    /// Records whether a stream plays, and publishes a change.
    fn set_playing(&mut self, stream: u32, plays: bool) {
        let Some(playing) = &mut self.playing else { return };
        if plays && playing.len() < MAX_STREAMS && playing.insert(stream) {
            self.publish(EventData::AudioStreamStart {});
        } else if !plays && playing.remove(&stream) {
            self.publish(EventData::AudioStreamStop {});
        }
    }

    /// Watches until the connection ends.
    async fn listen(&mut self, begun: &(dyn Fn() + Send + Sync)) -> Result<(), StepError> {
        let mut server = EventConnection::connect(&session_env_in(&self.session_dir)).await?;
        let list = server.list().await?;
        let now = list.into_iter().filter(|stream| !stream.corked).map(|stream| stream.index);
        if self.playing.is_none() {
            self.playing = Some(now.take(MAX_STREAMS).collect());
        } else {
            now.for_each(|stream| self.set_playing(stream, true));
        }
        begun();
        // Streams of pending requests, by the request's number.
        let mut pending: HashMap<u32, u32> = HashMap::new();
        loop {
            let (number, command, mut fields) = server.read().await?;
            #[allow(clippy::wildcard_enum_match_arm)] // other messages need no reaction
            match command {
                Command::SubscribeEvent(event)
                    if event.event_facility == SubscriptionEventFacility::SinkInput =>
                {
                    let Some(stream) = event.index else { continue };
                    match event.event_type {
                        SubscriptionEventType::Removed => self.set_playing(stream, false),
                        // The event does not contain whether the stream plays.
                        SubscriptionEventType::New | SubscriptionEventType::Changed => {
                            pending.insert(server.send(&Command::GetSinkInputInfo(stream)).await?, stream);
                        }
                    }
                }
                Command::Reply if pending.remove(&number).is_some() => {
                    let stream: SinkInputInfo = server.parse(&mut fields)?;
                    self.set_playing(stream.index, !stream.corked);
                }
                // The stream has ended meanwhile.
                Command::Error(_) => {
                    if let Some(stream) = pending.remove(&number) {
                        self.set_playing(stream, false);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Watcher for AudioWatcher {
    const NAME: &'static str = "sound";
    const KINDS: &'static [EventKind] = &[EventKind::AudioStreamStart, EventKind::AudioStreamStop];

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let ended = self.listen(begun).await;
        // Streams of an ended server have stopped; those of the next one are new.
        for stream in self.playing.iter().flatten().copied().collect::<Vec<_>>() {
            self.set_playing(stream, false);
        }
        self.playing.get_or_insert_default();
        ended.err().map(String::from).unwrap_or_default()
    }
}

/// Whether the session's sound server plays anything; false when there is none or it does not answer.
pub(crate) async fn is_playing(session: &[(String, String)]) -> bool {
    let streams = async { EventConnection::connect(session).await?.list().await };
    match tokio::time::timeout(TIMEOUT, streams).await {
        Ok(Ok(streams)) => streams.iter().any(|stream| !stream.corked),
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Connection to the sound server.
struct EventConnection {
    socket: UnixStream,
    version: u16,
    requests: u32,
}

impl EventConnection {
    /// Connects to the session's sound server and subscribes to stream events.
    async fn connect(session: &[(String, String)]) -> Result<Self, StepError> {
        let variable = |wanted: &str| {
            let found = session.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
            found.or_else(|| std::env::var(wanted).ok())
        };
        let server = variable("PULSE_SERVER").ok_or_else(|| StepError::new("PULSE_SERVER is not set"))?;
        let path = server.strip_prefix("unix:").unwrap_or(&server).to_owned();
        let cookie = match variable("PULSE_COOKIE") {
            Some(path) => tokio::fs::read(path).await.ok().filter(|cookie| cookie.len() == COOKIE_BYTES),
            None => None,
        };
        let cookie = cookie.unwrap_or_else(|| vec![0; COOKIE_BYTES]);
        let socket = UnixStream::connect(&path).await.map_err(StepError::at(path))?;
        let mut server = Self { socket, version: protocol::MAX_VERSION, requests: 0 };
        let version = protocol::MAX_VERSION;
        let auth = AuthParams { version, supports_shm: false, supports_memfd: false, cookie };
        let auth: AuthReply = server.request(&Command::Auth(auth)).await?;
        server.version = auth.version.min(protocol::MAX_VERSION);
        let mut props = Props::new();
        props.set(Prop::ApplicationName, c"hotdesk events");
        let _: SetClientNameReply = server.request(&Command::SetClientName(props)).await?;
        server.send(&Command::Subscribe(SubscriptionMask::SINK_INPUT)).await?;
        Ok(server)
    }

    /// Lists the streams. Events that arrive meanwhile are dropped, because the server repeats the state of a
    /// stream later.
    async fn list(&mut self) -> Result<SinkInputInfoList, StepError> {
        self.request(&Command::GetSinkInputInfoList).await
    }

    /// Sends a request and waits for its answer; drops other messages.
    async fn request<T: CommandReply>(&mut self, command: &Command) -> Result<T, StepError> {
        let request = self.send(command).await?;
        let answer = async {
            loop {
                let (number, command, mut fields) = self.read().await?;
                #[allow(clippy::wildcard_enum_match_arm)] // other messages need no reaction
                match command {
                    Command::Reply if number == request => return self.parse(&mut fields),
                    Command::Error(error) if number == request => {
                        return Err(StepError::new(format!("refused: {error:?}")));
                    }
                    _ => {}
                }
            }
        };
        tokio::time::timeout(TIMEOUT, answer)
            .await
            .map_err(|_| StepError::new("the sound server did not answer in time"))?
    }

    /// Sends a request; returns its number.
    async fn send(&mut self, command: &Command) -> Result<u32, StepError> {
        let number = self.requests;
        self.requests = self.requests.wrapping_add(1);
        let mut bytes = Vec::new();
        protocol::write_command_message(&mut bytes, number, command, self.version)
            .map_err(StepError::at("request to the sound server"))?;
        let sent = tokio::time::timeout(TIMEOUT, self.socket.write_all(&bytes)).await;
        sent.map_err(|_| StepError::new("the sound server did not read a request in time"))?
            .map_err(StepError::at("request to the sound server"))?;
        Ok(number)
    }

    /// Reads the next message: its number, its command and a reader of its fields.
    async fn read(&mut self) -> Result<(u32, Command, Cursor<Vec<u8>>), StepError> {
        let mut message = vec![0; protocol::DESCRIPTOR_SIZE];
        self.socket.read_exact(&mut message).await.map_err(StepError::at("answer of the sound server"))?;
        let head = protocol::read_descriptor(&mut Cursor::new(&message))
            .map_err(StepError::at("answer of the sound server"))?;
        let length = usize::try_from(head.length).ok().filter(|length| *length <= MAX_MESSAGE);
        let length = length.ok_or_else(|| StepError::new("the sound server sent a message above 1 MiB"))?;
        message.resize(protocol::DESCRIPTOR_SIZE + length, 0);
        // A message that has started must arrive completely.
        let body = self.socket.read_exact(&mut message[protocol::DESCRIPTOR_SIZE..]);
        tokio::time::timeout(TIMEOUT, body)
            .await
            .map_err(|_| StepError::new("the sound server sent an incomplete message"))?
            .map_err(StepError::at("answer of the sound server"))?;
        let mut message = Cursor::new(message);
        let (number, command) = protocol::read_command_message(&mut message, self.version)
            .map_err(StepError::at("answer of the sound server"))?;
        Ok((number, command, message))
    }

    /// Parses the fields of an answer.
    fn parse<T: CommandReply>(&self, fields: &mut Cursor<Vec<u8>>) -> Result<T, StepError> {
        protocol::TagStructReader::new(fields, self.version)
            .read()
            .map_err(StepError::at("answer of the sound server"))
    }
}
