//! Action `wait` (docs/api/actions.md).

use std::time::Duration;

use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::limits::MAX_WAIT_SECONDS;
use hotdesk_wire::desktop::action::Wait;
use hotdesk_wire::desktop::effect::ActionResult;

/// Waits for the requested time.
///
/// # Errors
/// `Invalid` for a time out of range; `Unavailable` when the agent stops meanwhile.
pub async fn wait(tasks: &Tasks, request: &Wait) -> Result<ActionResult> {
    let (seconds, duration) = length(request)?;
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = tasks.stopping().cancelled_owned() => {
            return Err(Error::unavailable("the agent is stopping"));
        }
    }
    let details = Some(serde_json::json!({ "seconds": seconds }));
    Ok(ActionResult { success: true, action: "wait".to_owned(), details, ..ActionResult::default() })
}

/// Requested time in seconds; `seconds` has priority over its older name `duration`.
fn length(request: &Wait) -> Result<(f64, Duration)> {
    let refused = |text: &str| Error::invalid(text).code(ErrorCode::InvalidRequest);
    let Some(seconds) = request.seconds.or(request.duration) else {
        return Err(refused("seconds is required"));
    };
    if !(0.0..=MAX_WAIT_SECONDS).contains(&seconds) {
        return Err(refused("seconds must be 0 to 60"));
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| refused("seconds must be a number"))?;
    Ok((seconds, duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_last_0_to_60_seconds_by_either_name() {
        let length = |seconds, duration| length(&Wait { seconds, duration }).map(|(seconds, _)| seconds);
        for (seconds, duration, wanted) in [
            (Some(0.0), None, 0.0),
            (Some(60.0), None, 60.0),
            (None, Some(2.5), 2.5),
            (Some(1.0), Some(59.0), 1.0),
        ] {
            assert_eq!(length(seconds, duration).unwrap(), wanted);
        }
        for (seconds, duration) in [
            (None, None),
            (Some(-0.1), None),
            (Some(60.1), None),
            (Some(f64::NAN), None),
            (Some(f64::INFINITY), Some(1.0)),
            (None, Some(61.0)),
        ] {
            assert!(length(seconds, duration).is_err(), "{seconds:?} {duration:?}");
        }
    }
}
