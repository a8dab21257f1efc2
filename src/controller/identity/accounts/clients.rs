//! Clients of an operator.

use crate::computers::fleet::Fleet;
use crate::data_dir::blobs::BlobStore;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Caller, check_account_wide};
use hotdesk_store::Store;
use hotdesk_store::identity::clients::Client;

/// Clients of all operators.
pub struct Clients {
    store: Store,
    fleet: Fleet,
    blobs: BlobStore,
}

impl Clients {
    /// Creates the service of the stored clients.
    pub fn new(store: Store, fleet: Fleet, blobs: BlobStore) -> Self {
        Self { store, fleet, blobs }
    }

    /// Finds a client of the caller's account by its id.
    ///
    /// # Errors
    /// `NotFound` ("Client not found"), also for another account's client; `Forbidden` for a scoped key.
    pub async fn find(&self, caller: &Caller, id: &str) -> Result<Client> {
        check_account_wide(caller, "see clients")?;
        let id = id.parse().map_err(|_| Error::not_found("Client not found"))?;
        self.store.client(caller.account, id).await
    }

    /// Removes a client with its workspace and files, and with its computers if `computers_too`.
    ///
    /// # Errors
    /// The errors of [`Store::begin_client_removal`]; the first error of a deletion. A repeated call
    /// continues.
    pub async fn remove(&self, client: &Client, computers_too: bool) -> Result<()> {
        self.store.begin_client_removal(client, computers_too).await?;
        if let Some(workspace) = client.workspace {
            self.fleet.remove_computers(client.account, workspace).await?;
        }
        let files = self.store.finish_client_removal(client).await?;
        self.blobs.forget(&files).await;
        Ok(())
    }
}
