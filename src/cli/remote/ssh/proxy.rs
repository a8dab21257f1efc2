//! `hotdesk ssh-proxy`: standard input and output, connected with the SSH server of a computer.

use std::process::ExitCode;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::super::stdio::{self, OutputStream};
use crate::client::socket::{SILENCE_TIMEOUT, Socket};
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use hotdesk_domain::desktop::channel::NORMAL;

/// Messages that wait for standard output: at most 16 MiB. OpenSSH lets 2 MiB of each channel be under way. The
/// server closes a socket that is not read for 10 s, and a stopped client reads nothing for longer.
const UNWRITTEN_MESSAGES: usize = 256;

/// Relays bytes until one side ends.
///
/// # Errors
/// When the server refuses the request or is unreachable, or closes the connection for a reason.
pub async fn run(computer: &str, session: &Session) -> Outcome {
    let id = resolve::computer(&session.api, computer).await?;
    let socket = session.api.channel_by_key(session.api.url(&["computers", &id, "ssh"])).await?;
    let (sink, stream) = socket.split();
    tokio::select! {
        ended = receive(stream) => ended?,
        ended = send(sink) => ended?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes what the computer sends, until the server closes the socket.
async fn receive(mut stream: SplitStream<Socket>) -> Outcome<()> {
    let (sender, mut waiting) = mpsc::channel::<Bytes>(UNWRITTEN_MESSAGES);
    let receiving = async move {
        loop {
            let message = tokio::time::timeout(SILENCE_TIMEOUT, stream.next()).await;
            let message = message.map_err(|_| "the connection is silent: is the server still reachable?")?;
            let Some(message) = message else { return Err("the server ended the connection".into()) };
            match message.map_err(|error| format!("the connection broke: {error}"))? {
                // The channel lives as long as this future.
                Message::Binary(bytes) => drop(sender.send(bytes).await),
                Message::Close(Some(frame)) if u16::from(frame.code) != NORMAL => {
                    let reason: String = frame.reason.chars().filter(|c| !c.is_control()).collect();
                    return Err(format!("the server closed the connection: {reason} ({})", frame.code).into());
                }
                Message::Close(_) => return Ok(()),
                Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    };
    let writing = async {
        while let Some(bytes) = waiting.recv().await {
            let written = stdio::write(OutputStream::Out, bytes).await;
            written.map_err(|error| format!("cannot write to standard output: {error}"))?;
        }
        Ok(())
    };
    // What was received is written also when the connection breaks.
    let (ended, written): (Outcome<()>, Outcome<()>) = tokio::join!(receiving, writing);
    ended.and(written)
}

/// Sends standard input to its end, then closes the socket: the client of OpenSSH has ended.
async fn send(mut sink: SplitSink<Socket, Message>) -> Outcome<()> {
    let mut input = stdio::input();
    while let Some(chunk) = input.recv().await {
        let chunk = chunk.map_err(|error| format!("cannot read standard input: {error}"))?;
        sink.send(Message::Binary(chunk)).await.map_err(|error| format!("the connection broke: {error}"))?;
    }
    // A server that is gone needs no close.
    let _gone = sink.send(Message::Close(None)).await;
    Ok(())
}
