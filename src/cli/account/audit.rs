//! `hotdesk audit`: audit log of the account.

use clap::Args;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output::{self, Column, ListView};
use hotdesk_wire::audit::{AuditEntry, AuditPage};

/// `hotdesk audit`.
#[derive(Debug, Args)]
pub struct Options {
    /// Only entries about this workspace (id or name).
    #[arg(long)]
    workspace: Option<String>,
    /// Only entries about this computer (id, instance id or name).
    #[arg(long)]
    computer: Option<String>,
    /// Only actions with this API key (id or name).
    #[arg(long)]
    key: Option<String>,
    /// Only entries from this time on, for example 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only entries up to this time.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Largest number of entries; the newest are shown.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Cursor of the next page, from the last line of the previous one.
    #[arg(long)]
    cursor: Option<String>,
    /// Print whole ids and request ids on a terminal, too. Elsewhere this is the default.
    #[arg(long)]
    wide: bool,
}

/// Prints one page of the log.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let workspace = match &options.workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, wanted).await?),
        None => None,
    };
    let computer = match &options.computer {
        Some(wanted) => Some(resolve::computer(&session.api, wanted).await?),
        None => None,
    };
    let key = match &options.key {
        Some(wanted) => Some(resolve::key(&session.api, wanted).await?),
        None => None,
    };
    let limit = options.limit.to_string();
    let query: Vec<(&str, &str)> = [
        ("workspace_id", workspace.as_deref()),
        ("computer_id", computer.as_deref()),
        ("key_id", key.as_deref()),
        ("since", options.since.as_deref()),
        ("until", options.until.as_deref()),
        ("cursor", options.cursor.as_deref()),
        ("limit", Some(limit.as_str())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    let response = session.api.get(&["audit"], &query, REQUEST_TIMEOUT).await?;
    let page: AuditPage = response.decode()?;
    session.show(&response, || {
        let columns = [
            Column::Text("TIME"),
            Column::Text("WHO"),
            Column::Text("FROM"),
            Column::Text("WHAT"),
            Column::Text("RESULT"),
            Column::Id("COMPUTER"),
            Column::Wide("REQUEST"),
        ];
        let rows = page.entries.into_iter().map(row).collect();
        output::list(ListView::rows(options.wide), &columns, rows, "No entries match.")?;
        match page.next_cursor {
            Some(cursor) => output::line(&format!("More: --cursor {cursor}")),
            None => Ok(()),
        }
    })
}

fn row(entry: AuditEntry) -> Vec<String> {
    let internal = entry.method.is_empty();
    let fallback = if internal { "the service" } else { "unauthenticated" };
    // For a key or an MCP client, `client` is the caller's name. For a person's decision it is the subject instead.
    let name = match entry.credential.as_deref() {
        Some("session") => entry.account_email.or(entry.client),
        _ => entry.client.or(entry.account_email),
    };
    let who = name.or(entry.account_id).or(entry.credential_id).unwrap_or_else(|| fallback.to_owned());
    let what = match entry.action {
        Some(action) if internal => action,
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
