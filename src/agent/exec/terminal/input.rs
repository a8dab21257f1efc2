//! Messages of a terminal's client: input, resize and ping.
//!
//! Input is written as fast as the program reads it. Other messages are handled at once, and an answer that
//! the client does not read delays no input.

use bytes::{Buf, BytesMut};
use tokio::sync::mpsc;

use super::pty::{Master, TerminalResizer};
use hotdesk_base::step_error::StepError;
use hotdesk_domain::desktop::terminal::TerminalSize;
use hotdesk_http::socket::last_activity::LastActivity;
use hotdesk_http::socket::{MAX_MESSAGE, PeerMessage, Receiver, Sender};
use hotdesk_wire::programs::terminal::{TerminalClientMessage, TerminalServerMessage};

/// Most bytes of input that the program has not read yet: two messages of the largest size.
const MAX_TYPED_AHEAD: usize = 2 * MAX_MESSAGE;
/// Most answers that the client has not read yet; further ones are dropped.
const MAX_ANSWERS: usize = 64;

/// Handles messages until the client disconnects.
pub async fn listen(
    mut receiver: Receiver,
    master: &Master,
    resizer: TerminalResizer,
    sender: &Sender,
    activity: &LastActivity,
) {
    let (answer, mut answers) = mpsc::channel(MAX_ANSWERS);
    let input = async move {
        let mut typed = BytesMut::new();
        loop {
            tokio::select! {
                heard = receiver.receive() => {
                    let Some(heard) = heard else { return };
                    let answered = match execute(heard, &mut typed, &resizer) {
                        Ok(None) => {
                            activity.touch();
                            continue;
                        }
                        Ok(Some(told)) => encoded(&told),
                        Err(error) => encoded(&TerminalServerMessage::Error { message: &String::from(error) }),
                    };
                    // Fails when the queue is full: the client reads nothing.
                    let _unread = answer.try_send(answered);
                }
                written = master.write(&typed), if !typed.is_empty() => match written {
                    Ok(length) => {
                        typed.advance(length);
                        if typed.is_empty() {
                            typed = BytesMut::new();
                        }
                    }
                    // No process has the terminal open.
                    Err(_) => typed = BytesMut::new(),
                },
            }
        }
    };
    let answering = async {
        while let Some(answer) = answers.recv().await {
            if sender.text(answer).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = input => {}
        () = answering => {}
    }
}

/// Executes a message; returns its answer, if it has one.
///
/// # Errors
/// Why the message cannot be executed, for the client.
fn execute(
    heard: PeerMessage,
    typed: &mut BytesMut,
    resizer: &TerminalResizer,
) -> Result<Option<TerminalServerMessage<'static>>, StepError> {
    let PeerMessage::Text(text) = heard else {
        return Err(StepError::new("messages are JSON in text frames"));
    };
    match serde_json::from_str(&text).map_err(StepError::at("not understood"))? {
        TerminalClientMessage::Ping => Ok(Some(TerminalServerMessage::Pong)),
        TerminalClientMessage::Resize { cols, rows } => {
            let size = TerminalSize::new(cols, rows).map_err(|error| StepError::new(error.message))?;
            resizer.resize(size).map_err(StepError::at("the terminal cannot be resized"))?;
            Ok(None)
        }
        TerminalClientMessage::Input { data } if typed.len() + data.len() > MAX_TYPED_AHEAD => {
            let length = data.len();
            Err(StepError::new(format!("{length} bytes of input are dropped: the program does not read")))
        }
        TerminalClientMessage::Input { data } => {
            typed.extend_from_slice(data.as_bytes());
            Ok(None)
        }
    }
}

fn encoded(told: &TerminalServerMessage) -> String {
    serde_json::to_string(told).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot encode a terminal message");
        String::new()
    })
}
