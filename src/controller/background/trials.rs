//! Which computers run on although their trial is over? They are ended: asleep where the engine keeps memory, so that whoever
//! chooses a plan finds all as it was, else stopped.

use std::sync::Arc;

use super::super::{App, Shared};
use hotdesk_base::clock::now_ms;
use hotdesk_domain::audit::{Action, Entry};
use hotdesk_domain::error::{Kind, Result};
use hotdesk_domain::lifecycle::{Command, Status};
use hotdesk_store::computers::Computer;

/// Ends every computer that runs after the end of its trial, at most a round late. What cannot be ended now is tried again in
/// the next one.
pub(super) async fn end(app: Shared) -> Result<()> {
    let (memory, now) = (app.fleet.engine().capabilities().suspend, now_ms());
    for computer in app.store.all_computers().await? {
        let due = computer.billing.end(memory, now).filter(|_| computer.status == Status::Running);
        let Some(command) = due else { continue };
        // An earlier round may be at it still: a runner that takes its time must not hold up the others.
        let Some(seat) = app.ending.admit(computer.id, 1) else { continue };
        let house = Arc::clone(&app);
        let _ending = app.tasks.spawn("end of a trial", async move {
            let ended = end_one(&house, &computer, command).await;
            let told = match ended {
                Ok(true) => tell(&house, &computer).await,
                Ok(false) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = told {
                tracing::warn!(computer = %computer.id, %error, "the end of its trial is not carried out, or not told");
            }
            drop(seat);
        });
    }
    Ok(())
}

/// Ends one; whether it was this that ended it, and not a command before it or a trial that was prolonged.
async fn end_one(app: &App, computer: &Computer, command: Command) -> Result<bool> {
    let accepted = app.fleet.command(computer, command).await?;
    let begun = accepted.begun;
    match accepted.finish().await {
        Err(error) if command == Command::EndBySuspend && error.kind != Kind::Unavailable => {
            // What is in a computer must not decide whether it goes on: some engines save no memory while a file is open that
            // was deleted.
            tracing::warn!(computer = %computer.id, %error, "its memory cannot be kept after its trial: it is stopped");
            let stop = app.fleet.command(computer, Command::EndByStop).await?;
            let begun = stop.begun;
            stop.finish().await.map(|()| begun)
        }
        outcome => outcome.map(|()| begun),
    }
}

/// Tells the workspace's owner by the log, where no request of anybody's does.
async fn tell(app: &App, computer: &Computer) -> Result<()> {
    tracing::info!(computer = %computer.id, "its trial is over: it was ended");
    let entry = Entry {
        owner: Some(computer.owner),
        workspace: Some(computer.workspace),
        computer: Some(computer.id),
        ..Entry::of_the_service(now_ms(), Action::TrialEnd)
    };
    app.store.add_audit(&[entry]).await
}
