//! `hotdesk secrets rotate`: the keys that seal the secrets in a data folder.

use clap::Subcommand;

use super::admin::Folder;
use crate::failure::Outcome;
use crate::{output, runtime};
use hotdesk_controller::data_dir::lock;
use hotdesk_domain::plural::plural;
use hotdesk_store::database::Access;

/// Commands of the keys.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Seal all secrets in a data folder on this host with new keys, and replace the key in the key file. The
    /// controller must be stopped.
    Rotate {
        #[command(flatten)]
        folder: Folder,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// When the folder has no store or belongs to another user, a controller uses it, or the key file or the store cannot be
/// read or written. An interrupted rotation loses nothing: the same command completes it.
pub fn run(command: &Command) -> Outcome<()> {
    let Command::Rotate { folder } = command;
    let config = folder.load()?;
    let _lock = lock::acquire(&config.data_dir)?;
    runtime()?.block_on(async {
        let sealed = config.open_store(Access::Exclusive).await?.rotate_keys().await?;
        let all = plural(u32::try_from(sealed).unwrap_or(u32::MAX), "secret");
        output::line(&format!("Sealed {all} with new keys. Back the key file up again."))
    })
}
