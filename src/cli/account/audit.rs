//! `hotdesk audit`: what was done, by whom, and what was refused?

use clap::Args;

use super::client::api::QUICK;
use super::client::{Session, resolve};
use super::failure::Outcome;
use super::output;
use hotdesk_wire::audit::{AuditEntry, AuditPage};

/// `hotdesk audit`.
#[derive(Debug, Args)]
pub struct Options {
    /// Only what was about this workspace: its id or name.
    #[arg(long)]
    workspace: Option<String>,
    /// Only what was about this computer: its id, instance id or name.
    #[arg(long)]
    computer: Option<String>,
    /// Only what was done with this key: its id.
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    /// Only from this moment on, for example 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only up to this moment.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// At most so many lines, the newest.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Go on where an earlier page ended.
    #[arg(long)]
    cursor: Option<String>,
}

/// Shows it.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let workspace = match &options.workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, wanted).await?),
        None => None,
    };
    let computer = match &options.computer {
        Some(wanted) => Some(resolve::computer(&session.api, wanted).await?),
        None => None,
    };
    let limit = options.limit.to_string();
    let query: Vec<(&str, &str)> = [
        ("workspace_id", workspace.as_deref()),
        ("computer_id", computer.as_deref()),
        ("key_id", options.key.as_deref()),
        ("since", options.since.as_deref()),
        ("until", options.until.as_deref()),
        ("cursor", options.cursor.as_deref()),
        ("limit", Some(limit.as_str())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    let answer = session.api.get(&["audit"], &query, QUICK).await?;
    let page: AuditPage = answer.decode()?;
    session.show(&answer, || {
        output::table(
            &["TIME", "WHO", "FROM", "WHAT", "RESULT", "COMPUTER", "REQUEST"],
            page.entries.into_iter().map(row).collect(),
        )?;
        match page.next_cursor {
            Some(cursor) => output::line(&format!("More: --cursor {cursor}")),
            None => Ok(()),
        }
    })
}

fn row(entry: AuditEntry) -> Vec<String> {
    let own = entry.method.is_empty();
    let unnamed = if own { "the service" } else { "nobody known" };
    // A key and an MCP client have names; of a person's decision `client` is whom it is about.
    let name = match entry.credential.as_deref() {
        Some("session") => entry.account_email.or(entry.client),
        _ => entry.client.or(entry.account_email),
    };
    let who = name.or(entry.account_id).or(entry.credential_id).unwrap_or_else(|| unnamed.to_owned());
    let what = match entry.action {
        Some(action) if own => action,
        Some(action) => format!("{} {} ({action})", entry.method, entry.route),
        None => format!("{} {}", entry.method, entry.route),
    };
    let result = match (entry.status, entry.code) {
        (Some(status), Some(code)) => format!("{} ({status} {code})", entry.result),
        (Some(status), None) => format!("{} ({status})", entry.result),
        (None, _) => entry.result,
    };
    vec![
        entry.at,
        who,
        entry.source.unwrap_or_default(),
        what,
        result,
        entry.computer_id.unwrap_or_default(),
        entry.request_id,
    ]
}
