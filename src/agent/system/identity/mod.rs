//! Renewal of a computer's identity after a restore or a copy (T21, T28, docs/security.md).
//!
//! Order: token, clock, random pool, names, host keys. The token is first so that holders of the saved token
//! lose access.
//!
//! A failed part is reported with its reason and does not fail the others, because the engine may have
//! renewed it from outside: a container gets clock, random pool and host name from its host.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod kernel;
pub(super) mod keys;
mod names;

pub(super) use self::kernel::set_clock;
use crate::files::blocking;
use crate::state::Agent;
use crate::state::token::{self, Term};
use crate::system::env_file::EnvFile;
use hotdesk_base::clock;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::machine_identity::{check_hostname, check_time, clock_is_right, parse_seed};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::agent::{Renewal, RenewalResult};

const ROOT: &str = "/";

/// Renews the identity. `asked` is the term of the token that the request showed; it has ended on return. A
/// repeated call with the new token changes nothing but the host keys.
///
/// # Errors
/// `Invalid` for a bad field; `Unauthenticated` or `Unavailable` of [`token::Token::renew`]. Nothing is
/// renewed then.
pub async fn renew(agent: &Agent, asked: Term, renewal: Renewal) -> Result<RenewalResult> {
    let (off_ms, arrived) = (clock::now().as_i64() - renewal.unix_ms, Instant::now());
    let Renewal { agent_token, unix_ms, seed, hostname, another } = renewal;
    let (token, host_time) = (Secret::new(agent_token), UnixMillis::new(unix_ms));
    if !token::is_usable(token.reveal()) {
        return Err(Error::invalid("agent_token must be 16 to 1023 visible ASCII characters and no spaces"));
    }
    check_time(host_time)?;
    let seed = parse_seed(&seed)?;
    check_hostname(&hostname)?;
    let shared = agent.clone();
    blocking(move || shared.token.renew(&asked, token)).await?;
    agent.commands.clear_stock();
    agent.timelines.renew();

    let mut report = RenewalReport::default();
    report.renewed.push("token".to_owned());
    let clock = if clock_is_right(off_ms) { Ok(()) } else { kernel::set_clock(now(host_time, arrived)) };
    report.add("clock", clock.err());
    let (random, name, id) = blocking(move || {
        let root = Path::new(ROOT);
        let id = another.then(|| names::machine_id(root, &seed));
        Ok((kernel::mix(&seed), names::hostname(root, &hostname), id))
    })
    .await?;
    report.add("random", random.err());
    report.add("hostname", name);
    if let Some(id) = id {
        report.add("machine_id", id.err());
        agent.services.forget_outgoing();
        // The secrets in the saved memory are those of the other computer.
        let secrets = EnvFile::new(&agent.runtime_dir, &agent.home);
        if let Err(error) = blocking(move || Ok(secrets.remove())).await? {
            report.add("secrets", Some(error));
        }
        let services = agent.services.clone();
        if let Err(error) = blocking(move || Ok(services.remove_secret_files())).await? {
            report.add("files with secrets", Some(error));
        }
        let desktop = Arc::clone(&agent.desktop);
        if let Err(error) = blocking(move || Ok(desktop.clear_control())).await? {
            report.add("control of the screens", Some(error));
        }
        if let Some(keys) = keys::renew(Path::new(ROOT)).await {
            report.add("host_keys", keys);
        }
    }
    tracing::info!(renewed = ?report.renewed, failed = ?report.failed, off_ms, another, "identity renewed");
    Ok(RenewalResult { renewed: report.renewed, failed: report.failed, clock_was_off_ms: off_ms })
}

/// The host's time now, which was `host_time` at the instant `arrived`.
fn now(host_time: UnixMillis, arrived: Instant) -> Duration {
    host_time.since(UnixMillis::EPOCH).unwrap_or_default() + arrived.elapsed()
}

#[derive(Default)]
struct RenewalReport {
    renewed: Vec<String>,
    failed: Vec<String>,
}

impl RenewalReport {
    /// Adds a part and its failures; a part without any is renewed.
    fn add<E: std::fmt::Display>(&mut self, what: &str, failures: impl IntoIterator<Item = E>) {
        let why: Vec<String> = failures.into_iter().map(|failure| format!("{failure:#}")).collect();
        if why.is_empty() {
            self.renewed.push(what.to_owned());
        } else {
            self.failed.push(format!("{what}: {}", why.join("; ")));
        }
    }
}
