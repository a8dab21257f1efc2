//! How is PulseAudio asked to record? In its native protocol, which the `pulseaudio` crate encodes, over a socket of the
//! runtime's. The crate's own client is not used: it has a thread per connection, clears a megabyte before every read,
//! and waits for a server that does not answer.

use std::ffi::{CStr, CString};
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use pulseaudio::protocol::{self, Command, CommandReply, Prop, Props};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::server::Place;
use hotdesk_domain::audio::Form;
use hotdesk_domain::error::{Error, Result};

/// What is recorded: what the speaker that programs play to by default would sound. It is the session's virtual one,
/// unless its user has chosen another.
const SOURCE: &CStr = c"@DEFAULT_MONITOR@";
/// How long the server may take to begin a recording.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of a cookie. The protocol wants as many even of clients that any cookie lets in.
const COOKIE: usize = 256;
/// Longest message. Sound comes in fragments of 4 KB at most; an answer is a few hundred bytes.
const MAX_MESSAGE: usize = 256 * 1024;
/// Frames that the server keeps while this process is busy: a second.
const MAX_KEPT: usize = 50;
/// The channel of messages that are no sound.
const COMMANDS: u32 = u32::MAX;

/// A recording under way; it ends when dropped.
#[derive(Debug)]
pub struct Recording {
    server: Server,
    /// The channel of its sound.
    channel: u32,
}

impl Recording {
    /// Begins to record.
    ///
    /// # Errors
    /// `Unavailable` when there is no server, or it refuses or does not answer.
    pub async fn begin(place: &Place, form: Form) -> Result<Self> {
        tokio::time::timeout(BEGIN_TIMEOUT, Self::ask(place, form))
            .await
            .map_err(|_| Error::unavailable("the sound server does not answer"))?
    }

    async fn ask(place: &Place, form: Form) -> Result<Self> {
        let stream = UnixStream::connect(&place.socket).await.map_err(no_server)?;
        let mut server = Server { stream, version: protocol::MAX_VERSION, asked: 0, message: Vec::new() };
        let cookie = cookie(place.cookie.as_deref()).await;
        let version = server.version;
        let auth = protocol::AuthParams { version, supports_shm: false, supports_memfd: false, cookie };
        let met: protocol::AuthReply = server.ask(&Command::Auth(auth)).await?;
        server.version = met.version.min(protocol::MAX_VERSION);
        let mut name = Props::new();
        name.set(Prop::ApplicationName, c"hotdesk");
        let _: protocol::SetClientNameReply = server.ask(&Command::SetClientName(name)).await?;
        let begun: protocol::CreateRecordStreamReply =
            server.ask(&Command::CreateRecordStream(stream_of(form))).await?;
        Ok(Self { server, channel: begun.channel })
    }

    /// The next piece of sound, however long.
    ///
    /// # Errors
    /// `Unavailable` when the server is gone or its speaker is.
    pub async fn next(&mut self) -> Result<&[u8]> {
        loop {
            let channel = self.server.read().await?;
            if channel == self.channel {
                return Ok(&self.server.message[protocol::DESCRIPTOR_SIZE..]);
            }
            let body = &self.server.message[protocol::DESCRIPTOR_SIZE..];
            let command = Command::read_tag_prefixed(&mut Cursor::new(body), self.server.version);
            // What else it tells, of streams that were moved or suspended, shows in the sound.
            if matches!(command, Ok((_, Command::RecordStreamKilled(killed))) if killed == self.channel) {
                return Err(Error::unavailable("the speaker is gone"));
            }
        }
    }
}

/// What is asked for: the sound in fragments of a frame. Unset, they would be two seconds long.
fn stream_of(form: Form) -> protocol::RecordStreamParams {
    let frame = form.frame();
    let bytes = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let map = if form.channels == 1 { protocol::ChannelMap::mono() } else { protocol::ChannelMap::stereo() };
    let mut props = Props::new();
    props.set(Prop::MediaName, c"what the computer plays");
    protocol::RecordStreamParams {
        sample_spec: protocol::SampleSpec {
            format: protocol::SampleFormat::S16Le,
            channels: form.channels,
            sample_rate: form.rate,
        },
        channel_map: map,
        source_name: Some(CString::from(SOURCE)),
        buffer_attr: protocol::stream::BufferAttr {
            max_length: bytes(frame * MAX_KEPT),
            fragment_size: bytes(frame),
            ..Default::default()
        },
        flags: protocol::stream::StreamFlags { adjust_latency: true, ..Default::default() },
        props,
        ..Default::default()
    }
}

/// The cookie of a file; one that cannot be read is left to the server to refuse.
async fn cookie(path: Option<&Path>) -> Vec<u8> {
    let mut cookie = Vec::with_capacity(COOKIE);
    if let Some(path) = path
        && let Ok(file) = tokio::fs::File::open(path).await
        && let Err(error) = file.take(COOKIE as u64).read_to_end(&mut cookie).await
    {
        tracing::debug!(%error, "the sound server's cookie cannot be read");
    }
    cookie.resize(COOKIE, 0);
    cookie
}

/// A connection to the server.
#[derive(Debug)]
struct Server {
    stream: UnixStream,
    version: u16,
    asked: u32,
    /// The message that was read last, with its descriptor.
    message: Vec<u8>,
}

impl Server {
    /// Sends a command and waits for its answer.
    async fn ask<R: CommandReply>(&mut self, command: &Command) -> Result<R> {
        self.asked += 1;
        let mut message = Vec::new();
        protocol::encode_command_message(&mut message, self.asked, command, self.version).map_err(strange)?;
        self.stream.write_all(&message).await.map_err(no_server)?;
        loop {
            if self.read().await? != COMMANDS {
                continue;
            }
            match protocol::read_reply_message(&mut Cursor::new(&self.message), self.version) {
                Ok((asked, answer)) if asked == self.asked => return Ok(answer),
                // News, which nobody has asked for.
                Ok(_) | Err(protocol::ProtocolError::UnexpectedCommand(_)) => {}
                Err(error) => return Err(strange(error)),
            }
        }
    }

    /// Reads one message; its channel.
    async fn read(&mut self) -> Result<u32> {
        self.message.resize(protocol::DESCRIPTOR_SIZE, 0);
        self.stream.read_exact(&mut self.message).await.map_err(no_server)?;
        let about = protocol::read_descriptor(&mut Cursor::new(&self.message)).map_err(strange)?;
        let length = about.length as usize;
        if length > MAX_MESSAGE {
            return Err(strange(format!("a message of {length} bytes")));
        }
        self.message.resize(protocol::DESCRIPTOR_SIZE + length, 0);
        self.stream.read_exact(&mut self.message[protocol::DESCRIPTOR_SIZE..]).await.map_err(no_server)?;
        Ok(about.channel)
    }
}

fn no_server(error: std::io::Error) -> Error {
    Error::unavailable("the sound server cannot be reached").context(error)
}

fn strange(error: impl std::fmt::Display) -> Error {
    Error::unavailable("the sound server refuses").context(error)
}
