//! Events of a run for its client, through a bounded channel.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::outcome::RunEnd;
use hotdesk_domain::error::Error;
use hotdesk_model::conversation::{Delta, ToolCall};
use hotdesk_wire::chat::completion::RunProgress;

/// Events that wait for a client: a second of text. Above it, texts are joined, and the run waits after its
/// turn.
const MAX_WAITING: usize = 64;

/// What happens in a run.
#[derive(Debug)]
pub enum RunEvent {
    /// A turn of the model begins; its number, from 1.
    Turn(u32),
    /// Text of the model.
    Text(String),
    /// Thinking of the model.
    Thinking(String),
    /// A call begins.
    Call(ToolCall),
    /// The run waits, or goes on after it has waited.
    Progress(RunProgress),
    /// The run ended. It is the last event.
    Ended(Box<RunEnd>),
    /// The run failed. It is the last event.
    Failed(Box<Error>),
}

/// The run's side of the channel. A client that is gone gets nothing, and the run goes on.
#[derive(Debug)]
pub struct Reporter {
    sender: Option<mpsc::Sender<RunEvent>>,
    /// Events that did not fit. They are those of one reply, which is bounded.
    waiting: Vec<RunEvent>,
    has_text: bool,
    /// Whether the next text begins a paragraph.
    begins_paragraph: bool,
    /// Longest wait until the client takes an event; the run then goes on without it. `None`: no bound.
    patience: Option<Duration>,
}

/// Opens a channel. `patience` is the longest wait until the client takes an event, after which it counts as
/// gone; `None`: no bound.
pub fn channel(patience: Option<Duration>) -> (Reporter, mpsc::Receiver<RunEvent>) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let reporter = Reporter {
        sender: Some(sender),
        waiting: Vec::new(),
        has_text: false,
        begins_paragraph: false,
        patience,
    };
    (reporter, receiver)
}

impl Reporter {
    /// Reports the beginning of a turn, when the client has read what came before. Its text is a new
    /// paragraph.
    pub async fn turn(&mut self, number: u32) {
        self.begins_paragraph = self.has_text;
        self.send(RunEvent::Turn(number)).await;
    }

    /// Reports a part of a reply, without waiting.
    pub fn delta(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) if text.is_empty() => {}
            Delta::Text(text) => {
                self.has_text = true;
                let begins = std::mem::take(&mut self.begins_paragraph);
                self.offer(RunEvent::Text(if begins { format!("\n\n{text}") } else { text }));
            }
            Delta::Thinking(text) => self.offer(RunEvent::Thinking(text)),
            Delta::Usage(_) => {}
        }
    }

    /// Reports an event, after the ones that wait.
    pub async fn send(&mut self, event: RunEvent) {
        self.waiting.push(event);
        for event in std::mem::take(&mut self.waiting) {
            let Some(sender) = &self.sender else { return };
            let sent = sender.send(event);
            let is_taken = match self.patience {
                Some(most) => matches!(tokio::time::timeout(most, sent).await, Ok(Ok(()))),
                None => sent.await.is_ok(),
            };
            if !is_taken {
                self.sender = None;
            }
        }
    }

    fn offer(&mut self, event: RunEvent) {
        let Some(sender) = &self.sender else { return };
        if !self.waiting.is_empty() {
            self.join(event);
            return;
        }
        match sender.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(event)) => self.waiting.push(event),
            Err(TrySendError::Closed(_)) => self.sender = None,
        }
    }

    /// Adds an event to those that wait; a text to the last one if that is a text.
    fn join(&mut self, event: RunEvent) {
        match (self.waiting.last_mut(), event) {
            (Some(RunEvent::Text(last)), RunEvent::Text(text))
            | (Some(RunEvent::Thinking(last)), RunEvent::Thinking(text)) => last.push_str(&text),
            (_, event) => self.waiting.push(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    #[tokio::test]
    async fn texts_for_a_slow_client_are_joined_and_none_is_lost() {
        let (mut reporter, mut events) = channel(None);
        reporter.turn(1).await;
        for _ in 0..1000 {
            reporter.delta(text("ab"));
        }
        assert_eq!((reporter.waiting.len(), events.len()), (1, MAX_WAITING));
        let reading = async {
            let mut all = String::new();
            while let Some(event) = events.recv().await {
                if let RunEvent::Text(text) = event {
                    all.push_str(&text);
                }
            }
            all
        };
        let (all, ()) = tokio::join!(reading, async move {
            reporter.turn(2).await;
            reporter.delta(text(""));
            reporter.delta(text("c"));
        });
        assert_eq!(all, format!("{}\n\nc", "ab".repeat(1000)));
    }

    #[tokio::test]
    async fn a_run_goes_on_without_a_client_that_takes_nothing() {
        let (mut reporter, events) = channel(Some(Duration::from_millis(10)));
        for number in 0..=MAX_WAITING {
            reporter.turn(u32::try_from(number).unwrap()).await;
        }
        assert!(reporter.sender.is_none());
        assert_eq!(events.len(), MAX_WAITING);
    }

    #[tokio::test]
    async fn a_run_without_a_client_reports_nothing() {
        let (mut reporter, events) = channel(None);
        drop(events);
        reporter.turn(1).await;
        reporter.delta(text("a"));
        assert!(reporter.sender.is_none() && reporter.waiting.is_empty());
    }
}
