//! `hotdesk profile`: stored servers and their API keys.

use clap::Subcommand;
use serde_json::json;

use crate::client::connection;
use crate::client::credentials::{self, Credentials, Profile, hint};
use crate::failure::{Failure, Outcome};
use crate::{output, read_secret};
use hotdesk_base::secret::Secret;

/// Longest key in bytes: several times the length of the service's keys.
const MAX_KEY: u64 = 1024;

/// `hotdesk profile`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Store a server address and an API key (read from standard input) as the current profile.
    Set {
        /// Profile name.
        name: String,
        /// Do not change the current profile.
        #[arg(long)]
        keep_current: bool,
    },
    /// List profiles; keys are masked.
    #[command(visible_alias = "list")]
    Show,
    /// Select the current profile.
    Use {
        /// Profile name.
        name: String,
    },
}

/// Runs a subcommand. `url` is `--url` or `HOTDESK_URL`.
///
/// # Errors
/// When the name, URL or key is invalid, the profile does not exist, or the credentials file cannot be read or written.
pub fn run(command: Command, url: Option<&str>, json: bool) -> Outcome<()> {
    let path = credentials::path()?;
    let mut stored = Credentials::load(&path)?;
    match command {
        Command::Set { name, keep_current } => {
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(Failure::Usage(
                    "the profile name is empty or contains control characters".to_owned(),
                ));
            }
            let url = url.unwrap_or(connection::DEFAULT_URL);
            connection::base(url).map_err(Failure::Usage)?;
            let key = read_key()?;
            let message = format!("Stored profile {name}: {url} with key {}.", hint(&key));
            stored.profiles.insert(name.clone(), Profile { key, url: url.to_owned() });
            if !keep_current || stored.current.is_none() {
                stored.current = Some(name);
            }
            stored.save(&path)?;
            output::line(&message)
        }
        Command::Use { name } => {
            if !stored.profiles.contains_key(&name) {
                return Err(
                    format!("there is no profile {name:?}: list them with `hotdesk profile show`").into()
                );
            }
            stored.current = Some(name.clone());
            stored.save(&path)?;
            output::line(&format!("{name} is the current profile."))
        }
        Command::Show => show(&stored, json),
    }
}

fn show(stored: &Credentials, json: bool) -> Outcome<()> {
    let current = |name: &String| stored.current.as_ref() == Some(name);
    if json {
        let profiles: Vec<_> = stored
            .profiles
            .iter()
            .map(|(name, it)| json!({"name": name, "current": current(name), "url": it.url, "key": hint(&it.key)}))
            .collect();
        return output::line(&json!({ "profiles": profiles }).to_string());
    }
    if stored.profiles.is_empty() {
        return output::line("There are no profiles. Add one: hotdesk profile set NAME --url URL");
    }
    let row = |(name, it): (&String, &Profile)| {
        let mark = if current(name) { "*" } else { "" };
        vec![mark.to_owned(), name.clone(), it.url.clone(), hint(&it.key)]
    };
    output::table(&["", "NAME", "URL", "KEY"], stored.profiles.iter().map(row).collect())
}

/// Reads the key from standard input.
fn read_key() -> Result<Secret, Failure> {
    let text = read_secret("API key: ", MAX_KEY)?;
    let key = text.reveal().trim();
    let fits = key.len() as u64 <= MAX_KEY && key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.is_empty() || !fits {
        return Err("standard input contains no API key: pass one line of printable ASCII".into());
    }
    Ok(Secret::new(key))
}
