//! `hotdesk screens`: screens of a computer.

pub mod control;

use std::str::FromStr;

use clap::Subcommand;
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::computers::{ComputerArg, ComputerListArg};
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::desktop::action::{ResizeScreen, Screen, ScreenList, ScreenSize};

/// `hotdesk screens`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List screens, the boot screen first.
    #[command(visible_alias = "ls")]
    List(ComputerListArg),
    /// Create a screen: an independent desktop with its own pointer and windows.
    Create {
        #[command(flatten)]
        target: ComputerArg,
        /// Size in pixels; default: that of the boot screen.
        #[arg(value_name = "WIDTHxHEIGHT")]
        size: Option<Dimensions>,
    },
    /// Change the size of a screen; its windows stay.
    Resize {
        #[command(flatten)]
        target: ComputerArg,
        /// Screen id; `default` is the boot screen.
        screen: String,
        /// Size in pixels.
        #[arg(value_name = "WIDTHxHEIGHT")]
        size: Dimensions,
    },
    /// Delete a screen and end everything on it.
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        target: ComputerArg,
        /// Screen id.
        screen: String,
    },
}

/// Width and height in pixels, written as 1280x720. The server checks the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions(u32, u32);

impl FromStr for Dimensions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sides = text
            .split_once('x')
            .and_then(|(width, height)| Some(Self(width.parse().ok()?, height.parse().ok()?)));
        sides.ok_or_else(|| "use a width and a height in pixels, for example 1280x720".to_owned())
    }
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    let api = &session.api;
    match command {
        Command::List(ComputerListArg { target, watch }) => {
            watch.run(async || list(session, &target).await).await
        }
        Command::Create { target, size } => {
            let id = resolve::computer(api, &target.computer).await?;
            let body = ScreenSize { width: size.map(|size| size.0), height: size.map(|size| size.1) };
            let path = ["computers", &id, "screens"];
            let response = api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
            let made: Screen = response.decode()?;
            session.show(&response, || {
                output::line(&format!("{} has {}x{} pixels.", made.id, made.width, made.height))
            })
        }
        Command::Resize { target, screen, size } => {
            let id = resolve::computer(api, &target.computer).await?;
            let body = ResizeScreen { width: size.0, height: size.1 };
            let path = ["computers", &id, "screens", &screen];
            let response = api.call(Method::PATCH, &path, Some(&body), REQUEST_TIMEOUT).await?;
            let resized: Screen = response.decode()?;
            session.show(&response, || {
                output::line(&format!("{} has {}x{} pixels.", resized.id, resized.width, resized.height))
            })
        }
        Command::Delete { target, screen } => {
            let id = resolve::computer(api, &target.computer).await?;
            let path = ["computers", &id, "screens", &screen];
            let response = api.call(Method::DELETE, &path, None::<&()>, REQUEST_TIMEOUT).await?;
            session.show(&response, || output::line(&format!("Deleted {screen}.")))
        }
    }
}

async fn list(session: &Session, target: &ComputerArg) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id, "screens"], &[], REQUEST_TIMEOUT).await?;
    let list: ScreenList = response.decode()?;
    session.show(&response, || {
        let row = |it: Screen| {
            let boot = if it.default { "boot screen" } else { "" };
            vec![it.id, format!("{}x{}", it.width, it.height), it.display, boot.to_owned()]
        };
        output::table(&["ID", "SIZE", "DISPLAY", ""], list.screens.into_iter().map(row).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_two_numbers() {
        assert_eq!("800x600".parse(), Ok(Dimensions(800, 600)));
        for bad in ["", "800", "800x", "x600", "800x600x24", "800*600", "-1x5", "8 x 6"] {
            assert!(bad.parse::<Dimensions>().unwrap_err().contains("1280x720"), "{bad:?}");
        }
    }
}
