//! When is a screen quiet, and when has it changed? Asked of Damage every few milliseconds, which costs a round trip.

use std::time::{Duration, Instant};

use crate::display::{Moment, Screen};
use hotdesk_domain::area::{Area, joined};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::limits::{DEFAULT_WATCH_MS, MAX_WAIT_SECONDS};
use hotdesk_wire::action::WaitChange;
use hotdesk_wire::effect::{Settle, Watched};

/// Milliseconds of quiet when none are given: longer than a program takes between two steps of one reaction.
const DEFAULT_QUIET_MS: u32 = 250;
/// Milliseconds of quiet that can be asked for.
const QUIET_MS: std::ops::RangeInclusive<u32> = 10..=10_000;
/// Longest wait; as long as `wait`'s.
const MAX_TIMEOUT_MS: u32 = MAX_WAIT_SECONDS as u32 * 1000;
/// Pixels of a change that does not count when none are given: a text caret, not a character.
const DEFAULT_IGNORED_PIXELS: u32 = 100;
/// Pause between two looks: below what is noticed, a thousandth of a core.
const LOOK_PAUSE: Duration = Duration::from_millis(8);
/// Areas told of a wait.
const MOST_AREAS: usize = 24;

/// Which changes count.
#[derive(Clone, Copy, Debug)]
struct Counting {
    region: Option<Area>,
    ignored_pixels: u64,
}

impl Counting {
    fn counts(self, area: Area) -> bool {
        area.pixels() > self.ignored_pixels && self.region.is_none_or(|region| region.touches(area))
    }
}

/// Waits until nothing that counts was painted for a while; `from` is where the telling of changes begins.
///
/// # Errors
/// `Invalid` for a wait out of range; what the screen fails with.
pub(super) async fn quiet(screen: &Screen, from: Moment, settle: &Settle) -> Result<Watched> {
    let quiet_ms = settle.quiet_ms.unwrap_or(DEFAULT_QUIET_MS);
    let counting = counting(settle.region, settle.ignore_pixels, DEFAULT_IGNORED_PIXELS)?;
    let quiet = Duration::from_millis(quiet_ms.into());
    let mut last = Instant::now();
    watch(screen, from, patience(settle.timeout_ms)?, |areas| {
        if areas.iter().any(|area| counting.counts(*area)) {
            last = Instant::now();
        }
        last.elapsed() >= quiet
    })
    .await
}

/// Waits until something that counts is painted.
///
/// # Errors
/// As [`quiet`].
pub(super) async fn change(screen: &Screen, wait: &WaitChange) -> Result<Watched> {
    let counting = counting(wait.region, wait.ignore_pixels, 0)?;
    let patience = patience(wait.timeout_ms)?;
    let from = screen.moment().await?;
    watch(screen, from, patience, |areas| areas.iter().any(|area| counting.counts(*area))).await
}

/// Checks what a settle asks for, before anything is done.
///
/// # Errors
/// `Invalid` for a wait out of range.
fn counting(
    region: Option<hotdesk_wire::effect::Area>,
    ignored: Option<u32>,
    otherwise: u32,
) -> Result<Counting> {
    let region = region.map(Area::from);
    if region.is_some_and(|region| region.pixels() == 0) {
        return Err(Error::invalid("region must have a width and a height"));
    }
    Ok(Counting { region, ignored_pixels: ignored.unwrap_or(otherwise).into() })
}

fn patience(timeout_ms: Option<u32>) -> Result<Duration> {
    let timeout = timeout_ms.unwrap_or(DEFAULT_WATCH_MS);
    if timeout > MAX_TIMEOUT_MS {
        return Err(Error::invalid(format!("timeout_ms must be at most {MAX_TIMEOUT_MS}")));
    }
    Ok(Duration::from_millis(timeout.into()))
}

/// Looks again and again until `reached` is content with what was painted since the last look.
async fn watch(
    screen: &Screen,
    from: Moment,
    patience: Duration,
    mut reached: impl FnMut(&[Area]) -> bool,
) -> Result<Watched> {
    let began = Instant::now();
    let mut seen = from;
    let mut changed = Vec::new();
    loop {
        let change = screen.change_since(seen).await?;
        // A screen that tells no damage may have changed all over.
        let all =
            [Area { x: 0, y: 0, width: screen.size().width.into(), height: screen.size().height.into() }];
        let areas = if change.known { &change.areas[..] } else { &all[..] };
        changed = joined(changed.into_iter().chain(areas.iter().copied()), MOST_AREAS);
        seen = change.now;
        let done = reached(areas);
        if done || began.elapsed() >= patience {
            let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            return Ok(Watched {
                reached: done,
                waited_ms,
                changed: changed.into_iter().map(Into::into).collect(),
            });
        }
        tokio::time::sleep(LOOK_PAUSE.min(patience.saturating_sub(began.elapsed()))).await;
    }
}

/// Refuses a settle that makes no sense before the action is done.
///
/// # Errors
/// `Invalid`.
pub(super) fn check(settle: &Settle) -> Result<()> {
    if settle.quiet_ms.is_some_and(|quiet| !QUIET_MS.contains(&quiet)) {
        return Err(Error::invalid(format!("quiet_ms must be {} to {}", QUIET_MS.start(), QUIET_MS.end())));
    }
    patience(settle.timeout_ms)?;
    counting(settle.region, settle.ignore_pixels, 0).map(|_| ())
}

/// As [`check`], for waiting for a change.
///
/// # Errors
/// `Invalid`.
pub(super) fn check_change(wait: &WaitChange) -> Result<()> {
    patience(wait.timeout_ms)?;
    counting(wait.region, wait.ignore_pixels, 0).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_and_other_places_do_not_count() {
        let area = |x, width, height| Area { x, y: 0, width, height };
        let counting = Counting { region: Some(area(0, 100, 100)), ignored_pixels: 100 };
        for (painted, wanted) in [
            (area(0, 2, 20), false),
            (area(0, 10, 10), false),
            (area(99, 101, 1), true),
            (area(100, 50, 50), false),
        ] {
            assert_eq!(counting.counts(painted), wanted, "{painted:?}");
        }
    }

    #[test]
    fn waits_out_of_range_are_refused() {
        assert!(check(&Settle::default()).is_ok());
        for bad in [
            Settle { quiet_ms: Some(9), ..Settle::default() },
            Settle { quiet_ms: Some(10_001), ..Settle::default() },
            Settle { timeout_ms: Some(60_001), ..Settle::default() },
            Settle { region: Some(Area { x: 0, y: 0, width: 0, height: 5 }.into()), ..Settle::default() },
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }
}
