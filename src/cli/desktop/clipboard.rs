//! `hotdesk clipboard`: text or image on the clipboard of a screen.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use clap::{Args, Subcommand};
use reqwest::Method;

use super::{ScreenArg, send};
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::computers::ComputerArg;
use crate::failure::{Failure, Outcome};
use crate::{output, read_text};
use hotdesk_wire::desktop::clipboard::{Clipboard, SetClipboard};

/// `hotdesk clipboard`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the text on the clipboard, or write its image to a file.
    Get {
        #[command(flatten)]
        clipboard: ClipboardArg,
        /// File for the text or the image; `-` is standard output, the default.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Put a text or an image on the clipboard.
    Set {
        #[command(flatten)]
        clipboard: ClipboardArg,
        /// Text; `-` reads it from standard input.
        #[arg(allow_hyphen_values = true, required_unless_present = "image")]
        text: Option<String>,
        /// PNG file, instead of a text.
        #[arg(long, value_name = "FILE", conflicts_with = "text")]
        image: Option<PathBuf>,
    },
}

/// The clipboard that a command acts on.
#[derive(Debug, Args)]
pub struct ClipboardArg {
    #[command(flatten)]
    target: ComputerArg,
    #[command(flatten)]
    screen: ScreenArg,
    /// The last selection with the pointer, instead of what was copied.
    #[arg(long)]
    primary: bool,
}

/// Runs a subcommand.
///
/// # Errors
/// When a file or standard input cannot be read or written, the clipboard is empty, the server refuses the request or is
/// unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::Get { clipboard, output } => get(session, &clipboard, output.as_deref()).await,
        Command::Set { clipboard, text, image } => set(session, &clipboard, text, image.as_deref()).await,
    }
}

impl ClipboardArg {
    fn query(&self) -> [(&str, Option<&str>); 2] {
        [("screen", self.screen.screen.as_deref()), ("selection", self.primary.then_some("primary"))]
    }
}

async fn get(session: &Session, clipboard: &ClipboardArg, file: Option<&Path>) -> Outcome<()> {
    let id = resolve::computer(&session.api, &clipboard.target.computer).await?;
    let path = ["computers", &id, "clipboard"];
    let response =
        send(session, Method::GET, &path, &clipboard.query(), None::<&()>, REQUEST_TIMEOUT).await?;
    let held: Clipboard = response.decode()?;
    session.show(&response, || {
        let file = file.filter(|file| *file != Path::new("-"));
        let is_terminal = file.is_none() && std::io::stdout().is_terminal();
        let content = match (held.text, held.image) {
            (Some(text), _) if is_terminal => return output::line(&without_controls(&text)),
            (Some(text), _) => text.into_bytes(),
            (None, Some(_)) if is_terminal => {
                return Err(
                    "the clipboard has an image, which a terminal cannot show: use --output FILE".into()
                );
            }
            (None, Some(image)) => BASE64_STANDARD
                .decode(image)
                .map_err(|error| format!("the server returned an invalid image: {error}"))?,
            (None, None) => return Err("the clipboard has neither text nor image".into()),
        };
        match file {
            None => output::bytes(&content),
            Some(file) => {
                std::fs::write(file, &content)
                    .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
                output::line(&format!("{} ({} bytes)", file.display(), content.len()))
            }
        }
    })
}

async fn set(
    session: &Session,
    clipboard: &ClipboardArg,
    text: Option<String>,
    image: Option<&Path>,
) -> Outcome<()> {
    let (body, message) = match (text, image) {
        (Some(text), _) => {
            let text = read_text(text)?;
            let message = format!("The clipboard has {} characters.", text.chars().count());
            (SetClipboard { text: Some(text), ..SetClipboard::default() }, message)
        }
        (None, Some(file)) => {
            let image =
                std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            let message = format!("The clipboard has an image of {} bytes.", image.len());
            let image = Some(BASE64_STANDARD.encode(image));
            (SetClipboard { image, ..SetClipboard::default() }, message)
        }
        (None, None) => return Err(Failure::Usage("a text or --image is required".to_owned())),
    };
    let id = resolve::computer(&session.api, &clipboard.target.computer).await?;
    let path = ["computers", &id, "clipboard"];
    let response =
        send(session, Method::PUT, &path, &clipboard.query(), Some(&body), REQUEST_TIMEOUT).await?;
    session.show(&response, || output::line(&message))
}

/// Text for a terminal: control characters other than line ends and tabs could change the terminal.
fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}
