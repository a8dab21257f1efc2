//! `hotdesk ssh-keys`: public SSH keys of the account.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output::{self, Column, Confirmation, ListView};
use crate::read_text;
use hotdesk_domain::identity::ssh_key::MAX_TEXT;
use hotdesk_wire::identity::ssh_key::{CreateSshKey, SshKey, SshKeyList};

/// `hotdesk ssh-keys`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the public keys that open SSH connections to computers.
    List {
        #[command(flatten)]
        view: ListView,
    },
    /// Add a public key.
    Add {
        /// File of the public key, such as ~/.ssh/id_ed25519.pub; `-` reads standard input.
        file: PathBuf,
        /// Name of the key; default: its comment.
        #[arg(long)]
        name: Option<String>,
    },
    /// Delete a public key. It opens no further connection; open ones go on.
    Delete {
        /// Key: name, id, or the beginning of its id.
        key: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// When the file cannot be read or holds a private key, or the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List { view } => {
            let response = session.api.get(&["keys", "ssh"], &[], REQUEST_TIMEOUT).await?;
            let list: SshKeyList = response.decode()?;
            session.show(&response, || {
                let row = |it: SshKey| {
                    let kind = it.public_key.split(' ').next().unwrap_or_default().to_owned();
                    vec![it.name, kind, it.fingerprint, it.id]
                };
                let rows = list.keys.into_iter().map(row).collect();
                let columns = [
                    Column::Text("NAME"),
                    Column::Text("TYPE"),
                    Column::Text("FINGERPRINT"),
                    Column::Id("ID"),
                ];
                let empty = "There are no SSH keys. Add one: hotdesk ssh-keys add ~/.ssh/id_ed25519.pub";
                output::list(view, &columns, rows, empty)
            })
        }
        Command::Add { file, name } => {
            let body = CreateSshKey { name, public_key: read(&file)? };
            let response =
                session.api.call(Method::POST, &["keys", "ssh"], Some(&body), REQUEST_TIMEOUT).await?;
            let added: SshKey = response.decode()?;
            session.show(&response, || {
                output::line(&format!("Added SSH key {} ({}).", added.name, added.fingerprint))
            })
        }
        Command::Delete { key, confirmation } => {
            let id = resolve::ssh_key(&session.api, &key).await?;
            confirmation.ask(async || Ok(format!("Delete SSH key {key}?"))).await?;
            let path = ["keys", "ssh", &id];
            let response = session.api.call(Method::DELETE, &path, None::<&()>, REQUEST_TIMEOUT).await?;
            session.show(&response, || output::line(&format!("Deleted SSH key {key}.")))
        }
    }
}

/// Reads a public key; a private one never leaves this host.
fn read(file: &Path) -> Outcome<String> {
    let shown = file.display();
    let text = if file.as_os_str() == "-" {
        read_text("-".to_owned())?
    } else {
        let length = std::fs::metadata(file).map(|facts| facts.len());
        let length = length.map_err(|error| format!("cannot read {shown}: {error}"))?;
        // Of a private key of any size, only the beginning is needed.
        let text = std::fs::read(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
        if length > 4 * MAX_TEXT as u64 {
            return Err(format!("{shown} is no public SSH key: it has {length} bytes").into());
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    if text.contains("PRIVATE KEY") {
        let public = Path::new(&format!("{shown}.pub")).exists();
        let hint = if public {
            format!("add {shown}.pub")
        } else {
            format!("make the public one: ssh-keygen -y -f {shown} >{shown}.pub")
        };
        return Err(format!("{shown} is a private key and stays on this host; {hint}").into());
    }
    Ok(text)
}
