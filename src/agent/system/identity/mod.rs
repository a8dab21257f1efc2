//! How does a computer that was saved become the one that it is now? (threats.md T21, T28) The token first, so that whoever
//! knows the saved one is out; then the clock; then what else it shares with its other copies.
//!
//! What cannot be renewed here is told with its reason, because an engine may have done it from outside: a container has the
//! clock, the random pool and the right to its name from its host.

use std::path::Path;
use std::time::{Duration, Instant};

mod kernel;
mod keys;
mod names;

pub(super) use self::kernel::set_clock;
use super::files::blocking;
use super::state::Agent;
use super::token::{self, Term};
use hotdesk_base::clock::now_ms;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::{check_hostname, check_time, clock_is_right, parse_seed};
use hotdesk_wire::agent::{Renewal, Renewed};

/// The root of the files that are renewed.
const ROOT: &str = "/";

/// Renews all that is asked for. `asked` is the term of the token that was shown; it is over when this returns. The same
/// again, with the new token, changes nothing but the host keys.
///
/// # Errors
/// `Invalid`; `Unauthenticated` or `Unavailable` as [`token::Token::renew`], and nothing was renewed.
pub async fn renew(agent: &Agent, asked: Term, renewal: Renewal) -> Result<Renewed> {
    let (off_ms, arrived) = (now_ms() - renewal.unix_ms, Instant::now());
    let Renewal { agent_token, unix_ms, seed, hostname, another } = renewal;
    let token = Secret::new(agent_token);
    if !token::usable(token.reveal()) {
        return Err(Error::invalid("agent_token must be 16 to 1023 visible ASCII characters and no spaces"));
    }
    check_time(unix_ms)?;
    let seed = parse_seed(&seed)?;
    check_hostname(&hostname)?;
    let keeper = agent.clone();
    blocking(move || keeper.token.renew(&asked, token)).await?;

    let mut report = Report::default();
    report.add("token", Ok(()));
    let clock = if clock_is_right(off_ms) { Ok(()) } else { kernel::set_clock(now(unix_ms, arrived)) };
    report.add("clock", clock);
    let (random, name, id) = blocking(move || {
        let root = Path::new(ROOT);
        let id = another.then(|| names::machine_id(root, &seed));
        Ok((kernel::mix(&seed), names::hostname(root, &hostname), id))
    })
    .await?;
    report.add("random", random);
    report.add("hostname", name);
    if let Some(id) = id {
        report.add("machine_id", id);
        if let Some(keys) = keys::renew(Path::new(ROOT)).await {
            report.add("host_keys", keys);
        }
    }
    tracing::info!(renewed = ?report.renewed, failed = ?report.failed, off_ms, another, "the identity was renewed");
    Ok(Renewed { renewed: report.renewed, failed: report.failed, clock_was_off_ms: off_ms })
}

/// The host's time now, that was `unix_ms` when `arrived`.
fn now(unix_ms: i64, arrived: Instant) -> Duration {
    Duration::from_millis(unix_ms.unsigned_abs()) + arrived.elapsed()
}

#[derive(Default)]
struct Report {
    renewed: Vec<String>,
    failed: Vec<String>,
}

impl Report {
    fn add(&mut self, what: &str, done: Result<(), String>) {
        match done {
            Ok(()) => self.renewed.push(what.to_owned()),
            Err(why) => self.failed.push(format!("{what}: {why}")),
        }
    }
}
