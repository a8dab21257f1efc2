//! How does a person click, type and press keys on a computer from a shell?

use clap::{Args, ValueEnum};
use reqwest::Method;
use serde::Serialize;

use super::client::api::QUICK;
use super::client::{Session, resolve};
use super::failure::Outcome;
use super::output;
use super::read_text;
use hotdesk_wire::action::{Click, Key, Type};
use hotdesk_wire::effect::{ActionResult, Options};

/// Slowest typing that is waited for, in characters a second; as the server waits.
const SLOWEST_TYPING: f64 = hotdesk_domain::limits::SLOWEST_TYPING;

/// `hotdesk click`.
#[derive(Debug, Args)]
pub struct ClickOptions {
    /// Its id, instance id or name.
    computer: String,
    /// Pixels from the left edge.
    x: u32,
    /// Pixels from the top edge.
    y: u32,
    /// Which button.
    #[arg(long, default_value = "left")]
    button: Button,
    /// Click twice.
    #[arg(long)]
    double: bool,
    /// Which screen; the boot screen when absent.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
}

/// A button of the pointer.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Button {
    Left,
    Right,
    Middle,
    Back,
    Forward,
}

/// `hotdesk type`.
#[derive(Debug, Args)]
pub struct TypeOptions {
    /// Its id, instance id or name.
    computer: String,
    /// The text; a line end is Enter, a tab is Tab. `-` reads it from standard input.
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Which screen; the boot screen when absent.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
}

/// `hotdesk key`.
#[derive(Debug, Args)]
pub struct KeyOptions {
    /// Its id, instance id or name.
    computer: String,
    /// A key, or several joined by `+`: Enter, ctrl+c, Page_Up.
    key: String,
    /// Which screen; the boot screen when absent.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
}

/// Clicks.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn click(options: ClickOptions, session: &Session) -> Outcome<()> {
    let button = match options.button {
        Button::Left => "left",
        Button::Right => "right",
        Button::Middle => "middle",
        Button::Back => "back",
        Button::Forward => "forward",
    };
    let body = Click {
        x: f64::from(options.x),
        y: f64::from(options.y),
        button: Some(button.to_owned()),
        double: Some(options.double),
        count: None,
        modifiers: None,
        options: Options::default(),
    };
    let said = format!("Clicked at {}, {}.", options.x, options.y);
    act(session, &options.computer, "click", options.screen.as_deref(), &body, QUICK, &said).await
}

/// Types.
///
/// # Errors
/// When the text cannot be read, or the server refuses or is not reached.
pub async fn type_text(options: TypeOptions, session: &Session) -> Outcome<()> {
    let text = read_text(options.text)?;
    let count = text.chars().count();
    let patience = QUICK + std::time::Duration::from_secs_f64(count as f64 / SLOWEST_TYPING);
    let said = format!("Typed {count} characters.");
    let body = Type { text, mode: None, stop_on_focus_change: None, options: Options::default() };
    act(session, &options.computer, "type", options.screen.as_deref(), &body, patience, &said).await
}

/// Presses a key.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn key(options: KeyOptions, session: &Session) -> Outcome<()> {
    let said = format!("Pressed {}.", options.key);
    let body = Key { key: Some(options.key), ..Key::default() };
    act(session, &options.computer, "key", options.screen.as_deref(), &body, QUICK, &said).await
}

async fn act<B: Serialize>(
    session: &Session,
    computer: &str,
    action: &str,
    screen: Option<&str>,
    body: &B,
    patience: std::time::Duration,
    said: &str,
) -> Outcome<()> {
    let id = resolve::computer(&session.api, computer).await?;
    let mut url = session.api.url(&["computers", &id, action]);
    if let Some(screen) = screen {
        url.query_pairs_mut().append_pair("screen", screen);
    }
    let request = session.api.request(Method::POST, url).json(body).timeout(patience);
    let answer = session.api.send(request).await?;
    let done: ActionResult = answer.decode()?;
    if !done.success {
        return Err(format!("the computer did not do it ({})", done.action).into());
    }
    session.show(&answer, || output::line(said))
}
