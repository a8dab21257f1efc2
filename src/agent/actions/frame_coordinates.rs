//! Conversion of an action's coordinates in a screenshot (frame) to screen coordinates.
//!
//! With `refuse_stale` the action is refused when its target was painted since the frame.

use crate::display::{FrameRecord, Screen};
use hotdesk_domain::desktop::area::Area;
use hotdesk_domain::desktop::pointer::Point;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::desktop::batch::Action;

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
    convert(&record, &mut action)?;
    if refuse_stale && let Some((x, y)) = target(&action) {
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

fn convert(record: &FrameRecord, action: &mut Action) -> Result<()> {
    let convert_point = |x: &mut f64, y: &mut f64| -> Result<()> {
        (*x, *y) = record.to_screen(*x, *y)?;
        Ok(())
    };
    // With only one axis the pointer keeps the other one; the frame's origin replaces it for the conversion.
    let convert_axes = |x: &mut Option<f64>, y: &mut Option<f64>| -> Result<()> {
        let (on_x, on_y) = record.to_screen(x.unwrap_or(0.0), y.unwrap_or(0.0))?;
        (*x, *y) = (x.map(|_| on_x), y.map(|_| on_y));
        Ok(())
    };
    match action {
        Action::Click(body) => convert_point(&mut body.x, &mut body.y),
        Action::Move(body) => convert_point(&mut body.x, &mut body.y),
        Action::MouseDown(body) | Action::MouseUp(body) => convert_axes(&mut body.x, &mut body.y),
        Action::Scroll(body) => convert_axes(&mut body.x, &mut body.y),
        Action::Drag(body) => {
            convert_axes(&mut body.start_x, &mut body.start_y)?;
            convert_axes(&mut body.end_x, &mut body.end_y)?;
            body.path.iter_mut().flatten().try_for_each(|[x, y]| convert_point(x, y))
        }
        Action::Type(_)
        | Action::Key(_)
        | Action::KeyDown(_)
        | Action::KeyUp(_)
        | Action::Wait(_)
        | Action::WaitStable(_)
        | Action::WaitChange(_)
        | Action::Screenshot(_) => Ok(()),
    }
}

/// Start position of the action in screen pixels.
fn target(action: &Action) -> Option<(f64, f64)> {
    match action {
        Action::Click(body) => Some((body.x, body.y)),
        Action::Move(body) => Some((body.x, body.y)),
        Action::MouseDown(body) | Action::MouseUp(body) => body.x.zip(body.y),
        Action::Scroll(body) => body.x.zip(body.y),
        Action::Drag(body) => body
            .path
            .as_ref()
            .and_then(|path| path.first())
            .map(|[x, y]| (*x, *y))
            .or(body.start_x.zip(body.start_y)),
        Action::Type(_)
        | Action::Key(_)
        | Action::KeyDown(_)
        | Action::KeyUp(_)
        | Action::Wait(_)
        | Action::WaitStable(_)
        | Action::WaitChange(_)
        | Action::Screenshot(_) => None,
    }
}
