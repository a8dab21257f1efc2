//! What is playing? The sound server tells of every stream that goes to a speaker, as it comes, pauses, goes on and
//! goes. One connection, which asks for nothing but that.

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

use super::keep::Watcher;
use crate::display::session_env_in;
use hotdesk_domain::event::Kind;
use hotdesk_http::feed::Feed;
use hotdesk_wire::event::{Data, Event};

/// How long the server may take to answer, or to read a question.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest message that is taken from the server: a list of streams of a desktop is a few kilobytes.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Most streams that are remembered; a desktop has a handful.
const MAX_STREAMS: usize = 1024;
/// Length of a cookie, which the server wants to see even where it lets in everybody (pulse/native protocol).
const COOKIE_BYTES: usize = 256;

/// Watches the sound server.
#[derive(Debug)]
pub(super) struct Audio {
    feed: Feed,
    session_dir: PathBuf,
    /// The streams that are playing; `None` until it was asked for the first time.
    playing: Option<BTreeSet<u32>>,
}

impl Audio {
    pub(super) fn new(feed: Feed, session_dir: PathBuf) -> Self {
        Self { feed, session_dir, playing: None }
    }

    fn tell(&self, data: Data) {
        self.feed.publish(Event::now(data));
    }

    /// Notes whether a stream plays, and tells it where that is news.
    fn note(&mut self, stream: u32, plays: bool) {
        let Some(playing) = &mut self.playing else { return };
        if plays && playing.len() < MAX_STREAMS && playing.insert(stream) {
            self.tell(Data::AudioStreamStart {});
        } else if !plays && playing.remove(&stream) {
            self.tell(Data::AudioStreamStop {});
        }
    }

    /// Watches until the connection ends.
    async fn listen(&mut self, begun: &(dyn Fn() + Send + Sync)) -> Result<(), String> {
        let mut server = Server::connect(&session_env_in(&self.session_dir)).await?;
        let list = server.list().await?;
        let now = list.into_iter().filter(|stream| !stream.corked).map(|stream| stream.index);
        if self.playing.is_none() {
            self.playing = Some(now.take(MAX_STREAMS).collect());
        } else {
            now.for_each(|stream| self.note(stream, true));
        }
        begun();
        // The streams that were asked about, by the question's number.
        let mut asked: HashMap<u32, u32> = HashMap::new();
        loop {
            let (number, command, mut rest) = server.read().await?;
            #[allow(clippy::wildcard_enum_match_arm)] // the server tells more than what was asked for
            match command {
                Command::SubscribeEvent(event)
                    if event.event_facility == SubscriptionEventFacility::SinkInput =>
                {
                    let Some(stream) = event.index else { continue };
                    match event.event_type {
                        SubscriptionEventType::Removed => self.note(stream, false),
                        // Whether it plays is only told on demand.
                        SubscriptionEventType::New | SubscriptionEventType::Changed => {
                            asked.insert(server.send(&Command::GetSinkInputInfo(stream)).await?, stream);
                        }
                    }
                }
                Command::Reply if asked.remove(&number).is_some() => {
                    let stream: SinkInputInfo = server.parse(&mut rest)?;
                    self.note(stream.index, !stream.corked);
                }
                // It has gone before the question came.
                Command::Error(_) => {
                    if let Some(stream) = asked.remove(&number) {
                        self.note(stream, false);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Watcher for Audio {
    const NAME: &'static str = "sound";
    const KINDS: &'static [Kind] = &[Kind::AudioStreamStart, Kind::AudioStreamStop];

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let ended = self.listen(begun).await;
        // What a server that has gone played is not heard any more; what the next one plays is new.
        for stream in self.playing.iter().flatten().copied().collect::<Vec<_>>() {
            self.note(stream, false);
        }
        self.playing.get_or_insert_default();
        ended.err().unwrap_or_default()
    }
}

/// Whether the session's sound server plays anything; none does that is not there or does not answer.
pub(crate) async fn plays(session: &[(String, String)]) -> bool {
    let asked = async { Server::connect(session).await?.list().await };
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(streams)) => streams.iter().any(|stream| !stream.corked),
        Ok(Err(_)) | Err(_) => false,
    }
}

/// A connection to the sound server.
struct Server {
    socket: UnixStream,
    version: u16,
    questions: u32,
}

impl Server {
    /// Connects to where the session says that it is, and asks to be told of streams.
    async fn connect(session: &[(String, String)]) -> Result<Self, String> {
        let variable = |wanted: &str| {
            let found = session.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
            found.or_else(|| std::env::var(wanted).ok())
        };
        let server = variable("PULSE_SERVER").ok_or("no PULSE_SERVER is known")?;
        let path = server.strip_prefix("unix:").unwrap_or(&server).to_owned();
        let cookie = match variable("PULSE_COOKIE") {
            Some(path) => tokio::fs::read(path).await.ok().filter(|cookie| cookie.len() == COOKIE_BYTES),
            None => None,
        };
        let cookie = cookie.unwrap_or_else(|| vec![0; COOKIE_BYTES]);
        let socket = UnixStream::connect(&path).await.map_err(|error| format!("{path}: {error}"))?;
        let mut server = Self { socket, version: protocol::MAX_VERSION, questions: 0 };
        let version = protocol::MAX_VERSION;
        let auth = AuthParams { version, supports_shm: false, supports_memfd: false, cookie };
        let auth: AuthReply = server.ask(&Command::Auth(auth)).await?;
        server.version = auth.version.min(protocol::MAX_VERSION);
        let mut props = Props::new();
        props.set(Prop::ApplicationName, c"hotdesk events");
        let _: SetClientNameReply = server.ask(&Command::SetClientName(props)).await?;
        server.send(&Command::Subscribe(SubscriptionMask::SINK_INPUT)).await?;
        Ok(server)
    }

    /// The streams that there are. What changes meanwhile is told later once more, so it may be passed over here.
    async fn list(&mut self) -> Result<SinkInputInfoList, String> {
        self.ask(&Command::GetSinkInputInfoList).await
    }

    /// Asks, and passes over what comes before the answer.
    async fn ask<T: CommandReply>(&mut self, command: &Command) -> Result<T, String> {
        let question = self.send(command).await?;
        let answer = async {
            loop {
                let (number, command, mut rest) = self.read().await?;
                #[allow(clippy::wildcard_enum_match_arm)] // what else comes is of no concern here
                match command {
                    Command::Reply if number == question => return self.parse(&mut rest),
                    Command::Error(error) if number == question => return Err(format!("refused: {error:?}")),
                    _ => {}
                }
            }
        };
        tokio::time::timeout(TIMEOUT, answer).await.map_err(|_| String::from("no answer in time"))?
    }

    /// Sends a question; its number.
    async fn send(&mut self, command: &Command) -> Result<u32, String> {
        let number = self.questions;
        self.questions = self.questions.wrapping_add(1);
        let mut bytes = Vec::new();
        protocol::write_command_message(&mut bytes, number, command, self.version).map_err(text)?;
        let sent = tokio::time::timeout(TIMEOUT, self.socket.write_all(&bytes)).await;
        sent.map_err(|_| String::from("the server does not read"))?.map_err(text)?;
        Ok(number)
    }

    /// The next message: its number, what it is and what follows.
    async fn read(&mut self) -> Result<(u32, Command, Cursor<Vec<u8>>), String> {
        let mut message = vec![0; protocol::DESCRIPTOR_SIZE];
        self.socket.read_exact(&mut message).await.map_err(text)?;
        let head = protocol::read_descriptor(&mut Cursor::new(&message)).map_err(text)?;
        let length = usize::try_from(head.length).ok().filter(|length| *length <= MAX_MESSAGE);
        let length = length.ok_or("a message is too long")?;
        message.resize(protocol::DESCRIPTOR_SIZE + length, 0);
        // What has begun to come must come whole.
        let body = self.socket.read_exact(&mut message[protocol::DESCRIPTOR_SIZE..]);
        tokio::time::timeout(TIMEOUT, body).await.map_err(|_| "a message broke off")?.map_err(text)?;
        let mut message = Cursor::new(message);
        let (number, command) = protocol::read_command_message(&mut message, self.version).map_err(text)?;
        Ok((number, command, message))
    }

    /// What follows the head of an answer.
    fn parse<T: CommandReply>(&self, rest: &mut Cursor<Vec<u8>>) -> Result<T, String> {
        protocol::TagStructReader::new(rest, self.version).read().map_err(text)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
