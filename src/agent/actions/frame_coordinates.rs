//! Conversion of an action's coordinates in a screenshot (frame) to screen coordinates.
//!
//! With `refuse_stale` the action is refused when its target was painted since the frame.

use crate::display::{FrameRecord, Screen};
use hotdesk_domain::desktop::area::Area;
use hotdesk_domain::desktop::pointer::Point;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::desktop::action::{Action, Coordinates};

/// Distance in pixels around the target in which nothing may have been painted: half of a small button.
const MARGIN: u16 = 8;

/// Converts an action's coordinates to screen pixels.
///
/// # Errors
/// `Conflict` (`unknown_frame`; `stale_frame` with `refuse_stale`); `Invalid` for a position outside of the
/// frame.
pub(super) async fn to_screen(screen: &Screen, mut action: Action) -> Result<Action> {
    let Some(options) = action.options() else { return Ok(action) };
    let refuse_stale = options.refuse_stale.unwrap_or(false);
    let Some(frame) = &options.frame else {
        if refuse_stale {
            return Err(Error::invalid("refuse_stale needs a frame"));
        }
        return Ok(action);
    };
    let record = screen.frame_record(frame)?;
    let mut positions = action.body_mut().positions();
    positions.iter_mut().try_for_each(|position| convert(&record, position))?;
    if refuse_stale && let Some((x, y)) = target(&positions) {
        let at = Point::parse(x, y, screen.size())?;
        let change = screen.change_since(record.moment()).await?;
        let area = Area::near(at.x, at.y, MARGIN);
        if !change.known || change.areas.iter().any(|painted| painted.touches(area)) {
            let message = format!("What is at ({}, {}) was painted since this frame: look again", at.x, at.y);
            return Err(Error::conflict(message).code(ErrorCode::StaleFrame));
        }
    }
    Ok(action)
}

/// Returns the first position with both axes: where the action begins, or the end of a drag that begins at
/// the pointer.
fn target(positions: &[Coordinates<'_>]) -> Option<(f64, f64)> {
    positions.iter().find_map(|[x, y]| Some((*x.as_deref()?, *y.as_deref()?)))
}

/// Converts a position. With only one axis the pointer keeps the other one; the frame's origin replaces it
/// for the conversion.
fn convert(record: &FrameRecord, [x, y]: &mut Coordinates<'_>) -> Result<()> {
    let axis = |value: &Option<&mut f64>| value.as_deref().copied().unwrap_or(0.0);
    let (on_x, on_y) = record.to_screen(axis(x), axis(y))?;
    for (value, on_screen) in [(x, on_x), (y, on_y)] {
        if let Some(value) = value {
            **value = on_screen;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_target_of_a_drag_from_the_pointer_is_its_end() {
        for (action, expected) in [
            (json!({"action": "drag", "end_x": 3, "end_y": 4}), Some((3.0, 4.0))),
            (json!({"action": "drag", "start_x": 1, "start_y": 2, "end_x": 3, "end_y": 4}), Some((1.0, 2.0))),
            (json!({"action": "scroll", "direction": "up", "y": 9}), None),
        ] {
            let mut action: Action = serde_json::from_value(action).unwrap();
            assert_eq!(target(&action.body_mut().positions()), expected);
        }
    }
}
