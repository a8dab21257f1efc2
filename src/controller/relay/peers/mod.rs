//! Several controllers over one database: one leads, and the others forward requests to it (docs/postgresql.md).
//!
//! ```text
//!            lease taken: open the whole application
//! follower ------------------------------------------> leader --lease lost--> the process ends
//! ```
//! A follower opens neither the store nor an engine: it has only the connection of the lease.

mod fields;
mod forward;
pub mod shared_folders;
mod switch;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::time::timeout;

use crate::config::Config;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::Store;
use hotdesk_store::database::{Access, Epoch, LeaseAnswer, LeaseClient};

use switch::Role;
pub use switch::Switch;

/// Pause between two requests of a follower for the lease: with ten seconds of a lease, the application has four to start until
/// a killed leader has been replaced for 15 s.
const REQUEST_PAUSE: Duration = Duration::from_millis(500);

/// Longest time in which the leader prepares its folders. Nobody renews its lease meanwhile, after which it must write nothing.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A controller among several that does not lead.
#[derive(Debug)]
pub struct Candidate {
    config: Config,
    lease: LeaseClient,
    switch: Arc<Switch>,
}

impl Candidate {
    /// Checks what this controller must have in common with the others, and makes the tables of a new database; `None` for an
    /// only controller.
    ///
    /// # Errors
    /// `Internal` with a text for people, when a setting, the key file, the folder of stored files or the machines are not
    /// those of the other controllers; those of the database.
    pub async fn open(config: &Config, tasks: &Tasks) -> Result<Option<Self>> {
        let Some(database) = config.shared_database()? else { return Ok(None) };
        let mut lease = LeaseClient::open(database, &config.store.address).await?;
        if !lease.has_table().await? {
            // No controller of this version has used the database, so none of several leads.
            config.open_store(Access::Exclusive).await?.close().await;
        }
        Store::check_key_file(&mut lease, &config.key_file()).await?;
        shared_folders::check(config, &mut lease).await?;
        let switch = Arc::new(Switch::new(config, tasks)?);
        Ok(Some(Self { config: config.clone(), lease, switch }))
    }

    /// Returns the routes of this controller: those of a follower, until [`Switch::lead`].
    pub fn router(&self) -> Router {
        Switch::router(&self.switch)
    }

    /// Asks for the lease once. A failure of the database is logged, and leaves the leader that was known before.
    pub async fn request(&mut self) -> Option<Epoch> {
        match self.lease.request().await {
            Ok(LeaseAnswer::Leading(epoch)) => {
                self.switch.set_role(Role::Starting);
                return Some(epoch);
            }
            Ok(LeaseAnswer::Following(leader)) => self.switch.set_role(Role::Following(leader)),
            Err(error) => {
                tracing::warn!(
                    error = format_args!("{error:#}"),
                    "cannot ask for the lease; it is tried again"
                );
            }
        }
        None
    }

    /// Asks for the lease until this controller has it.
    pub async fn campaign(&mut self) -> Epoch {
        loop {
            tokio::time::sleep(REQUEST_PAUSE).await;
            if let Some(epoch) = self.request().await {
                return epoch;
            }
        }
    }

    /// Ends the lease that this controller may have got when [`Self::campaign`] was dropped.
    pub async fn release(&mut self) {
        self.lease.release().await;
    }

    /// Prepares the folders of the leader, and returns what serves requests and what renews the lease.
    ///
    /// # Errors
    /// Those of [`shared_folders::settle_machines`]; `Unavailable` when the database is silent. The lease is released then.
    pub async fn take_over(mut self) -> Result<(Arc<Switch>, LeaseClient)> {
        let settled = shared_folders::settle_machines(&self.config, &mut self.lease);
        let silent = || Error::unavailable("the database is silent");
        let settled = timeout(SETTLE_TIMEOUT, settled).await.unwrap_or_else(|_| Err(silent()));
        if let Err(error) = settled {
            self.lease.release().await;
            return Err(error);
        }
        Ok((self.switch, self.lease))
    }
}
