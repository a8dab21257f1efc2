//! Recording from PulseAudio in its native protocol, which the `pulseaudio` crate encodes, over a tokio
//! socket.
//!
//! The crate's own client is not used: it has a thread per connection, clears a megabyte before every read,
//! and has no timeouts.

use std::ffi::{CStr, CString};
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use pulseaudio::protocol::{self, Command, CommandReply, Prop, Props};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::server::ServerAddress;
use hotdesk_domain::desktop::audio::AudioFormat;
use hotdesk_domain::error::{Error, Result};

/// Monitor of the default speaker. That is the session's virtual one, unless the user has chosen another.
const SOURCE: &CStr = c"@DEFAULT_MONITOR@";
/// How long the server may take to start a recording.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of a cookie. The protocol requires all of them even of clients that any cookie admits.
const COOKIE: usize = 256;
/// Largest message in bytes. Sound comes in fragments of 4 KB at most; an answer is a few hundred bytes.
const MAX_MESSAGE: usize = 256 * 1024;
/// Frames that the server buffers while this process is busy: one second.
const MAX_BUFFERED: usize = 50;
/// Channel of messages other than sound.
const COMMANDS: u32 = u32::MAX;

/// A running recording; it ends when dropped.
#[derive(Debug)]
pub struct AudioCapture {
    server: PulseConnection,
    /// Channel of its sound.
    channel: u32,
}

impl AudioCapture {
    /// Starts a recording.
    ///
    /// # Errors
    /// `Unavailable` when there is no server, or it refuses or does not answer.
    pub async fn begin(address: &ServerAddress, format: AudioFormat) -> Result<Self> {
        tokio::time::timeout(BEGIN_TIMEOUT, Self::connect(address, format))
            .await
            .map_err(|_| Error::unavailable("the sound server does not answer"))?
    }

    async fn connect(address: &ServerAddress, format: AudioFormat) -> Result<Self> {
        let stream = UnixStream::connect(&address.socket).await.map_err(no_server)?;
        let mut server =
            PulseConnection { stream, version: protocol::MAX_VERSION, sequence: 0, message: Vec::new() };
        let cookie = cookie(address.cookie.as_deref()).await;
        let version = server.version;
        let auth = protocol::AuthParams { version, supports_shm: false, supports_memfd: false, cookie };
        let met: protocol::AuthReply = server.request(&Command::Auth(auth)).await?;
        server.version = met.version.min(protocol::MAX_VERSION);
        let mut name = Props::new();
        name.set(Prop::ApplicationName, c"hotdesk");
        let _: protocol::SetClientNameReply = server.request(&Command::SetClientName(name)).await?;
        let begun: protocol::CreateRecordStreamReply =
            server.request(&Command::CreateRecordStream(stream_of(format))).await?;
        Ok(Self { server, channel: begun.channel })
    }

    /// Returns the next bytes of sound, of any number.
    ///
    /// # Errors
    /// `Unavailable` when the server or its speaker has ended.
    pub async fn next(&mut self) -> Result<&[u8]> {
        loop {
            let channel = self.server.read().await?;
            if channel == self.channel {
                return Ok(&self.server.message[protocol::DESCRIPTOR_SIZE..]);
            }
            let body = &self.server.message[protocol::DESCRIPTOR_SIZE..];
            let command = Command::read_tag_prefixed(&mut Cursor::new(body), self.server.version);
            // Messages about moved or suspended streams need no reaction.
            if matches!(command, Ok((_, Command::RecordStreamKilled(killed))) if killed == self.channel) {
                return Err(Error::unavailable("the speaker of the sound server was removed"));
            }
        }
    }
}

/// Parameters of the recording: fragments of one frame. By default they would be two seconds long.
fn stream_of(format: AudioFormat) -> protocol::RecordStreamParams {
    let frame = format.frame();
    let bytes = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let map =
        if format.channels == 1 { protocol::ChannelMap::mono() } else { protocol::ChannelMap::stereo() };
    let mut props = Props::new();
    props.set(Prop::MediaName, c"what the computer plays");
    protocol::RecordStreamParams {
        sample_spec: protocol::SampleSpec {
            format: protocol::SampleFormat::S16Le,
            channels: format.channels,
            sample_rate: format.rate,
        },
        channel_map: map,
        source_name: Some(CString::from(SOURCE)),
        buffer_attr: protocol::stream::BufferAttr {
            max_length: bytes(frame * MAX_BUFFERED),
            fragment_size: bytes(frame),
            ..Default::default()
        },
        flags: protocol::stream::StreamFlags { adjust_latency: true, ..Default::default() },
        props,
        ..Default::default()
    }
}

/// Reads the cookie of a file; with an unreadable one the server refuses.
async fn cookie(path: Option<&Path>) -> Vec<u8> {
    let mut cookie = Vec::with_capacity(COOKIE);
    if let Some(path) = path
        && let Ok(file) = tokio::fs::File::open(path).await
        && let Err(error) = file.take(COOKIE as u64).read_to_end(&mut cookie).await
    {
        tracing::debug!(%error, "cannot read the sound server's cookie");
    }
    cookie.resize(COOKIE, 0);
    cookie
}

/// Connection to the server.
#[derive(Debug)]
struct PulseConnection {
    stream: UnixStream,
    version: u16,
    sequence: u32,
    /// The last message, with its descriptor.
    message: Vec<u8>,
}

impl PulseConnection {
    /// Sends a command and waits for its answer.
    async fn request<R: CommandReply>(&mut self, command: &Command) -> Result<R> {
        self.sequence += 1;
        let mut message = Vec::new();
        protocol::encode_command_message(&mut message, self.sequence, command, self.version)
            .map_err(protocol_error)?;
        self.stream.write_all(&message).await.map_err(no_server)?;
        loop {
            if self.read().await? != COMMANDS {
                continue;
            }
            match protocol::read_reply_message(&mut Cursor::new(&self.message), self.version) {
                Ok((sequence, answer)) if sequence == self.sequence => return Ok(answer),
                // An event that was not requested.
                Ok(_) | Err(protocol::ProtocolError::UnexpectedCommand(_)) => {}
                Err(error) => return Err(protocol_error(error)),
            }
        }
    }

    /// Reads one message; returns its channel.
    async fn read(&mut self) -> Result<u32> {
        self.message.resize(protocol::DESCRIPTOR_SIZE, 0);
        self.stream.read_exact(&mut self.message).await.map_err(no_server)?;
        let about = protocol::read_descriptor(&mut Cursor::new(&self.message)).map_err(protocol_error)?;
        let length = about.length as usize;
        if length > MAX_MESSAGE {
            return Err(protocol_error(format!("a message of {length} bytes")));
        }
        self.message.resize(protocol::DESCRIPTOR_SIZE + length, 0);
        self.stream.read_exact(&mut self.message[protocol::DESCRIPTOR_SIZE..]).await.map_err(no_server)?;
        Ok(about.channel)
    }
}

fn no_server(error: std::io::Error) -> Error {
    Error::unavailable("the sound server cannot be reached").context(error)
}

fn protocol_error(error: impl std::fmt::Display) -> Error {
    Error::unavailable("the sound server refused the recording").context(error)
}
