//! `hotdesk windows`: windows on a screen.

use clap::{Args, Subcommand};
use reqwest::Method;

use super::selection::{Selectable, select};
use super::{ScreenArg, printable, send};
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::watch::Watch;
use crate::client::{Session, resolve};
use crate::computers::ComputerArg;
use crate::failure::Outcome;
use crate::output;
use hotdesk_domain::name::fold;
use hotdesk_wire::desktop::window::{CloseWindow, Window, WindowClosed, WindowList, WindowPlace};

/// `hotdesk windows`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List windows, the topmost first.
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        target: ComputerArg,
        #[command(flatten)]
        screen: ScreenArg,
        #[command(flatten)]
        watch: Watch,
    },
    /// Raise a window and give it the keyboard focus.
    Focus(WindowArg),
    /// Maximize a window.
    Maximize(WindowArg),
    /// Minimize a window.
    Minimize(WindowArg),
    /// Show a window in its normal size.
    Restore(WindowArg),
    /// Move or resize a window.
    Move {
        #[command(flatten)]
        window: WindowArg,
        #[command(flatten)]
        place: PlaceOptions,
    },
    /// Close a window. Its program may ask whether to save.
    Close {
        #[command(flatten)]
        window: WindowArg,
        /// Disconnect the program from the screen: all its windows close and unsaved data is lost.
        #[arg(long)]
        force: bool,
    },
}

/// The window that a command acts on.
#[derive(Debug, Args)]
pub struct WindowArg {
    #[command(flatten)]
    target: ComputerArg,
    /// Window: id, program, or a part of its title.
    window: String,
    #[command(flatten)]
    screen: ScreenArg,
}

/// Place of a window's content without its frame.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = true)]
pub struct PlaceOptions {
    /// Pixels from the left edge of the screen.
    #[arg(long, allow_negative_numbers = true)]
    x: Option<i32>,
    /// Pixels from the top edge of the screen.
    #[arg(long, allow_negative_numbers = true)]
    y: Option<i32>,
    /// Width in pixels.
    #[arg(long)]
    width: Option<u32>,
    /// Height in pixels.
    #[arg(long)]
    height: Option<u32>,
}

impl Selectable for Window {
    const KIND: (&'static str, &'static str) = ("window", "windows list");

    fn id(&self) -> &str {
        &self.id
    }

    fn is_named(&self, folded: &str) -> bool {
        let is_program = fold(&self.class) == folded || fold(&self.instance) == folded;
        !folded.is_empty() && (is_program || fold(&self.title).contains(folded))
    }

    fn label(&self) -> String {
        format!("{} ({})", printable(&self.title), self.id)
    }
}

/// Runs a subcommand.
///
/// # Errors
/// When no window or more than one matches, a window stays open, the server refuses a request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List { target, screen, watch } => {
            watch.run(async || list(session, &target, &screen).await).await
        }
        Command::Focus(window) => change(session, &window, "focus").await,
        Command::Maximize(window) => change(session, &window, "maximize").await,
        Command::Minimize(window) => change(session, &window, "minimize").await,
        Command::Restore(window) => change(session, &window, "restore").await,
        Command::Move { window, place } => relocate(session, &window, place).await,
        Command::Close { window, force } => close(session, &window, force).await,
    }
}

async fn list(session: &Session, target: &ComputerArg, screen: &ScreenArg) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let path = ["computers", &id, "windows"];
    let query = [("screen", screen.screen.as_deref())];
    let response = send(session, Method::GET, &path, &query, None::<&()>, REQUEST_TIMEOUT).await?;
    let list: WindowList = response.decode()?;
    session.show(&response, || {
        if list.windows.is_empty() {
            return output::line("There are no windows.");
        }
        let row = |it: &Window| {
            vec![it.id.clone(), printable(&it.title), printable(&it.class), place(it), state(it)]
        };
        let rows = list.windows.iter().map(row).collect();
        output::table(&["ID", "TITLE", "PROGRAM", "PLACE", "STATE"], rows)
    })
}

/// Computer and window ids.
async fn find(session: &Session, wanted: &WindowArg) -> Outcome<(String, String)> {
    let computer = resolve::computer(&session.api, &wanted.target.computer).await?;
    let path = ["computers", &computer, "windows"];
    let query = [("screen", wanted.screen.screen.as_deref())];
    let response = send(session, Method::GET, &path, &query, None::<&()>, REQUEST_TIMEOUT).await?;
    let list: WindowList = response.decode()?;
    let window = select(&list.windows, &wanted.window)?.id.clone();
    Ok((computer, window))
}

async fn change(session: &Session, wanted: &WindowArg, verb: &str) -> Outcome<()> {
    let (computer, window) = find(session, wanted).await?;
    let path = ["computers", &computer, "windows", &window, verb];
    let query = [("screen", wanted.screen.screen.as_deref())];
    let response = send(session, Method::POST, &path, &query, None::<&()>, REQUEST_TIMEOUT).await?;
    let changed: Window = response.decode()?;
    session.show(&response, || output::line(&sentence(&changed)))
}

async fn relocate(session: &Session, wanted: &WindowArg, place: PlaceOptions) -> Outcome<()> {
    let (computer, window) = find(session, wanted).await?;
    let body = WindowPlace { x: place.x, y: place.y, width: place.width, height: place.height };
    let path = ["computers", &computer, "windows", &window];
    let query = [("screen", wanted.screen.screen.as_deref())];
    let response = send(session, Method::PATCH, &path, &query, Some(&body), REQUEST_TIMEOUT).await?;
    let changed: Window = response.decode()?;
    session.show(&response, || output::line(&sentence(&changed)))
}

async fn close(session: &Session, wanted: &WindowArg, force: bool) -> Outcome<()> {
    let (computer, window) = find(session, wanted).await?;
    let body = CloseWindow { force: Some(force) };
    let path = ["computers", &computer, "windows", &window, "close"];
    let query = [("screen", wanted.screen.screen.as_deref())];
    let response = send(session, Method::POST, &path, &query, Some(&body), REQUEST_TIMEOUT).await?;
    let result: WindowClosed = response.decode()?;
    session.show(&response, || {
        if !result.closed {
            let hint = "its program may ask whether to save: take a screenshot, or use --force";
            return Err(format!("window {window} is still open; {hint}").into());
        }
        output::line(&format!("Closed {window}."))
    })
}

/// Size and position, in the form of X geometries: 800x600+10+20.
fn place(window: &Window) -> String {
    format!("{}x{}{:+}{:+}", window.width, window.height, window.x, window.y)
}

/// The states that apply, separated by commas; before them the type when it is not `normal`.
fn state(window: &Window) -> String {
    let states = [
        (window.kind.as_str(), window.kind != "normal"),
        ("focused", window.focused),
        ("minimized", window.minimized),
        ("maximized", window.maximized),
        ("fullscreen", window.fullscreen),
    ];
    let present: Vec<&str> = states.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    present.join(", ")
}

/// What became of a window: the server answers with the truth, not with the request.
fn sentence(window: &Window) -> String {
    match state(window).as_str() {
        "" => format!("{} is at {}.", window.id, place(window)),
        state => format!("{} is at {}, {state}.", window.id, place(window)),
    }
}
