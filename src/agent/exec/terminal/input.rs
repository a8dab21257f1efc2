//! What becomes of what the client says? Keys go to the terminal as fast as its program reads them; the rest is done at
//! once, and no answer that the client leaves unread holds up a key.

use bytes::{Buf, BytesMut};
use tokio::sync::mpsc;

use super::pty::{Master, Ruler};
use crate::quiet::Quiet;
use hotdesk_domain::terminal::Size;
use hotdesk_http::socket::{Heard, MAX_MESSAGE, Receiver, Sender};
use hotdesk_wire::terminal::{Said, Told};

/// Most bytes that are typed ahead of the program in front: two of the largest messages.
const MAX_TYPED_AHEAD: usize = 2 * MAX_MESSAGE;
/// Answers that wait for a client to read them; what it leaves unread beyond that it does not miss.
const MAX_ANSWERS: usize = 64;

/// Listens until the client is gone.
pub async fn listen(mut receiver: Receiver, master: &Master, ruler: Ruler, sender: &Sender, quiet: &Quiet) {
    let (answer, mut answers) = mpsc::channel(MAX_ANSWERS);
    let keys = async move {
        let mut typed = BytesMut::new();
        loop {
            tokio::select! {
                heard = receiver.receive() => {
                    let Some(heard) = heard else { return };
                    let answered = match take(heard, &mut typed, &ruler) {
                        Ok(None) => {
                            quiet.note();
                            continue;
                        }
                        Ok(Some(told)) => encoded(&told),
                        Err(message) => encoded(&Told::Error { message: &message }),
                    };
                    // Full when the client reads nothing.
                    let _unread = answer.try_send(answered);
                }
                written = master.write(&typed), if !typed.is_empty() => match written {
                    Ok(length) => {
                        typed.advance(length);
                        if typed.is_empty() {
                            typed = BytesMut::new();
                        }
                    }
                    // Nobody is there to read it.
                    Err(_) => typed = BytesMut::new(),
                },
            }
        }
    };
    let speak = async {
        while let Some(answer) = answers.recv().await {
            if sender.text(answer).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = keys => {}
        () = speak => {}
    }
}

/// Does what a message asks; what is to be answered.
///
/// # Errors
/// Why it cannot be done, for the client.
fn take(heard: Heard, typed: &mut BytesMut, ruler: &Ruler) -> Result<Option<Told<'static>>, String> {
    let Heard::Text(text) = heard else { return Err(String::from("messages are JSON in text frames")) };
    match serde_json::from_str(&text).map_err(|error| format!("not understood: {error}"))? {
        Said::Ping => Ok(Some(Told::Pong)),
        Said::Resize { cols, rows } => {
            let size = Size::new(cols, rows).map_err(|error| error.message)?;
            ruler.resize(size).map_err(|error| format!("the size stays: {error}"))?;
            Ok(None)
        }
        Said::Input { data } if typed.len() + data.len() > MAX_TYPED_AHEAD => {
            Err(format!("{} bytes of input are dropped: the program does not read", data.len()))
        }
        Said::Input { data } => {
            typed.extend_from_slice(data.as_bytes());
            Ok(None)
        }
    }
}

fn encoded(told: &Told) -> String {
    serde_json::to_string(told).unwrap_or_else(|error| {
        tracing::error!(%error, "a message has no JSON");
        String::new()
    })
}
