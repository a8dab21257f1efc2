//! Waits for changes on the server: a new status of a computer, or an answer that takes minutes.

use std::time::{Duration, Instant};

use super::api::{Api, ApiResponse, REQUEST_TIMEOUT};
use crate::failure::{Failure, Outcome};
use hotdesk_wire::computer::Computer;

/// Timeout of a status change: as long as that of a create.
const TIMEOUT: Duration = Duration::from_secs(420);
/// Time between two polls. Requests are rate-limited per key: four polls a second leave most of the limit to other
/// clients.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Waits until a computer has the wanted status; returns it with the raw response.
///
/// # Errors
/// When the computer settles in another status, the timeout passes, or a request fails.
pub async fn until_status(api: &Api, id: &str, wanted: &str) -> Outcome<(Computer, ApiResponse)> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let response = api.get(&["computers", id], &[], REQUEST_TIMEOUT).await?;
        let computer: Computer = response.decode()?;
        if computer.status == wanted {
            return Ok((computer, response));
        }
        if !is_transitional(&computer.status) {
            return Err(format!("{} is {}, not {wanted}", computer.name, computer.status).into());
        }
        if Instant::now() >= deadline {
            let seconds = TIMEOUT.as_secs();
            return Err(format!("{} is still {} after {seconds} s", computer.name, computer.status).into());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits for the answer to a request that the server finishes without this client, too. On Ctrl-C it stops waiting.
///
/// # Errors
/// `Interrupted` with the text of `notice` on Ctrl-C; otherwise those of the request.
pub async fn or_interrupt<T>(
    request: impl Future<Output = Outcome<T>>,
    notice: impl FnOnce() -> String,
) -> Outcome<T> {
    tokio::select! {
        answer = request => answer,
        signal = tokio::signal::ctrl_c() => {
            signal.map_err(|error| format!("cannot install a signal handler: {error}"))?;
            Err(Failure::Interrupted(notice()))
        }
    }
}

/// Notice for a create, clone or fork that was interrupted; `what` is the new computer.
pub fn creation_goes_on(what: &str) -> String {
    format!(
        "stopped waiting, but the server continues to create {what}. To see it: hotdesk computers list. \
         To delete it: hotdesk computers delete NAME"
    )
}

/// Whether the status changes by itself into another one (docs/lifecycle.md).
pub fn is_transitional(status: &str) -> bool {
    matches!(status, "creating" | "starting" | "stopping" | "restarting" | "deleting" | "suspending")
}
