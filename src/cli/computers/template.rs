//! `hotdesk computers save-template`: a computer becomes a template.

use std::time::Duration;

use clap::Args;
use reqwest::Method;

use super::ComputerArg;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use crate::templates::reference;
use hotdesk_wire::computer::template::{SaveTemplate, Template};

/// The server copies the disk twice, each for up to half an hour, and may wait for builds of the account.
const SAVE_TIMEOUT: Duration = Duration::from_secs(2 * 3600);

/// `hotdesk computers save-template`.
#[derive(Debug, Args)]
pub struct SaveOptions {
    #[command(flatten)]
    target: ComputerArg,
    /// New template: NAME@VERSION.
    #[arg(value_name = "TEMPLATE")]
    new_template: String,
    /// What it is.
    #[arg(long)]
    description: Option<String>,
}

/// Saves a computer as a template, and waits until the template is ready.
///
/// # Errors
/// When the text is no template, or the server refuses the request or is unreachable.
pub async fn save(session: &Session, options: SaveOptions) -> Outcome<()> {
    let body = SaveTemplate {
        reference: reference(&options.new_template)?.to_string(),
        description: options.description,
    };
    let id = resolve::computer(&session.api, &options.target.computer).await?;
    let progress = Progress::operation("save-template", format!("saving {}", options.target.computer));
    let path = ["computers", &id, "template"];
    let response = session.api.call(Method::POST, &path, Some(&body), SAVE_TIMEOUT).await?;
    progress.complete();
    let saved: Template = response.decode()?;
    session.show(&response, || {
        output::line(&format!("Saved {} as {}.", options.target.computer, saved.reference))
    })
}
