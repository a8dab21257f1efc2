//! Progress notifications of calls that take long.

use std::convert::Infallible;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use tokio::time::Instant;

/// Time until the first notification. Calls that end before are answered without any, and without a stream.
const FIRST: Duration = Duration::from_secs(1);
/// Time between two notifications: clients end a call that is silent for half a minute or more.
const INTERVAL: Duration = Duration::from_secs(5);

/// Runs a call. If its request has a progress token, the client is told every few seconds that it still runs.
pub(super) async fn reporting<T>(
    context: &RequestContext<RoleServer>,
    tool: &str,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    let began = Instant::now();
    let reports = async {
        let mut ticks = tokio::time::interval_at(began + FIRST, INTERVAL);
        loop {
            ticks.tick().await;
            let seconds = began.elapsed().as_secs_f64().round();
            let report = ProgressNotificationParam::new(token.clone(), seconds)
                .with_message(format!("{tool}: {seconds} s"));
            report_or_stop(&context.peer, report).await;
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
