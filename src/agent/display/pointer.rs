//! How does the pointer act? By XTEST, never by warping: programs and the idle counter see real input.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::protocol::xtest::ConnectionExt as _;

use super::fault::Outcome;
use super::seat::Seat;
use crate::domain::pointer::{Button, Direction, Point};

/// Pause between the two clicks of a double click: a quick person's, far below every toolkit's limit (200 ms and up).
const DOUBLE_CLICK_PAUSE: Duration = Duration::from_millis(40);
/// Pause between two steps of a drag: about 100 a second, as a mouse sends them.
const DRAG_STEP: Duration = Duration::from_millis(10);
/// Fewest steps of a drag: toolkits begin a drag only after some movement with the button down.
const LEAST_DRAG_STEPS: u32 = 8;
/// Wheel steps between two round trips: keeps what a slow program has not read yet small.
const SCROLL_BATCH: u32 = 50;

impl Seat {
    fn point(&self, x: f64, y: f64) -> Outcome<Point> {
        Ok(Point::parse(x, y, self.size.get())?)
    }

    fn motion(&self, to: Point) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::MOTION_NOTIFY_EVENT, 0, 0, self.root, to.x, to.y, 0)?;
        Ok(())
    }

    fn press(&mut self, button: u8) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::BUTTON_PRESS_EVENT, button, 0, self.root, 0, 0, 0)?;
        self.held.buttons.push(button);
        Ok(())
    }

    fn release(&mut self, button: u8) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::BUTTON_RELEASE_EVENT, button, 0, self.root, 0, 0, 0)?;
        self.held.buttons.retain(|held| *held != button);
        Ok(())
    }

    /// Moves the pointer.
    pub(super) fn move_to(&mut self, x: f64, y: f64) -> Outcome<Point> {
        let point = self.point(x, y)?;
        self.motion(point)?;
        self.barrier()?;
        Ok(point)
    }

    /// Clicks once, or twice at the same place.
    pub(super) fn click(&mut self, x: f64, y: f64, button: Button, double: bool) -> Outcome<Point> {
        let point = self.point(x, y)?;
        self.motion(point)?;
        self.press(button.number())?;
        self.release(button.number())?;
        self.barrier()?;
        if double {
            std::thread::sleep(DOUBLE_CLICK_PAUSE);
            self.motion(point)?;
            self.press(button.number())?;
            self.release(button.number())?;
            self.barrier()?;
        }
        Ok(point)
    }

    /// Presses at one place, moves over `duration`, releases exactly at the other. It is carried out to its end even
    /// when nobody waits any more: letting go half way would drop things where nobody wanted them.
    pub(super) fn drag(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        button: Button,
        duration: Duration,
    ) -> Outcome<(Point, Point)> {
        let start = self.point(from.0, from.1)?;
        let end = self.point(to.0, to.1)?;
        self.motion(start)?;
        self.press(button.number())?;
        self.barrier()?;
        let steps = u32::try_from(duration.as_millis() / DRAG_STEP.as_millis()).unwrap_or(u32::MAX);
        let steps = steps.max(LEAST_DRAG_STEPS);
        let began = Instant::now();
        for step in 1..=steps {
            let due = began + duration * step / steps;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.motion(between(start, end, step, steps))?;
            self.barrier()?;
        }
        self.release(button.number())?;
        self.barrier()?;
        Ok((start, end))
    }

    /// Turns the wheel. An axis that is not given keeps the pointer's value.
    pub(super) fn scroll(
        &mut self,
        direction: Direction,
        amount: u32,
        x: Option<f64>,
        y: Option<f64>,
    ) -> Outcome<Point> {
        let now = self.link.query_pointer(self.root)?.reply()?;
        let point =
            self.point(x.unwrap_or_else(|| now.root_x.into()), y.unwrap_or_else(|| now.root_y.into()))?;
        if x.is_some() || y.is_some() {
            self.motion(point)?;
        }
        for step in 1..=amount {
            self.press(direction.button_number())?;
            self.release(direction.button_number())?;
            if step % SCROLL_BATCH == 0 {
                self.barrier()?;
            }
        }
        self.barrier()?;
        Ok(point)
    }
}

/// The point after `step` of `steps` on the straight way; the last is exactly the end.
fn between(start: Point, end: Point, step: u32, steps: u32) -> Point {
    let along = |from: i16, to: i16| {
        let way = i64::from(to) - i64::from(from);
        // Between two i16 values, so it is one.
        (i64::from(from) + way * i64::from(step) / i64::from(steps)) as i16
    };
    Point { x: along(start.x, end.x), y: along(start.y, end.y) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_ends_exactly_and_never_leaves_the_line() {
        let (start, end) = (Point { x: 7679, y: 0 }, Point { x: 0, y: 4319 });
        assert_eq!(between(start, end, 0, 3000), start);
        assert_eq!(between(start, end, 3000, 3000), end);
        assert_eq!(between(start, end, 1500, 3000), Point { x: 3840, y: 2159 });
        assert_eq!(between(start, start, 5, 8), start);
    }
}
