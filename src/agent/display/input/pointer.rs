//! Pointer input through XTEST.
//!
//! The pointer is never warped, so that programs and the idle counter see real input.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{self, ConnectionExt as _, KeyButMask};
use x11rb::protocol::xtest::ConnectionExt as _;

use crate::display::fault::Outcome;
use crate::display::keyboard_layout::keys::Modifier;
use crate::display::screen::x11_worker::X11Worker;
use hotdesk_domain::desktop::pointer::{Button, Direction, Point, whole_steps};
use hotdesk_domain::error::Error;

/// Pause between the clicks of a multiple click: far below the limit of every toolkit (200 ms and up).
const CLICK_PAUSE: Duration = Duration::from_millis(40);
/// Pause between two steps of a drag: about 100 a second, as a mouse sends.
const STEP: Duration = Duration::from_millis(10);
/// Fewest steps of a drag: toolkits begin a drag only after some movement with the button down.
const MIN_DRAG_STEPS: u32 = 8;
/// Wheel steps between two round trips: bounds the unread input of a slow program.
const SCROLL_BATCH: u32 = 50;

/// A button press or click.
#[derive(Clone, Debug)]
pub struct Press {
    /// The button.
    pub button: Button,
    /// Number of clicks in direct succession.
    pub count: u8,
    /// Modifiers held meanwhile.
    pub modifiers: Vec<Modifier>,
}

/// A turn of the wheel.
#[derive(Clone, Debug)]
pub struct Wheel {
    /// Direction of the scroll.
    pub direction: Direction,
    /// Wheel steps; fractions are allowed.
    pub amount: f64,
    /// Time over which the steps are spread.
    pub duration: Duration,
    /// Modifiers held meanwhile.
    pub modifiers: Vec<Modifier>,
}

/// Result of a turn of the wheel.
#[derive(Clone, Copy, Debug)]
pub struct ScrollResult {
    /// Pointer position in screen pixels.
    pub at: Point,
    /// Whole steps that were sent.
    pub steps: u32,
    /// Fraction of a step that is carried over to the next turn.
    pub remainder: f64,
}

/// State of the pointer.
#[derive(Clone, Debug)]
pub struct PointerState {
    /// Position in screen pixels.
    pub at: Point,
    /// Buttons that are down.
    pub buttons: Vec<Button>,
    /// Wire names of the modifiers that are down.
    pub modifiers: Vec<&'static str>,
}

impl X11Worker {
    fn point(&self, x: f64, y: f64) -> Outcome<Point> {
        Ok(Point::parse(x, y, self.size.get())?)
    }

    fn motion(&self, to: Point) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::MOTION_NOTIFY_EVENT, 0, 0, self.root, to.x, to.y, 0)?;
        Ok(())
    }

    fn press(&mut self, button: u8) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::BUTTON_PRESS_EVENT, button, 0, self.root, 0, 0, 0)?;
        self.pressed.buttons.push(button);
        Ok(())
    }

    fn release(&mut self, button: u8) -> Outcome<()> {
        self.link.xtest_fake_input(xproto::BUTTON_RELEASE_EVENT, button, 0, self.root, 0, 0, 0)?;
        self.pressed.buttons.retain(|held| *held != button);
        Ok(())
    }

    /// Moves the pointer.
    pub(super) fn move_to(&mut self, x: f64, y: f64) -> Outcome<Point> {
        let point = self.point(x, y)?;
        self.motion(point)?;
        self.barrier()?;
        Ok(point)
    }

    /// Clicks `press.count` times at one point.
    pub(super) fn click(&mut self, x: f64, y: f64, press: &Press) -> Outcome<Point> {
        let point = self.point(x, y)?;
        self.clear_button(press.button)?;
        self.hold_modifiers(&press.modifiers)?;
        for click in 0..press.count {
            if click > 0 {
                std::thread::sleep(CLICK_PAUSE);
                self.look_at_buttons()?;
                self.wait_for_thaw()?;
            }
            self.motion(point)?;
            self.press(press.button.number())?;
            self.release(press.button.number())?;
            self.barrier()?;
        }
        Ok(point)
    }

    /// Presses a button and holds it down until [`X11Worker::button_up`].
    pub(super) fn button_down(&mut self, x: Option<f64>, y: Option<f64>, button: Button) -> Outcome<Point> {
        self.clear_button(button)?;
        let point = self.place(x, y)?;
        if !self.held_by_client.buttons.contains(&button.number()) {
            self.press(button.number())?;
            self.pressed.buttons.retain(|held| *held != button.number());
            self.held_by_client.buttons.push(button.number());
        }
        self.barrier()?;
        Ok(point)
    }

    /// Releases a button, held by a client or not.
    pub(super) fn button_up(&mut self, x: Option<f64>, y: Option<f64>, button: Button) -> Outcome<Point> {
        let point = self.place(x, y)?;
        self.release(button.number())?;
        self.held_by_client.buttons.retain(|held| *held != button.number());
        self.look_at_buttons()?;
        self.refuse_button_conflict(button)?;
        Ok(point)
    }

    /// Presses at the first point, moves through the others over `duration`, releases exactly at the last. A
    /// cancelled request still completes the drag: an early release would drop things in the wrong place.
    pub(super) fn drag(
        &mut self,
        path: &[(f64, f64)],
        press: &Press,
        duration: Duration,
    ) -> Outcome<(Point, Point)> {
        let mut points = Vec::with_capacity(path.len());
        for (x, y) in path {
            points.push(self.point(*x, *y)?);
        }
        let (Some(start), Some(end)) = (points.first().copied(), points.last().copied()) else {
            return Err(Error::invalid("a drag needs a start and an end").into());
        };
        self.clear_button(press.button)?;
        self.hold_modifiers(&press.modifiers)?;
        self.motion(start)?;
        self.press(press.button.number())?;
        self.barrier()?;
        let line = Polyline::new(&points);
        let steps = u32::try_from(duration.as_millis() / STEP.as_millis()).unwrap_or(u32::MAX);
        // Each corner of the path is a step, so that none is cut.
        let steps = steps.max(MIN_DRAG_STEPS).max(u32::try_from(points.len()).unwrap_or(u32::MAX));
        let began = Instant::now();
        let mut corner = 1;
        for step in 1..=steps {
            let due = began + duration * step / steps;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let along = line.length * f64::from(step) / f64::from(steps);
            while corner + 1 < points.len() && line.reached[corner] <= along {
                self.motion(points[corner])?;
                corner += 1;
            }
            self.motion(if step == steps { end } else { line.at(along) })?;
            self.barrier()?;
        }
        self.release(press.button.number())?;
        self.barrier()?;
        Ok((start, end))
    }

    /// Turns the wheel, its steps spread over `duration`. A missing coordinate is the pointer's current one.
    /// XTEST has whole steps only, so fractions are carried over to the next turn.
    pub(super) fn scroll(&mut self, turn: &Wheel, x: Option<f64>, y: Option<f64>) -> Outcome<ScrollResult> {
        self.wait_for_thaw()?;
        let point = self.place(x, y)?;
        let (right, down) = self.scrolled;
        let (axis, sign) = match turn.direction {
            Direction::Up => (down, -1.0),
            Direction::Down => (down, 1.0),
            Direction::Left => (right, -1.0),
            Direction::Right => (right, 1.0),
        };
        // A remainder of the opposite direction is dropped: turning back begins at once.
        let (steps, remainder) = whole_steps((axis * sign).max(0.0), turn.amount);
        self.hold_modifiers(&turn.modifiers)?;
        let began = Instant::now();
        for step in 1..=steps {
            self.press(turn.direction.button_number())?;
            self.release(turn.direction.button_number())?;
            if !turn.duration.is_zero() {
                self.barrier()?;
                let due = began + turn.duration * step / steps;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            } else if step % SCROLL_BATCH == 0 {
                self.barrier()?;
            }
        }
        self.barrier()?;
        self.scrolled = match turn.direction {
            Direction::Up | Direction::Down => (right, remainder * sign),
            Direction::Left | Direction::Right => (remainder * sign, down),
        };
        Ok(ScrollResult { at: point, steps, remainder })
    }

    /// The pointer's position, and the buttons and modifiers that are down.
    pub(super) fn pointer(&mut self) -> Outcome<PointerState> {
        let now = self.link.query_pointer(self.root)?.reply()?;
        let mask = u16::from(now.mask);
        let down = |bits: u16| mask & bits != 0;
        let mut buttons: Vec<_> = [Button::Left, Button::Middle, Button::Right]
            .into_iter()
            .filter(|button| down(u16::from(KeyButMask::BUTTON1) << (button.number() - 1)))
            .collect();
        // The core protocol has no state bits for these, so this reports those that a client holds.
        let more = [Button::Back, Button::Forward].into_iter();
        buttons.extend(more.filter(|button| self.held_by_client.buttons.contains(&button.number())));
        let named = [
            (KeyButMask::SHIFT, "shift"),
            (KeyButMask::CONTROL, "ctrl"),
            (KeyButMask::MOD1, "alt"),
            (KeyButMask::MOD4, "super"),
        ];
        let modifiers =
            named.into_iter().filter(|(bit, _)| down(u16::from(*bit))).map(|(_, name)| name).collect();
        Ok(PointerState { at: Point { x: now.root_x, y: now.root_y }, buttons, modifiers })
    }

    /// Moves to a point; a missing coordinate is the pointer's current one.
    fn place(&mut self, x: Option<f64>, y: Option<f64>) -> Outcome<Point> {
        let now = self.link.query_pointer(self.root)?.reply()?;
        let point =
            self.point(x.unwrap_or_else(|| now.root_x.into()), y.unwrap_or_else(|| now.root_y.into()))?;
        if x.is_some() || y.is_some() {
            self.motion(point)?;
        }
        Ok(point)
    }
}

/// A path through points.
struct Polyline<'a> {
    points: &'a [Point],
    /// Length of the path up to each point, in pixels.
    reached: Vec<f64>,
    length: f64,
}

impl<'a> Polyline<'a> {
    fn new(points: &'a [Point]) -> Self {
        let mut length = 0.0;
        let mut reached = vec![0.0];
        for pair in points.windows(2) {
            let (dx, dy) =
                (f64::from(pair[1].x) - f64::from(pair[0].x), f64::from(pair[1].y) - f64::from(pair[0].y));
            length += dx.hypot(dy);
            reached.push(length);
        }
        Self { points, reached, length }
    }

    /// The point after `along` pixels of the path.
    fn at(&self, along: f64) -> Point {
        let next = self.reached.partition_point(|reached| *reached <= along).min(self.points.len() - 1);
        let before = next.saturating_sub(1);
        let (from, to) = (self.points[before], self.points[next]);
        let span = self.reached[next] - self.reached[before];
        let share = if span > 0.0 { ((along - self.reached[before]) / span).clamp(0.0, 1.0) } else { 1.0 };
        // The value lies between two i16 values.
        let between =
            |from: i16, to: i16| (f64::from(from) + (f64::from(to) - f64::from(from)) * share).round() as i16;
        Point { x: between(from.x, to.x), y: between(from.y, to.y) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_polyline_ends_exactly_at_its_last_point() {
        let points = [Point { x: 7679, y: 0 }, Point { x: 0, y: 4319 }];
        let line = Polyline::new(&points);
        assert_eq!(line.at(0.0), points[0]);
        assert_eq!(line.at(line.length), points[1]);
        assert_eq!(line.at(line.length / 2.0), Point { x: 3840, y: 2160 });
        let still = [points[0], points[0]];
        assert_eq!(Polyline::new(&still).at(0.0), points[0]);
    }

    #[test]
    fn a_polyline_passes_its_corners() {
        let points = [(0, 0), (10, 0), (10, 30), (10, 30), (0, 30)].map(|(x, y)| Point { x, y });
        let line = Polyline::new(&points);
        assert_eq!(line.length, 50.0);
        for (along, x, y) in
            [(5.0, 5, 0), (10.0, 10, 0), (25.0, 10, 15), (40.0, 10, 30), (45.0, 5, 30), (50.0, 0, 30)]
        {
            assert_eq!(line.at(along), Point { x, y }, "{along}");
        }
    }
}
