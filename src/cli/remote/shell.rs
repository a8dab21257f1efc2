//! `hotdesk shell`: an interactive shell on a computer, like `ssh COMPUTER`.

use std::io::IsTerminal;
use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use reqwest::{Method, Upgraded};
use serde::Deserialize;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::stdio::{self, OutputStream};
use super::{process, terminal};
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::interrupts::Interrupts;
use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use hotdesk_agent::exec::terminal::utf8::Utf8Decoder;
use hotdesk_wire::computer::VncPassword;
use hotdesk_wire::programs::process::StartProcess;
use hotdesk_wire::programs::terminal::TerminalClientMessage;

/// Messages that wait for the terminal: at most 8 MiB. The server closes a socket that is not read for 10 s, and people
/// stop the output for longer.
const UNWRITTEN_MESSAGES: usize = 256;

/// `hotdesk shell`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// No pseudo-terminal: the shell reads commands from standard input. The default when standard input is no terminal.
    #[arg(short = 'T', long)]
    no_terminal: bool,
}

/// Message of the terminal channel.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ServerMessage {
    Output {
        data: String,
    },
    Error {
        message: String,
    },
    Exit {
        code: i32,
    },
    #[serde(other)]
    Other,
}

/// Runs a login shell and returns its exit code.
///
/// # Errors
/// When the computer does not run, the server refuses the request or is unreachable, or the connection ends before the
/// shell.
pub async fn run(options: Options, session: &Session) -> Outcome {
    let id = resolve::computer(&session.api, &options.computer).await?;
    if options.no_terminal || !std::io::stdin().is_terminal() {
        let argv = ["/bin/bash", "--login"].map(str::to_owned).to_vec();
        let stdin = Some("pipe".to_owned());
        return process::run(
            session,
            &id,
            StartProcess { argv: Some(argv), stdin, ..StartProcess::default() },
            None,
        )
        .await;
    }
    // A socket does not wake a suspended computer; an action does.
    let wait = ["computers", &id, "wait"];
    let _awake = session.api.call(Method::POST, &wait, Some(&json!({"seconds": 0})), REQUEST_TIMEOUT).await?;
    let vnc: VncPassword =
        session.api.get(&["computers", &id, "vnc-password"], &[], REQUEST_TIMEOUT).await?.decode()?;
    let mut url = session.api.url(&["desktops", &id, "ws", "terminal"]);
    let (cols, rows) = terminal::size();
    url.set_query(Some(&format!("cols={cols}&rows={rows}")));
    let mut interrupts = Interrupts::receive()?;
    let channel = session.api.channel(url, &vnc.password).await?;
    let raw = terminal::RawMode::enter()?;
    let (sink, stream) = channel.split();
    let ended = tokio::select! {
        ended = show(stream) => ended,
        failure = send(sink) => failure,
        code = interrupts.next() => Ok(i32::from(code)),
    };
    drop(raw);
    let code = u8::try_from(ended?);
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Shows the output until the shell ends; returns its exit code.
async fn show(mut stream: SplitStream<WebSocketStream<Upgraded>>) -> Outcome<i32> {
    let (sender, mut waiting) = mpsc::channel::<Bytes>(UNWRITTEN_MESSAGES);
    let receiving = async move {
        while let Some(message) = stream.next().await {
            let message = message.map_err(|error| format!("the connection broke: {error}"))?;
            let text = match message {
                Message::Text(text) => text,
                Message::Close(Some(frame)) => {
                    let code = u16::from(frame.code);
                    return Err(format!("the server closed the shell: {} ({code})", frame.reason).into());
                }
                Message::Close(None) => break,
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            let message = serde_json::from_str(&text);
            match message.map_err(|error| format!("cannot parse a message of the server: {error}"))? {
                // The channel lives as long as this future.
                ServerMessage::Output { data } => drop(sender.send(data.into()).await),
                ServerMessage::Error { message } => {
                    drop(sender.send(format!("hotdesk: {message}\r\n").into()).await);
                }
                ServerMessage::Exit { code } => return Ok(code),
                ServerMessage::Other => {}
            }
        }
        Err(Failure::from("the connection ended before the shell"))
    };
    let writing = async {
        while let Some(bytes) = waiting.recv().await {
            let written = stdio::write(OutputStream::Out, bytes).await;
            written.map_err(|error| format!("cannot write to standard output: {error}"))?;
        }
        Ok(())
    };
    // The output that was received is written also when the connection breaks.
    let (ended, written): (Outcome<i32>, Outcome<()>) = tokio::join!(receiving, writing);
    let code = ended?;
    written.map(|()| code)
}

/// Sends what is typed and the size of the terminal; returns only a failure. The end of standard input ends nothing: a
/// terminal that is gone also sends SIGHUP.
async fn send(mut sink: SplitSink<WebSocketStream<Upgraded>, Message>) -> Outcome<i32> {
    let mut resized = signal(SignalKind::window_change())
        .map_err(|error| format!("cannot watch the size of the terminal: {error}"))?;
    let mut input = stdio::input();
    let mut typed = Utf8Decoder::default();
    loop {
        let message = tokio::select! {
            Some(chunk) = input.recv() => {
                let chunk = chunk.map_err(|error| format!("cannot read standard input: {error}"))?;
                TerminalClientMessage::Input { data: typed.take(&chunk) }
            }
            _ = resized.recv() => {
                let (cols, rows) = terminal::size();
                TerminalClientMessage::Resize { cols: cols.into(), rows: rows.into() }
            }
        };
        let text =
            serde_json::to_string(&message).map_err(|error| format!("cannot encode a message: {error}"))?;
        sink.send(Message::text(text)).await.map_err(|error| format!("the connection broke: {error}"))?;
    }
}
