//! Idle time of a screen, from the XSync counter `IDLETIME` of its X server.
//!
//! Input through XTEST and VNC resets the counter, and so does a program that moves the pointer. Alarms
//! report when the counter passes the threshold.
//!
//! A server with nothing else to do can miss an alarm: it sets no timer for a higher value while the counter
//! is below a lower value that another alarm waits for. So the event loop also reads the counter at the
//! moment at which the threshold should be reached.

use std::time::Duration;

use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::sync::{
    self, Alarm, AlarmNotifyEvent, ConnectionExt as _, Counter, CreateAlarmAux, Int64, TESTTYPE, VALUETYPE,
};

use super::ScreenEvent;
use crate::display::fault::Outcome;
use crate::display::link::Link;
use hotdesk_domain::desktop::event::IDLE_SECONDS;

/// Name of the counter.
const COUNTER: &[u8] = b"IDLETIME";
/// Threshold in milliseconds, the unit of the counter.
const THRESHOLD: i64 = IDLE_SECONDS as i64 * 1000;

/// XSync alarms of a screen.
pub(super) struct Alarms {
    counter: Counter,
    /// The counter reached the threshold.
    idle: Alarm,
    /// The counter was reset from above the threshold.
    moved: Alarm,
    /// The counter was reset for the first time since the watch began, from below the threshold.
    first: Option<Alarm>,
}

impl Alarms {
    /// Creates the alarms; `None` when the server has no counter.
    pub(super) fn set(link: &Link) -> Outcome<Option<Self>> {
        let Some(counter) = counter(link)? else { return Ok(None) };
        let idle = alarm(link, counter, THRESHOLD, TESTTYPE::POSITIVE_TRANSITION)?;
        let moved = alarm(link, counter, THRESHOLD, TESTTYPE::NEGATIVE_TRANSITION)?;
        let now = count(link, counter)?;
        let first = match now < THRESHOLD {
            true => Some(alarm(link, counter, now + 1, TESTTYPE::NEGATIVE_TRANSITION)?),
            false => None,
        };
        Ok(Some(Self { counter, idle, moved, first }))
    }

    /// Time until the screen is idle if nobody uses it; `None` when it is idle now.
    pub(super) fn time_until_idle(&self, link: &Link) -> Outcome<Option<Duration>> {
        let left = THRESHOLD - count(link, self.counter)?;
        Ok(u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis))
    }

    /// The event that an alarm means.
    pub(super) fn event(&mut self, link: &Link, notify: &AlarmNotifyEvent) -> Outcome<Option<ScreenEvent>> {
        if notify.alarm == self.idle {
            return Ok(Some(ScreenEvent::BecameIdle));
        }
        if let Some(first) = self.first.take_if(|first| *first == notify.alarm) {
            link.sync_destroy_alarm(first)?;
            return Ok(Some(ScreenEvent::BecameActive));
        }
        Ok((notify.alarm == self.moved).then_some(ScreenEvent::BecameActive))
    }
}

/// Time since the last input; `None` when the server has no counter.
pub(super) fn length(link: &Link) -> Outcome<Option<Duration>> {
    let Some(counter) = counter(link)? else { return Ok(None) };
    Ok(u64::try_from(count(link, counter)?).ok().map(Duration::from_millis))
}

/// Id of the server's counter.
fn counter(link: &Link) -> Outcome<Option<Counter>> {
    if link.extension_information(sync::X11_EXTENSION_NAME)?.is_none() {
        return Ok(None);
    }
    link.sync_initialize(3, 1)?.reply()?;
    let counters = link.sync_list_system_counters()?.reply()?.counters;
    Ok(counters.into_iter().find(|counter| counter.name == COUNTER).map(|found| found.counter))
}

/// Value of the counter in milliseconds.
fn count(link: &Link, counter: Counter) -> Outcome<i64> {
    let now = link.sync_query_counter(counter)?.reply()?.counter_value;
    Ok(i64::from(now.hi) << 32 | i64::from(now.lo))
}

fn alarm(link: &Link, counter: Counter, value: i64, test: TESTTYPE) -> Outcome<Alarm> {
    let id = link.generate_id()?;
    let wish = CreateAlarmAux::new()
        .counter(counter)
        .value_type(VALUETYPE::ABSOLUTE)
        .value(int64(value))
        .test_type(test)
        .delta(int64(0))
        .events(1);
    link.sync_create_alarm(id, &wish)?.check()?;
    Ok(id)
}

fn int64(value: i64) -> Int64 {
    Int64 { hi: (value >> 32) as i32, lo: value as u32 }
}
