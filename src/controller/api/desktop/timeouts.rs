//! Timeouts of actions: the requested duration plus a margin.

use std::time::Duration;

use hotdesk_domain::limits::{MAX_COMMAND_SECONDS, MAX_LIST_DURATION, bounded_seconds};
use hotdesk_guest::QUICK_TIMEOUT;
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::batch::Batch;

/// The timeout for one action.
pub fn for_action(action: &Action) -> Duration {
    QUICK_TIMEOUT + action.duration()
}

/// The timeout for a list of actions, with the wait at its end.
pub fn for_list(list: &Batch) -> Duration {
    // The agent refuses an empty and a longer list, which takes a moment as well.
    let actions = list.actions.iter().map(for_action).sum::<Duration>().min(MAX_LIST_DURATION);
    QUICK_TIMEOUT + actions + list.settle_duration()
}

/// The timeout for a command.
pub fn for_command(timeout: Option<f64>) -> Duration {
    QUICK_TIMEOUT + bounded_seconds(timeout.unwrap_or(MAX_COMMAND_SECONDS), MAX_COMMAND_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_covers_the_requested_duration() {
        let read = |action: serde_json::Value| {
            for_action(&serde_json::from_value(action).unwrap()).saturating_sub(QUICK_TIMEOUT)
        };
        for (action, seconds) in [
            (serde_json::json!({"action": "click", "x": 1, "y": 1}), 0.0),
            (serde_json::json!({"action": "click", "x": 1, "y": 1, "settle": {}}), 5.0),
            (serde_json::json!({"action": "click", "x": 1, "y": 1, "settle": {"timeout_ms": 99_000}}), 60.0),
            (serde_json::json!({"action": "drag", "duration": 2}), 2.0),
            (serde_json::json!({"action": "drag", "duration": -2}), 0.0),
            (serde_json::json!({"action": "type", "text": "x".repeat(100)}), 2.0),
            (serde_json::json!({"action": "key", "key": "a", "repeat": 5, "hold_ms": 1000}), 5.1),
            (serde_json::json!({"action": "wait", "seconds": 1e300}), 60.0),
            (serde_json::json!({"action": "wait_change"}), 5.0),
        ] {
            assert_eq!(read(action.clone()).as_secs_f64(), seconds, "{action}");
        }
        assert_eq!(for_list(&Batch::default()), QUICK_TIMEOUT);
        let list = serde_json::json!({"format": "openai", "actions": [{"type": "wait"}],
            "settle": {"timeout_ms": 3000}});
        let list: Batch = serde_json::from_value(list).unwrap();
        assert_eq!(for_list(&list), QUICK_TIMEOUT * 2 + Duration::from_secs(5));
        assert!(for_command(Some(f64::NAN)) >= QUICK_TIMEOUT && for_command(None) > QUICK_TIMEOUT);
    }
}
