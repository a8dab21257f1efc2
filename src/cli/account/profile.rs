//! `hotdesk profile`: which servers are known, and by which keys?

use clap::Subcommand;
use serde_json::json;

use super::client::connection;
use super::client::credentials::{self, Credentials, Profile, hint};
use super::failure::{Failure, Outcome};
use super::{output, read_secret};
use hotdesk_base::secret::Secret;

/// Longest key in bytes: several times the service's own.
const MAX_KEY: u64 = 1024;

/// `hotdesk profile`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Store a server's address and a key to it; the key is read from standard input. It becomes the profile in use.
    Set {
        /// The profile's name.
        name: String,
        /// Leave the profile in use as it is, if there is one.
        #[arg(long)]
        keep_current: bool,
    },
    /// Show the profiles; never their keys.
    #[command(visible_alias = "list")]
    Show,
    /// Use another profile.
    Use {
        /// The profile's name.
        name: String,
    },
}

/// Does it. `url` is `--url` or `HOTDESK_URL`.
///
/// # Errors
/// When the key or the credentials file is no good.
pub fn run(command: Command, url: Option<&str>, json: bool) -> Outcome<()> {
    let path = credentials::path()?;
    let mut known = Credentials::load(&path)?;
    match command {
        Command::Set { name, keep_current } => {
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(Failure::Usage("a profile needs a name".to_owned()));
            }
            let url = url.unwrap_or(connection::DEFAULT_URL);
            connection::base(url).map_err(Failure::Usage)?;
            let key = read_key()?;
            let said = format!("Stored {name}: {url} with key {}.", hint(&key));
            known.profiles.insert(name.clone(), Profile { key, url: url.to_owned() });
            if !keep_current || known.current.is_none() {
                known.current = Some(name);
            }
            known.save(&path)?;
            output::line(&said)
        }
        Command::Use { name } => {
            if !known.profiles.contains_key(&name) {
                return Err(format!("there is no profile {name:?}").into());
            }
            known.current = Some(name.clone());
            known.save(&path)?;
            output::line(&format!("{name} is in use now."))
        }
        Command::Show => show(&known, json),
    }
}

fn show(known: &Credentials, json: bool) -> Outcome<()> {
    let current = |name: &String| known.current.as_ref() == Some(name);
    if json {
        let profiles: Vec<_> = known
            .profiles
            .iter()
            .map(|(name, it)| json!({"name": name, "current": current(name), "url": it.url, "key": hint(&it.key)}))
            .collect();
        return output::line(&json!({ "profiles": profiles }).to_string());
    }
    if known.profiles.is_empty() {
        return output::line("There are no profiles: hotdesk profile set NAME --url URL");
    }
    let row = |(name, it): (&String, &Profile)| {
        let mark = if current(name) { "*" } else { "" };
        vec![mark.to_owned(), name.clone(), it.url.clone(), hint(&it.key)]
    };
    output::table(&["", "NAME", "URL", "KEY"], known.profiles.iter().map(row).collect())
}

/// The key from standard input.
fn read_key() -> Result<Secret, Failure> {
    let text = read_secret("API key: ", MAX_KEY)?;
    let key = text.reveal().trim();
    let fits = key.len() as u64 <= MAX_KEY && key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.is_empty() || !fits {
        return Err("standard input holds no API key (one line of visible ASCII)".into());
    }
    Ok(Secret::new(key))
}
