//! Times of a schedule, by the clock of the computer.

use std::time::Duration;

use serde_json::json;

use crate::exec::services::triggers::{Reporter, fields};
use hotdesk_base::clock;
use hotdesk_domain::computer::template::timing;

/// Longest sleep until a time of a schedule: the clock jumps when the computer wakes.
const MAX_SLEEP: Duration = Duration::from_secs(5);
/// A time of a schedule that is further back than this has been missed, as while the computer slept.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Reports each time.
pub(super) async fn watch(schedule: &str, reporter: &Reporter) -> String {
    loop {
        let Some(next) = timing::next_time(schedule, clock::now()) else {
            reporter.next_at(None);
            return format!("the schedule {schedule} has no next time in this computer");
        };
        reporter.watching();
        reporter.next_at(Some(next.iso8601()));
        let late = loop {
            let now = clock::now();
            if let Some(late) = now.since(next) {
                break late;
            }
            tokio::time::sleep(next.since(now).unwrap_or_default().min(MAX_SLEEP)).await;
        };
        if late <= MAX_DELAY {
            reporter.event("cron", fields([("scheduled_at", json!(next.iso8601()))]));
        }
    }
}
