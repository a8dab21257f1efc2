//! How are computers started, stopped, restarted, suspended and woken? The verb is sent, then the computer is watched until it is there.

use clap::Args;
use reqwest::Method;

use super::client::api::QUICK;
use super::client::{Session, resolve, settle};
use super::failure::Outcome;
use super::output;
use super::progress::Progress;
use hotdesk_wire::computer::Transition;

/// Which computer, and whether to wait for it.
#[derive(Debug, Args)]
pub struct Change {
    /// Its id, instance id or name.
    computer: String,
    /// Return as soon as the change is under way.
    #[arg(long)]
    no_wait: bool,
}

/// What shall happen.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    /// It shall run.
    Start,
    /// It shall be stopped.
    Stop,
    /// It shall stop and run again.
    Restart,
    /// It shall sleep, with its memory kept.
    Suspend,
    /// It shall go on from its memory.
    Resume,
}

impl Verb {
    /// The path's last segment (wire.md 5.2), what is under way, and the status in which it ends.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Start => ("start", "starting", "running"),
            Self::Stop => ("stop", "stopping", "stopped"),
            Self::Restart => ("restart", "restarting", "running"),
            Self::Suspend => ("suspend", "suspending", "suspended"),
            Self::Resume => ("resume", "waking", "running"),
        }
    }
}

/// Does it.
///
/// # Errors
/// When the server refuses or is not reached, or the computer does not come to be so.
pub async fn run(session: &Session, verb: Verb, change: &Change) -> Outcome<()> {
    let (segment, under_way, wanted) = verb.words();
    let id = resolve::computer(&session.api, &change.computer).await?;
    let waiting = Progress::waiting(format!("{under_way} {}", change.computer));
    let answer = session.api.call(Method::POST, &["computers", &id, segment], None::<&()>, QUICK).await?;
    if change.no_wait {
        drop(waiting);
        let transition: Transition = answer.decode()?;
        return session
            .show(&answer, || output::line(&format!("{} is {}.", change.computer, transition.status)));
    }
    let (computer, answer) = settle::until(&session.api, &id, wanted).await?;
    drop(waiting);
    session.show(&answer, || output::line(&format!("{} is {}.", computer.name, computer.status)))
}
