//! Bounds of mails that verify an address, and what an unverified address may not do.

use std::time::Duration;

use hotdesk_base::time::UnixMillis;

use crate::error::{Error, Result};

/// Shortest time between two mails to one address: a mail usually arrives within it.
const MIN_PAUSE: Duration = Duration::from_secs(60);
/// Most mails to one address in [`PERIOD`]. The maker of the account can request them, and the address may be
/// somebody else's.
const MAX_MAILS: u32 = 5;
/// Period of [`MAX_MAILS`].
const PERIOD: Duration = Duration::from_secs(24 * 3600);

/// Mails that were sent to the address of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailCount {
    /// Time of the last one.
    pub last: UnixMillis,
    /// Their number since `since`.
    pub sent: u32,
    /// Start of the period.
    pub since: UnixMillis,
}

/// Returns the count with one more mail.
///
/// # Errors
/// `RateLimited`, with the time until the next mail may be sent.
pub fn count_mail(previous: Option<&MailCount>, now: UnixMillis) -> Result<MailCount> {
    let first = MailCount { last: now, sent: 1, since: now };
    let Some(previous) = previous else { return Ok(first) };
    let next =
        if previous.sent < MAX_MAILS { previous.last.plus(MIN_PAUSE) } else { previous.since.plus(PERIOD) };
    if now < next {
        let seconds = (next.as_i64() - now.as_i64()) / 1000 + 1;
        return Err(Error::rate_limited(u32::try_from(seconds).unwrap_or(u32::MAX)));
    }
    if now >= previous.since.plus(PERIOD) {
        return Ok(first);
    }
    Ok(MailCount { last: now, sent: previous.sent + 1, since: previous.since })
}

/// Refuses what an address gives a right to, while the service can verify addresses and this one is not verified.
///
/// # Errors
/// `Forbidden`, with what to do.
pub fn check_verified(sends_mail: bool, verified: bool) -> Result<()> {
    if verified || !sends_mail {
        return Ok(());
    }
    Err(Error::forbidden(
        "Your e-mail address is not confirmed yet: open the link in the mail, or send another one from the settings",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_are_counted_by_time() {
        let minute = 60_000;
        let count = |last, sent, since| MailCount {
            last: UnixMillis::new(last * minute),
            sent,
            since: UnixMillis::new(since * minute),
        };
        for (previous, now, expected) in [
            (None, 5, Ok(count(5, 1, 5))),
            (Some(count(5, 1, 5)), 5, Err(61)),
            (Some(count(5, 1, 5)), 6, Ok(count(6, 2, 5))),
            (Some(count(9, 4, 5)), 10, Ok(count(10, 5, 5))),
            (Some(count(10, 5, 5)), 11, Err(24 * 3600 - 6 * 60 + 1)),
            (Some(count(10, 5, 5)), 24 * 60 + 5, Ok(count(24 * 60 + 5, 1, 24 * 60 + 5))),
            (Some(count(10, 2, 5)), 24 * 60 + 5, Ok(count(24 * 60 + 5, 1, 24 * 60 + 5))),
            // The clock was set back.
            (Some(count(10, 1, 5)), 5, Err(6 * 60 + 1)),
        ] {
            let found = count_mail(previous.as_ref(), UnixMillis::new(now * minute));
            let found = found.map_err(|error| error.retry_after.unwrap_or_default());
            assert_eq!(found, expected, "{previous:?} at {now}");
        }
    }

    #[test]
    fn only_an_address_that_could_be_verified_has_to_be() {
        for (sends_mail, verified, allowed) in
            [(true, true, true), (true, false, false), (false, false, true), (false, true, true)]
        {
            assert_eq!(check_verified(sends_mail, verified).is_ok(), allowed, "{sends_mail} {verified}");
        }
    }
}
