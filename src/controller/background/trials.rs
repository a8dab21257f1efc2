//! Ends of trials.
//!
//! A computer whose trial ended is suspended where the engine saves memory, so that its owner finds it
//! unchanged after choosing a plan. Otherwise it is stopped.

use crate::computers::fleet::Fleet;
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::audit::{AuditAction, Entry};
use hotdesk_domain::computer::lifecycle::Command;
use hotdesk_domain::error::{Kind, Result};
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;

/// Ends of trials; cheap to clone.
#[derive(Clone)]
pub struct Trials {
    store: Store,
    fleet: Fleet,
    tasks: Tasks,
    /// Computers that are being stopped.
    ending: KeyedSemaphore<ComputerId>,
}

impl Trials {
    /// Creates the service of this fleet.
    pub fn new(store: Store, fleet: Fleet, tasks: Tasks) -> Self {
        Self { store, fleet, tasks, ending: KeyedSemaphore::default() }
    }

    /// Stops every computer that runs after the end of its trial. What fails is retried in the next round.
    pub(super) async fn end_expired(&self) -> Result<()> {
        let now = clock::now();
        for computer in self.store.computers_after_trial(now).await? {
            let memory = self.fleet.engine().offers().capabilities(computer.isolation).suspend;
            let Some(command) = computer.billing.trial_end_command(memory, now) else { continue };
            // An earlier round may still be busy with it. A slow runner must not delay the others.
            let Some(permit) = self.ending.try_acquire(computer.id, 1) else { continue };
            let trials = self.clone();
            let _ending = self.tasks.spawn("end of a trial", async move {
                let ended = trials.end_one(&computer, command).await;
                let recorded = match ended {
                    Ok(true) => trials.record_end(&computer).await,
                    Ok(false) => Ok(()),
                    Err(error) => Err(error),
                };
                if let Err(error) = recorded {
                    tracing::warn!(
                        computer = %computer.id,
                        error = format_args!("{error:#}"),
                        "could not stop the computer after its trial, or not record it"
                    );
                }
                drop(permit);
            });
        }
        Ok(())
    }

    /// Stops one computer. Returns whether this call stopped it, and not an earlier command or a prolonged
    /// trial.
    async fn end_one(&self, computer: &Computer, command: Command) -> Result<bool> {
        let accepted = self.fleet.command(computer, command).await?;
        let begun = accepted.begun;
        match accepted.finish().await {
            Err(error) if command == Command::EndBySuspend && error.kind != Kind::Unavailable => {
                // A computer must stop whatever it contains, but some engines cannot save memory while a
                // deleted file is open.
                tracing::warn!(
                    computer = %computer.id,
                    error = format_args!("{error:#}"),
                    "could not suspend the computer after its trial; it is stopped without its memory"
                );
                let stop = self.fleet.command(computer, Command::EndByStop).await?;
                let begun = stop.begun;
                stop.finish().await.map(|()| begun)
            }
            outcome => outcome.map(|()| begun),
        }
    }

    /// Adds an entry to the owner's audit log, because no request does.
    async fn record_end(&self, computer: &Computer) -> Result<()> {
        tracing::info!(computer = %computer.id, "stopped the computer because its trial ended");
        let entry = Entry {
            owner: Some(computer.owner),
            workspace: Some(computer.workspace),
            computer: Some(computer.id),
            ..Entry::of_the_service(clock::now(), AuditAction::TrialEnd)
        };
        self.store.add_audit(&[entry]).await
    }
}
