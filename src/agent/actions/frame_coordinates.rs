//! Which places does an action mean that quotes a frame? The ones that its picture showed, if they still look like that.

use crate::display::{Screen, Taken};
use hotdesk_domain::area::Area;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::pointer::Point;
use hotdesk_wire::batch::Action;

/// How far around its target an action may not find anything painted: half of a small button.
const MARGIN: u16 = 8;

/// Turns an action's coordinates into screen pixels.
///
/// # Errors
/// `Conflict` with the code `unknown_frame`, or `stale_frame` where that was asked for; `Invalid` for a place that is not in
/// the frame.
pub(super) async fn placed(screen: &Screen, mut action: Action) -> Result<Action> {
    let Some(options) = action.options() else { return Ok(action) };
    let refuse_stale = options.refuse_stale.unwrap_or(false);
    let Some(frame) = &options.frame else {
        if refuse_stale {
            return Err(Error::invalid("refuse_stale needs a frame"));
        }
        return Ok(action);
    };
    let taken = screen.taken(frame)?;
    place_all(&taken, &mut action)?;
    if refuse_stale && let Some((x, y)) = target(&action) {
        let at = Point::parse(x, y, screen.size())?;
        let change = screen.change_since(taken.moment()).await?;
        let area = Area::near(at.x, at.y, MARGIN);
        if !change.known || change.areas.iter().any(|painted| painted.touches(area)) {
            let told = format!("What is at ({}, {}) was painted since this frame: look again", at.x, at.y);
            return Err(Error::conflict(told).code("stale_frame"));
        }
    }
    Ok(action)
}

fn place_all(taken: &Taken, action: &mut Action) -> Result<()> {
    let both = |x: &mut f64, y: &mut f64| -> Result<()> {
        (*x, *y) = taken.place(*x, *y)?;
        Ok(())
    };
    // One axis alone keeps the pointer's other one, which is no place of the frame: the frame's origin stands in for it.
    let some = |x: &mut Option<f64>, y: &mut Option<f64>| -> Result<()> {
        let (on_x, on_y) = taken.place(x.unwrap_or(0.0), y.unwrap_or(0.0))?;
        (*x, *y) = (x.map(|_| on_x), y.map(|_| on_y));
        Ok(())
    };
    match action {
        Action::Click(body) => both(&mut body.x, &mut body.y),
        Action::Move(body) => both(&mut body.x, &mut body.y),
        Action::MouseDown(body) | Action::MouseUp(body) => some(&mut body.x, &mut body.y),
        Action::Scroll(body) => some(&mut body.x, &mut body.y),
        Action::Drag(body) => {
            some(&mut body.start_x, &mut body.start_y)?;
            some(&mut body.end_x, &mut body.end_y)?;
            body.path.iter_mut().flatten().try_for_each(|[x, y]| both(x, y))
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

/// Where the action begins, in screen pixels.
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
