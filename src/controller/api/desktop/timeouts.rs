//! Timeouts of actions: the requested duration plus a margin.

use std::time::Duration;

use hotdesk_domain::desktop::pointer::MAX_DRAG_SECONDS;
use hotdesk_domain::limits::{
    DEFAULT_WATCH_MS, MAX_COMMAND_SECONDS, MAX_HOLDS_MS, MAX_WAIT_SECONDS, SLOWEST_TYPING,
};
use hotdesk_guest::QUICK_TIMEOUT;
use hotdesk_wire::desktop::batch::Action;

/// Longest duration of a list of actions; longer lists are better split.
const MAX_LIST: Duration = Duration::from_secs(15 * 60);

/// The timeout for one action.
pub fn for_action(action: &Action) -> Duration {
    let own = match action {
        Action::Click(_) | Action::Move(_) | Action::MouseDown(_) | Action::MouseUp(_) => Duration::ZERO,
        Action::KeyDown(_) | Action::KeyUp(_) | Action::Screenshot(_) => Duration::ZERO,
        Action::Drag(body) => seconds(body.duration.unwrap_or(0.0), MAX_DRAG_SECONDS),
        Action::Scroll(body) => seconds(body.duration.unwrap_or(0.0), MAX_DRAG_SECONDS),
        Action::Type(body) => Duration::from_secs_f64(body.text.chars().count() as f64 / SLOWEST_TYPING),
        Action::Key(body) => {
            let presses = body.keys.as_ref().map_or(1, Vec::len) as u64 * u64::from(body.repeat.unwrap_or(1));
            // Each press may need a spare key, as a typed character does.
            let pressing = Duration::from_secs_f64(presses.min(10_000) as f64 / SLOWEST_TYPING);
            pressing
                + Duration::from_millis((presses * u64::from(body.hold_ms.unwrap_or(0))).min(MAX_HOLDS_MS))
        }
        Action::Wait(body) => seconds(body.seconds.or(body.duration).unwrap_or(0.0), MAX_WAIT_SECONDS),
        Action::WaitStable(body) => wait(body.settle.timeout_ms),
        Action::WaitChange(body) => wait(body.timeout_ms),
    };
    let settle = action.options().and_then(|options| options.settle.as_ref());
    QUICK_TIMEOUT + own + settle.map_or(Duration::ZERO, |settle| wait(settle.timeout_ms))
}

/// The timeout for a list of actions.
pub fn for_list(actions: &[Action]) -> Duration {
    // The agent refuses an empty list, which takes a moment as well.
    QUICK_TIMEOUT + actions.iter().map(for_action).sum::<Duration>().min(MAX_LIST)
}

/// The timeout for a command.
pub fn for_command(timeout: Option<f64>) -> Duration {
    QUICK_TIMEOUT + seconds(timeout.unwrap_or(MAX_COMMAND_SECONDS), MAX_COMMAND_SECONDS)
}

fn wait(timeout_ms: Option<u32>) -> Duration {
    seconds(f64::from(timeout_ms.unwrap_or(DEFAULT_WATCH_MS)) / 1000.0, MAX_WAIT_SECONDS)
}

/// Converts a client's seconds to a duration of at most `most` seconds. Invalid numbers become zero; the
/// agent refuses them.
pub fn seconds(value: f64, most: f64) -> Duration {
    Duration::try_from_secs_f64(value.min(most)).unwrap_or_default()
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
        assert_eq!(for_list(&[]), QUICK_TIMEOUT);
        assert!(for_command(Some(f64::NAN)) >= QUICK_TIMEOUT && for_command(None) > QUICK_TIMEOUT);
    }
}
