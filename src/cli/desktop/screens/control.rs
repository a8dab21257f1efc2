//! `hotdesk control`: who may act on a screen.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Serialize;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::computers::ComputerArg;
use crate::desktop::share::seconds;
use crate::desktop::{ScreenArg, printable, send};
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::desktop::action::control::{ActorName, HandBack, ScreenControl, TakeControl};

/// Id of the boot screen.
const BOOT_SCREEN: &str = "default";

/// `hotdesk control`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print who controls a screen, and the request for help that waits.
    Show(ControlArg),
    /// Take control of a screen, or renew it; input of others is refused meanwhile.
    Take {
        #[command(flatten)]
        control: ControlArg,
        /// Time until it ends by itself: seconds, or for example 90s, 15m or 1h; at most 1h.
        #[arg(long, value_name = "TIME", default_value = "1m", value_parser = seconds)]
        seconds: u32,
        /// What others are told, the former holder as well.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Take it from another holder, as an admin or the owner of the workspace.
        #[arg(long)]
        force: bool,
    },
    /// Hand a screen back.
    HandBack {
        #[command(flatten)]
        control: ControlArg,
        /// What the one who acts next is told.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Hand it back for another holder, as an admin or the owner of the workspace.
        #[arg(long)]
        force: bool,
    },
    /// Answer the request for help that waits on a screen.
    Answer {
        #[command(flatten)]
        control: ControlArg,
        /// The answer.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

/// The screen that a command is about.
#[derive(Debug, Args)]
pub struct ControlArg {
    #[command(flatten)]
    target: ComputerArg,
    #[command(flatten)]
    screen: ScreenArg,
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::Show(control) => request(session, &control, Method::GET, &[], None, None::<&()>).await,
        Command::Take { control, seconds, note, force } => {
            let (body, force) = (TakeControl { seconds: Some(seconds), note }, force.then_some("true"));
            request(session, &control, Method::POST, &[], force, Some(&body)).await
        }
        Command::HandBack { control, note, force } => {
            let (body, force) = (HandBack { note }, force.then_some("true"));
            request(session, &control, Method::POST, &["hand_back"], force, Some(&body)).await
        }
        Command::Answer { control, note } => {
            let body = HandBack { note };
            request(session, &control, Method::POST, &["answer"], None, Some(&body)).await
        }
    }
}

async fn request<B: Serialize>(
    session: &Session,
    control: &ControlArg,
    method: Method,
    more: &[&str],
    force: Option<&str>,
    body: Option<&B>,
) -> Outcome<()> {
    let id = resolve::computer(&session.api, &control.target.computer).await?;
    let screen = control.screen.screen.as_deref().unwrap_or(BOOT_SCREEN);
    let path = [&["computers", &id, "screens", screen, "control"][..], more].concat();
    let response = send(session, method, &path, &[("force", force)], body, REQUEST_TIMEOUT).await?;
    let now: ScreenControl = response.decode()?;
    session.show(&response, || lines(&now).iter().try_for_each(|line| output::line(line)))
}

/// The lines for a person. All of their texts come from inside the computer.
fn lines(now: &ScreenControl) -> Vec<String> {
    let mut lines = vec![match (&now.holder, &now.expires_at) {
        (Some(holder), Some(until)) => {
            format!("{} controls {} until {until}{}", name(holder), now.screen, noted(now.note.as_deref()))
        }
        (Some(_) | None, _) => format!("Nobody controls {}.", now.screen),
    }];
    if let Some(help) = &now.help {
        let by = help.by.as_ref().map_or_else(|| "Somebody".to_owned(), name);
        lines.push(format!("{by} asks for help until {}: {}", help.expires_at, help.message));
    }
    if let Some(last) = &now.last_hand_back {
        let by = last.by.as_ref().map_or_else(|| "the end of the time".to_owned(), name);
        lines.push(format!("Last handed back at {} by {by}{}", last.at, noted(last.note.as_deref())));
    }
    lines.iter().map(|line| printable(line)).collect()
}

fn name(actor: &ActorName) -> String {
    match &actor.id {
        Some(id) => format!("{} {id}", actor.kind),
        None => actor.kind.clone(),
    }
}

fn noted(note: Option<&str>) -> String {
    note.map_or_else(|| ".".to_owned(), |note| format!(": {note}"))
}

#[cfg(test)]
mod tests {
    use hotdesk_wire::desktop::action::control::{HelpRequest, LastHandBack};

    use super::*;

    #[test]
    fn a_person_reads_who_controls_the_screen() {
        let free = ScreenControl { screen: "default".to_owned(), ..ScreenControl::default() };
        assert_eq!(lines(&free), ["Nobody controls default."]);
        let actor =
            |kind: &str, id: Option<&str>| ActorName { kind: kind.to_owned(), id: id.map(str::to_owned) };
        let held = ScreenControl {
            holder: Some(actor("key", Some("k1"))),
            note: Some("I sign\nin".to_owned()),
            expires_at: Some("T1".to_owned()),
            help: Some(HelpRequest {
                message: "a code".to_owned(),
                by: Some(actor("thread", Some("t1"))),
                since: "T0".to_owned(),
                expires_at: "T2".to_owned(),
            }),
            last_hand_back: Some(LastHandBack { by: None, note: None, at: "T0\x1b[2J".to_owned() }),
            ..free
        };
        assert_eq!(
            lines(&held),
            [
                "key k1 controls default until T1: I sign in",
                "thread t1 asks for help until T2: a code",
                "Last handed back at T0 [2J by the end of the time.",
            ]
        );
    }
}
