//! Actions of a batch that only look: a part of the screen at full scale, and where the pointer is.

use serde_json::json;

use super::{observed, take};
use crate::display::{PointerState, Screen};
use hotdesk_domain::desktop::region::Region;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::action::{CursorPosition, PointerQuery, Zoom};
use hotdesk_wire::desktop::effect::ActionResult;
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Takes a screenshot of a part of the screen.
///
/// # Errors
/// `Invalid` for a part outside of the screen or of the frame; `Conflict` (`unknown_frame`); those of the
/// screenshot.
pub(super) async fn zoom(screen: &Screen, body: Zoom) -> Result<ActionResult> {
    let Zoom { x, y, width, height, frame, screenshot } = body;
    let region = match frame {
        Some(frame) => screen.frame_record(&frame)?.region_to_screen([x, y, width, height])?,
        None => whole_pixels([x, y, width, height])?,
    };
    let query = ScreenshotQuery { region: Some(region.to_string()), ..screenshot.unwrap_or_default() };
    let screenshot = take(screen, &query).await?;
    let details = json!({"x": region.x, "y": region.y, "width": region.width, "height": region.height});
    Ok(ActionResult { details: Some(details), ..observed("zoom", None, Some(screenshot)) })
}

/// Reads where the pointer is.
///
/// # Errors
/// `Conflict` (`unknown_frame`); those of the screen.
pub(super) async fn pointer_position(screen: &Screen, query: PointerQuery) -> Result<ActionResult> {
    let record = query.frame.map(|frame| screen.frame_record(&frame)).transpose()?;
    let mut at = cursor_position(&screen.pointer().await?);
    if let Some(record) = record {
        (at.x, at.y) = record.from_screen(at.x, at.y);
    }
    let details = serde_json::to_value(at).map_err(Error::internal)?;
    Ok(ActionResult { details: Some(details), ..observed("cursor_position", None, None) })
}

/// Position, buttons and modifiers by their names in the API.
pub(super) fn cursor_position(now: &PointerState) -> CursorPosition {
    CursorPosition {
        x: now.at.x.into(),
        y: now.at.y.into(),
        buttons: now.buttons.iter().map(|button| button.name().to_owned()).collect(),
        modifiers: now.modifiers.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// The pixels that a rectangle on the screen touches.
///
/// # Errors
/// `Invalid` for an empty one, and for one that is on no screen.
fn whole_pixels([x, y, width, height]: [f64; 4]) -> Result<Region> {
    let most = f64::from(u16::MAX);
    let is_rectangle = x >= 0.0 && y >= 0.0 && width > 0.0 && height > 0.0;
    if !is_rectangle || x + width > most || y + height > most {
        return Err(Error::invalid(
            "x and y must be at least 0, width and height above 0, all on the screen",
        ));
    }
    let (left, top) = (x.floor(), y.floor());
    let (right, bottom) = ((x + width).ceil(), (y + height).ceil());
    // In range: checked above.
    Ok(Region { x: left as u16, y: top as u16, width: (right - left) as u16, height: (bottom - top) as u16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_covers_every_pixel_that_it_touches() {
        for (rectangle, expected) in [
            ([0.0, 0.0, 1.0, 1.0], "0,0,1,1"),
            ([10.0, 20.0, 30.0, 40.0], "10,20,30,40"),
            ([10.5, 20.5, 1.0, 0.25], "10,20,2,1"),
            ([65534.0, 0.0, 1.0, 1.0], "65534,0,1,1"),
        ] {
            assert_eq!(whole_pixels(rectangle).unwrap().to_string(), expected);
        }
        for bad in [
            [-1.0, 0.0, 1.0, 1.0],
            [0.0, 0.0, 0.0, 1.0],
            [0.0, 0.0, 1.0, -1.0],
            [65535.0, 0.0, 1.0, 1.0],
            [0.0, f64::NAN, 1.0, 1.0],
            [0.0, 0.0, 1.0, f64::INFINITY],
        ] {
            assert!(whole_pixels(bad).is_err(), "{bad:?}");
        }
    }
}
