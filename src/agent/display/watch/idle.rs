//! Since when has nobody used a screen? Its X server counts (the system counter IDLETIME of XSync): input by XTEST and
//! over VNC ends a rest, and so does a program that moves the pointer. Alarms tell when the count passes the threshold.
//!
//! A server with nothing else to do can sleep past an alarm (it sets no timer for a higher value while the count is below a
//! lower one that it waits to fall to), so that the count is also asked for at the moment at which it should be there.

use std::time::Duration;

use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::sync::{
    self, Alarm, AlarmNotifyEvent, ConnectionExt as _, Counter, CreateAlarmAux, Int64, TESTTYPE, VALUETYPE,
};

use super::super::fault::Outcome;
use super::super::link::Link;
use super::Sign;
use hotdesk_domain::event::IDLE_SECONDS;

/// The counter's name.
const COUNTER: &[u8] = b"IDLETIME";
/// The threshold in the counter's unit, milliseconds.
const THRESHOLD: i64 = IDLE_SECONDS as i64 * 1000;

/// The alarms of a screen.
pub(super) struct Alarms {
    counter: Counter,
    /// The count came to the threshold.
    rested: Alarm,
    /// The count fell back from above it.
    moved: Alarm,
    /// The count fell back for the first time since the watch began, from below the threshold.
    first: Option<Alarm>,
}

impl Alarms {
    /// Sets the alarms; `None` where the server does not count.
    pub(super) fn set(link: &Link) -> Outcome<Option<Self>> {
        let Some(counter) = counter(link)? else { return Ok(None) };
        let rested = alarm(link, counter, THRESHOLD, TESTTYPE::POSITIVE_TRANSITION)?;
        let moved = alarm(link, counter, THRESHOLD, TESTTYPE::NEGATIVE_TRANSITION)?;
        let now = count(link, counter)?;
        let first = match now < THRESHOLD {
            true => Some(alarm(link, counter, now + 1, TESTTYPE::NEGATIVE_TRANSITION)?),
            false => None,
        };
        Ok(Some(Self { counter, rested, moved, first }))
    }

    /// How long until the screen has rested, if nobody uses it; nothing once it has.
    pub(super) fn rests_in(&self, link: &Link) -> Outcome<Option<Duration>> {
        let left = THRESHOLD - count(link, self.counter)?;
        Ok(u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis))
    }

    /// What an alarm means.
    pub(super) fn sign(&mut self, link: &Link, told: &AlarmNotifyEvent) -> Outcome<Option<Sign>> {
        if told.alarm == self.rested {
            return Ok(Some(Sign::Rested));
        }
        if let Some(first) = self.first.take_if(|first| *first == told.alarm) {
            link.sync_destroy_alarm(first)?;
            return Ok(Some(Sign::Moved));
        }
        Ok((told.alarm == self.moved).then_some(Sign::Moved))
    }
}

/// How long nobody has used the screen; `None` where its server does not count.
pub(super) fn length(link: &Link) -> Outcome<Option<Duration>> {
    let Some(counter) = counter(link)? else { return Ok(None) };
    Ok(u64::try_from(count(link, counter)?).ok().map(Duration::from_millis))
}

/// The server's counter.
fn counter(link: &Link) -> Outcome<Option<Counter>> {
    if link.extension_information(sync::X11_EXTENSION_NAME)?.is_none() {
        return Ok(None);
    }
    link.sync_initialize(3, 1)?.reply()?;
    let counters = link.sync_list_system_counters()?.reply()?.counters;
    Ok(counters.into_iter().find(|counter| counter.name == COUNTER).map(|found| found.counter))
}

/// What the counter says, in milliseconds.
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
