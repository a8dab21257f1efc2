//! Waits for a stable or a changed screen, by polling X Damage every few milliseconds.

use std::time::{Duration, Instant};

use crate::display::{Moment, Screen};
use hotdesk_domain::desktop::area::{Area, merge};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::limits::{DEFAULT_WATCH_MS, MAX_WAIT_SECONDS};
use hotdesk_wire::desktop::action::WaitChange;
use hotdesk_wire::desktop::effect::{ScreenObservation, Settle};

/// Default quiet time in milliseconds: longer than a program's pause between two steps of one reaction.
const DEFAULT_QUIET_MS: u32 = 250;
/// Allowed quiet times in milliseconds.
const QUIET_MS: std::ops::RangeInclusive<u32> = 10..=10_000;
/// Longest timeout in milliseconds, that of `wait`.
const MAX_TIMEOUT_MS: u32 = MAX_WAIT_SECONDS as u32 * 1000;
/// Default size in pixels up to which a change is ignored: a text caret, but not a character.
const DEFAULT_IGNORED_PIXELS: u32 = 100;
/// Poll interval: not noticeable, and a thousandth of a core.
const POLL_INTERVAL: Duration = Duration::from_millis(8);
/// Most areas in an answer.
const MAX_AREAS: usize = 24;

/// Filter of changes.
#[derive(Clone, Copy, Debug)]
struct ChangeFilter {
    region: Option<Area>,
    ignored_pixels: u64,
}

impl ChangeFilter {
    fn matches(self, area: Area) -> bool {
        area.pixels() > self.ignored_pixels && self.region.is_none_or(|region| region.touches(area))
    }
}

/// A wait for a quiet screen.
#[derive(Debug)]
struct QuietWait {
    /// Time without a change after which it ends.
    quiet: Duration,
    /// The same while nothing has changed at all.
    unchanged: Duration,
    began: Instant,
    last_change: Option<Instant>,
}

impl QuietWait {
    /// Notes whether something has changed since the last call, and returns whether the wait ends.
    fn is_over(&mut self, has_changed: bool, now: Instant) -> bool {
        if has_changed {
            self.last_change = Some(now);
        }
        match self.last_change {
            Some(last) => now.duration_since(last) >= self.quiet,
            None => now.duration_since(self.began) >= self.unchanged,
        }
    }
}

/// Waits until no change that matches was painted for the quiet time; changes count from `from`.
///
/// # Errors
/// `Invalid` for a bad parameter; those of the screen.
pub(super) async fn wait_until_quiet(
    screen: &Screen,
    from: Moment,
    settle: &Settle,
) -> Result<ScreenObservation> {
    let quiet_ms = settle.quiet_ms.unwrap_or(DEFAULT_QUIET_MS);
    let filter = filter(settle.region, settle.ignore_pixels, DEFAULT_IGNORED_PIXELS)?;
    let mut wait = QuietWait {
        quiet: Duration::from_millis(quiet_ms.into()),
        unchanged: Duration::from_millis(settle.unchanged_ms.unwrap_or(quiet_ms).min(quiet_ms).into()),
        began: Instant::now(),
        last_change: None,
    };
    watch(screen, from, check_timeout(settle.timeout_ms)?, |areas| {
        wait.is_over(areas.iter().any(|area| filter.matches(*area)), Instant::now())
    })
    .await
}

/// Waits until a change that matches is painted.
///
/// # Errors
/// Those of [`wait_until_quiet`].
pub(super) async fn wait_for_change(screen: &Screen, wait: &WaitChange) -> Result<ScreenObservation> {
    let filter = filter(wait.region, wait.ignore_pixels, 0)?;
    let timeout = check_timeout(wait.timeout_ms)?;
    let from = screen.moment().await?;
    watch(screen, from, timeout, |areas| areas.iter().any(|area| filter.matches(*area))).await
}

/// Checks the parameters that select changes.
///
/// # Errors
/// `Invalid` for an empty region.
fn filter(
    region: Option<hotdesk_wire::desktop::effect::Area>,
    ignored: Option<u32>,
    otherwise: u32,
) -> Result<ChangeFilter> {
    let region = region.map(Area::from);
    if region.is_some_and(|region| region.pixels() == 0) {
        return Err(Error::invalid("region must have a width and a height"));
    }
    Ok(ChangeFilter { region, ignored_pixels: ignored.unwrap_or(otherwise).into() })
}

fn check_timeout(timeout_ms: Option<u32>) -> Result<Duration> {
    let timeout = timeout_ms.unwrap_or(DEFAULT_WATCH_MS);
    if timeout > MAX_TIMEOUT_MS {
        return Err(Error::invalid(format!("timeout_ms must be at most {MAX_TIMEOUT_MS}")));
    }
    Ok(Duration::from_millis(timeout.into()))
}

/// Polls until `reached` accepts the changes since the last poll, or the timeout.
async fn watch(
    screen: &Screen,
    from: Moment,
    timeout: Duration,
    mut reached: impl FnMut(&[Area]) -> bool,
) -> Result<ScreenObservation> {
    let began = Instant::now();
    let mut seen = from;
    let mut changed = Vec::new();
    loop {
        let change = screen.change_since(seen).await?;
        // A screen without damage reports may have changed completely.
        let all =
            [Area { x: 0, y: 0, width: screen.size().width.into(), height: screen.size().height.into() }];
        let areas = if change.known { &change.areas[..] } else { &all[..] };
        changed = merge(changed.into_iter().chain(areas.iter().copied()), MAX_AREAS);
        seen = change.now;
        let done = reached(areas);
        if done || began.elapsed() >= timeout {
            let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            return Ok(ScreenObservation {
                reached: done,
                waited_ms,
                changed: changed.into_iter().map(Into::into).collect(),
            });
        }
        tokio::time::sleep(POLL_INTERVAL.min(timeout.saturating_sub(began.elapsed()))).await;
    }
}

/// Checks the parameters of a settle before the action is executed.
///
/// # Errors
/// `Invalid` for a value out of range.
pub(super) fn check(settle: &Settle) -> Result<()> {
    for (name, value) in [("quiet_ms", settle.quiet_ms), ("unchanged_ms", settle.unchanged_ms)] {
        if value.is_some_and(|milliseconds| !QUIET_MS.contains(&milliseconds)) {
            return Err(Error::invalid(format!("{name} must be {} to {}", QUIET_MS.start(), QUIET_MS.end())));
        }
    }
    check_timeout(settle.timeout_ms)?;
    filter(settle.region, settle.ignore_pixels, 0).map(|_| ())
}

/// Checks the parameters of a wait for a change.
///
/// # Errors
/// `Invalid` for a value out of range.
pub(super) fn check_change(wait: &WaitChange) -> Result<()> {
    check_timeout(wait.timeout_ms)?;
    filter(wait.region, wait.ignore_pixels, 0).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_and_other_regions_are_ignored() {
        let area = |x, width, height| Area { x, y: 0, width, height };
        let filter = ChangeFilter { region: Some(area(0, 100, 100)), ignored_pixels: 100 };
        for (painted, wanted) in [
            (area(0, 2, 20), false),
            (area(0, 10, 10), false),
            (area(99, 101, 1), true),
            (area(100, 50, 50), false),
        ] {
            assert_eq!(filter.matches(painted), wanted, "{painted:?}");
        }
    }

    #[test]
    fn a_wait_is_shorter_while_nothing_has_changed() {
        // (milliseconds of the changes, of the looks that find none, whether the last look ends the wait)
        for (changes, looks, is_over) in [
            (&[][..], &[8, 33][..], false),
            (&[], &[8, 34], true),
            (&[20], &[40, 119], false),
            (&[20], &[40, 120], true),
            (&[8, 90], &[120, 189], false),
            (&[8, 90], &[120, 190], true),
        ] {
            let began = Instant::now();
            let mut wait = QuietWait {
                quiet: Duration::from_millis(100),
                unchanged: Duration::from_millis(34),
                began,
                last_change: None,
            };
            let at = |milliseconds: &u64| began + Duration::from_millis(*milliseconds);
            for change in changes {
                assert!(!wait.is_over(true, at(change)), "{changes:?}");
            }
            let ends: Vec<bool> = looks.iter().map(|look| wait.is_over(false, at(look))).collect();
            assert_eq!(ends, [false, is_over], "{changes:?} {looks:?}");
        }
    }

    #[test]
    fn waits_out_of_range_are_refused() {
        assert!(check(&Settle::default()).is_ok());
        for bad in [
            Settle { quiet_ms: Some(9), ..Settle::default() },
            Settle { quiet_ms: Some(10_001), ..Settle::default() },
            Settle { unchanged_ms: Some(9), ..Settle::default() },
            Settle { timeout_ms: Some(60_001), ..Settle::default() },
            Settle { region: Some(Area { x: 0, y: 0, width: 0, height: 5 }.into()), ..Settle::default() },
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }
}
