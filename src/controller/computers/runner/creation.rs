//! Creation and removal of a computer's machine.
//!
//! A machine is created empty or as a copy, and booted. Any failure is undone, because the client has not
//! seen the computer yet.

use super::{AfterWork, Runner, Work, machine_spec, refused};
use crate::data_dir::blobs::PictureKind;
use hotdesk_base::ids::{ComputerId, SnapshotId};
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::prepared::services::ServiceStart;
use hotdesk_domain::error::Result;
use hotdesk_engine::EngineResult;
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;

/// Attempts to remove a machine; afterwards the next start of the controller retries.
const REMOVAL_ATTEMPTS: u32 = 3;
const FAILED: &str = "Computer could not be created";

/// Initial contents of a new machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum MachineSource {
    /// An empty disk.
    Empty {
        /// Start of the services of the template.
        services: ServiceStart,
        /// Whether a host with few computers of the same workspace is preferred.
        spread: bool,
    },
    /// A copy of another computer's disk.
    Disk(ComputerId),
    /// A copy of another computer's disk and memory, as they are or were in a snapshot.
    Memory(ComputerId, Option<SnapshotId>),
}

impl Runner {
    /// Creates the machine of a new row.
    pub(super) async fn create(&mut self, row: &Computer, from: MachineSource) -> (Result<()>, AfterWork) {
        self.show(Status::Creating, None, None);
        let made = match self.encrypt_folder().await {
            Ok(()) => self.make(row, from).await,
            Err(error) => Err(error),
        };
        let published = match made {
            Ok(guest) => {
                self.note_host().await;
                if matches!(from, MachineSource::Memory(..)) {
                    self.follow_boot_screen(&guest);
                }
                match self.begin_new_template(row, &guest, from).await {
                    Ok(()) => self.publish_guest(row, guest).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match published {
            Ok(()) => (Ok(()), AfterWork::Continue),
            Err(error) => {
                tracing::warn!(
                    computer = %self.id,
                    error = format_args!("{error:#}"),
                    "could not create the computer; removing its remains"
                );
                let (removed, next) = self.remove().await;
                if let Err(again) = removed {
                    tracing::error!(
                        computer = %self.id,
                        error = format_args!("{again:#}"),
                        "could not remove the remains of a failed create; the next start retries"
                    );
                }
                (Err(error), next)
            }
        }
    }

    /// Makes the folder encrypted, if the row says so, before anything is in it.
    async fn encrypt_folder(&self) -> Result<()> {
        let encrypted = self.shared.file_keys.encrypt(self.id).await?;
        encrypted.map_err(|error| refused(FAILED, &error))
    }

    async fn make(&mut self, row: &Computer, from: MachineSource) -> Result<Guest> {
        match from {
            MachineSource::Empty { services, spread } => self.make_empty(row, services, spread).await,
            MachineSource::Disk(source) => {
                self.copied_from(source, Work::CopyTo(self.id)).await?;
                self.bring_up(row, true).await
            }
            MachineSource::Memory(source, at) => self.make_fork(source, at).await,
        }
    }

    /// Makes a machine with an empty disk, booted now or once for all of its size.
    async fn make_empty(&mut self, row: &Computer, services: ServiceStart, spread: bool) -> Result<Guest> {
        // Of new rows only those that claimed a machine of the pool have such a token.
        if row.saved_token.is_some()
            && let Some(guest) = self.take_from_pool(row).await.map_err(|error| refused(FAILED, &error))?
        {
            return Ok(guest);
        }
        let begun = self.begin_from_boot_snapshot(row, services).await;
        if let Some(guest) = begun.map_err(|error| refused(FAILED, &error))? {
            return Ok(guest);
        }
        let spec = machine_spec(row);
        let made = match self.shared.place(row, spread).await? {
            Some(host) => self.shared.engine.create_on(&spec, &host).await,
            None => self.shared.engine.create(&spec).await,
        };
        made.map_err(|error| refused(FAILED, &error))?;
        self.bring_up(row, false).await
    }

    /// Makes a machine with the disk and memory of another.
    async fn make_fork(&mut self, source: ComputerId, at: Option<SnapshotId>) -> Result<Guest> {
        let work = at.map_or(Work::ForkTo(self.id), |snapshot| Work::Launch(snapshot, self.id));
        self.copied_from(source, work).await?;
        // With the token in the memory, which the copy has stored.
        let row = self.row().await?;
        self.resume_as_fork(&row).await
    }

    /// Removes the machine and its row. If the machine cannot be removed, the row stays `deleting` for the
    /// next attempt.
    pub(super) async fn remove(&mut self) -> (Result<()>, AfterWork) {
        self.show(Status::Deleting, None, None);
        if let Err(error) = self.shared.store.set_status(self.id, Status::Deleting).await {
            return (Err(error), AfterWork::Continue);
        }
        let mut last: EngineResult<()> = Ok(());
        for attempt in 0..REMOVAL_ATTEMPTS {
            last = self.shared.engine.destroy(self.id).await;
            match &last {
                Ok(()) => break,
                Err(error) => tracing::warn!(
                    computer = %self.id,
                    attempt,
                    error = format_args!("{error:#}"),
                    "could not remove the machine"
                ),
            }
        }
        if let Err(error) = last {
            return (Err(refused("Computer could not be removed", &error)), AfterWork::Continue);
        }
        match self.shared.store.remove_computer(self.id).await {
            Ok(blobs) => {
                self.shared.blobs.forget(&blobs.files).await;
                self.shared.blobs.forget_pictures(PictureKind::Step, &blobs.step_pictures).await;
                self.shared.blobs.forget_pictures(PictureKind::Timeline, &blobs.timeline_pictures).await;
                self.shared.blobs.forget_pictures(PictureKind::Snapshot, &blobs.snapshot_pictures).await;
                if let Some(archive) = &self.shared.archive {
                    archive.wake();
                }
                (Ok(()), AfterWork::Exit)
            }
            Err(error) => (Err(error), AfterWork::Continue),
        }
    }
}
