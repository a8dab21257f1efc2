//! When is a change done? When the computer's status is one at rest.

use std::time::{Duration, Instant};

use super::api::{Answer, Api, QUICK};
use crate::failure::Outcome;
use hotdesk_wire::computer::Computer;

/// How long a computer may take to come to rest: as long as a create.
const TIMEOUT: Duration = Duration::from_secs(420);
/// Pause between two looks. A change takes seconds, and a key's requests are limited: four looks a second leave
/// almost all of them to others.
const PAUSE: Duration = Duration::from_millis(250);

/// Waits until a computer is at rest and has the wanted status.
///
/// # Errors
/// When it comes to rest elsewhere, or not in time.
pub async fn until(api: &Api, id: &str, wanted: &str) -> Outcome<(Computer, Answer)> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answer = api.get(&["computers", id], &[], QUICK).await?;
        let computer: Computer = answer.decode()?;
        if computer.status == wanted {
            return Ok((computer, answer));
        }
        if !under_way(&computer.status) {
            return Err(format!("{} is {}, not {wanted}", computer.name, computer.status).into());
        }
        if Instant::now() >= deadline {
            let seconds = TIMEOUT.as_secs();
            return Err(format!("{} is still {} after {seconds} s", computer.name, computer.status).into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Statuses that lead to another one (wire.md 5.1).
pub fn under_way(status: &str) -> bool {
    matches!(status, "creating" | "starting" | "stopping" | "restarting" | "deleting" | "suspending")
}
