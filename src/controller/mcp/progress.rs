//! Progress notifications of calls that take long.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Time until the first notification, and the least time between two. Calls that end before are answered
/// without any, and without a stream. Each notification has a larger number of whole seconds than the last.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two notifications of the same phase: clients end a call that is silent for half a minute or
/// more.
const INTERVAL: Duration = Duration::from_secs(5);

/// What a call works on now, for its notifications; cheap to clone. Empty until the tool says it.
#[derive(Clone, Debug, Default)]
pub(super) struct CallPhase(Arc<watch::Sender<String>>);

impl CallPhase {
    /// Sets the text, which must not have content of a computer: it goes to people.
    pub(super) fn set(&self, text: &str) {
        self.0.send_if_modified(|now| {
            let changed = now.as_str() != text;
            if changed {
                text.clone_into(now);
            }
            changed
        });
    }

    /// Returns the text.
    pub(super) fn now(&self) -> String {
        self.0.borrow().clone()
    }
}

/// Text of a notification.
fn message(tool: &str, phase: &str, seconds: f64) -> String {
    if phase.is_empty() { format!("{tool}: {seconds} s") } else { format!("{tool}: {phase}, {seconds} s") }
}

/// Runs a call. If its request has a progress token, the client is told every few seconds that it still runs,
/// and when its phase changes.
pub(super) async fn reporting<T>(
    context: &RequestContext<RoleServer>,
    tool: &str,
    phase: &CallPhase,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    let began = Instant::now();
    let reports = async {
        let mut phases = phase.0.subscribe();
        sleep_until(began + LEAST_INTERVAL).await;
        loop {
            let sent = Instant::now();
            let seconds = sent.duration_since(began).as_secs_f64().round();
            let text = message(tool, &phases.borrow_and_update(), seconds);
            let report = ProgressNotificationParam::new(token.clone(), seconds).with_message(text);
            report_or_stop(&context.peer, report).await;
            tokio::select! {
                // The sender is borrowed, so that only a change ends this.
                _ = phases.changed() => sleep_until(sent + LEAST_INTERVAL).await,
                () = sleep_until(sent + INTERVAL) => {}
            }
        }
    };
    // A client that does not read must not stop the work, so that both are polled.
    tokio::select! {
        biased;
        done = work => done,
        never = reports => match never {},
    }
}

/// Sends a notification. Does not return when the client has gone.
async fn report_or_stop(peer: &Peer<RoleServer>, report: ProgressNotificationParam) {
    if let Err(error) = peer.notify_progress(report).await {
        tracing::debug!(%error, "could not report progress to an MCP client");
        std::future::pending::<Infallible>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_names_the_tool_and_its_phase() {
        let phase = CallPhase::default();
        assert_eq!(message("bash", &phase.now(), 3.0), "bash: 3 s");
        phase.clone().set("install");
        assert_eq!(message("wait_for_build", &phase.now(), 6.0), "wait_for_build: install, 6 s");
    }

    #[test]
    fn only_another_phase_is_a_change() {
        let phase = CallPhase::default();
        let mut changes = phase.0.subscribe();
        for (text, changed) in [("boot", true), ("boot", false), ("install", true)] {
            phase.set(text);
            assert_eq!(changes.has_changed().unwrap(), changed, "{text}");
            changes.mark_unchanged();
        }
    }
}
