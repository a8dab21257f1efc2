//! Start and end of a process by its name.

use serde_json::json;

use crate::exec::services::health::probe;
use crate::exec::services::triggers::{Reporter, fields};
use hotdesk_domain::computer::template::trigger::MIN_POLL;

/// Reports when the first process of this name starts, and when the last one has ended.
pub(super) async fn watch(process: &str, reporter: &Reporter) -> String {
    let look = || {
        let name = process.to_owned();
        hotdesk_base::tasks::spawn_blocking(move || probe::is_running(&name))
    };
    let mut before = match look().await {
        Ok(runs) => runs,
        Err(error) => return format!("the processes cannot be listed: {error}"),
    };
    reporter.watching();
    loop {
        tokio::time::sleep(MIN_POLL).await;
        let runs = match look().await {
            Ok(runs) => runs,
            Err(error) => return format!("the processes cannot be listed: {error}"),
        };
        if runs != before {
            let state = if runs { "started" } else { "ended" };
            reporter.event("process", fields([("process", json!(process)), ("state", json!(state))]));
        }
        before = runs;
    }
}
