//! Retention of layers and downloads: what is removed when nothing needs it, and what earlier runs left.

use super::{INTERRUPTED, Templates, TemplatesState};
use crate::computers::runner::registry::FleetState;
use hotdesk_base::clock;
use hotdesk_base::ids::LayerId;
use hotdesk_domain::error::{Error, Result};

impl Templates {
    /// Removes the layers that nothing needs any more.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn remove_unused_layers(&self) -> Result<()> {
        for (layer, retained) in self.0.store.template_layers().await? {
            if retained.is_expired(clock::now())
                && self.0.store.claim_template_layer(layer, retained.used_at).await?
            {
                remove_layer(&self.0.fleet.shared, layer).await;
            }
        }
        Ok(())
    }

    /// Removes the downloads of accounts that are gone, and old ones; measures the rest.
    ///
    /// # Errors
    /// `Internal` when the database or the disk fails.
    pub async fn remove_old_downloads(&self) -> Result<()> {
        let bytes = self.0.downloads.sweep(&self.0.store.account_ids().await?).await?;
        metrics::gauge!("hotdesk_download_cache_bytes").set(bytes as f64);
        Ok(())
    }

    /// Gives the disk space of downloads when it is short: they only save time.
    ///
    /// # Errors
    /// `Internal` when the disk fails.
    pub async fn make_room(&self) -> Result<()> {
        self.0.downloads.make_room().await
    }

    /// Completes what an earlier run of the controller left: ends its builds, removes layers that are not complete, and
    /// forgets those that the host does not have.
    ///
    /// # Errors
    /// `Internal` when the database or the engine fails.
    pub async fn recover(&self) -> Result<()> {
        let TemplatesState { store, fleet, .. } = &*self.0;
        store.fail_unfinished_builds(INTERRUPTED).await?;
        let stored = store.template_layers().await?;
        let on_host = fleet.engine().layers().await.map_err(Error::internal)?;
        for (layer, retained) in &stored {
            if !retained.ready {
                remove_layer(&fleet.shared, *layer).await;
            } else if !on_host.contains(layer) {
                tracing::warn!(%layer, "the host does not have a layer of a template, which must be built again");
                store.remove_template_layer(*layer).await?;
            }
        }
        for layer in on_host {
            if stored.iter().all(|(known, _)| *known != layer) {
                remove_layer(&fleet.shared, layer).await;
            }
        }
        Ok(())
    }
}

/// Removes a layer from the host and then its row, after the boot snapshots above it. A failure is retried at
/// the next start.
pub(super) async fn remove_layer(fleet: &FleetState, layer: LayerId) {
    let removed = async {
        // The memory of its services, too.
        for machine in fleet.store.boot_snapshots_above(layer).await? {
            fleet.remove_boot_snapshot(machine).await?;
        }
        fleet.engine.remove_layer(layer).await.map_err(Error::internal)?;
        fleet.store.remove_template_layer(layer).await
    };
    let removed: Result<()> = removed.await;
    if let Err(error) = removed {
        tracing::warn!(%layer, error = format_args!("{error:#}"), "could not remove a layer; it is retried");
    }
}
