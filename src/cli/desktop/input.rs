//! `hotdesk click`, `type` and `key`: input on the screen of a computer.

use clap::{Args, ValueEnum};
use reqwest::Method;
use serde::Serialize;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output;
use crate::read_text;
use hotdesk_wire::desktop::action::{Click, KeyPress, Type};
use hotdesk_wire::desktop::effect::{ActionResult, Options};

/// Slowest typing that the client waits for, in characters per second; the server's own limit.
const SLOWEST_TYPING: f64 = hotdesk_domain::limits::SLOWEST_TYPING;

/// `hotdesk click`.
#[derive(Debug, Args)]
pub struct ClickOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Pixels from the left edge.
    x: u32,
    /// Pixels from the top edge.
    y: u32,
    /// Mouse button.
    #[arg(long, default_value = "left")]
    button: Button,
    /// Click twice.
    #[arg(long)]
    double: bool,
    /// Screen id; default: the boot screen.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
}

/// Mouse button.
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
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Text; a newline presses Enter, a tab presses Tab. `-` reads it from standard input. `{{secret:NAME}}`
    /// types the value of a secret.
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Screen id; default: the boot screen.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
}

/// `hotdesk key`.
#[derive(Debug, Args)]
pub struct KeyOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Key or key combination, for example Enter, ctrl+c or Page_Up.
    key: String,
    /// Screen id; default: the boot screen.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
}

/// `hotdesk click`.
///
/// # Errors
/// When the server refuses the request or is unreachable.
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
    let message = format!("Clicked at {}, {}.", options.x, options.y);
    act(session, &options.computer, "click", options.screen.as_deref(), &body, REQUEST_TIMEOUT, &message)
        .await
}

/// `hotdesk type`.
///
/// # Errors
/// When the text cannot be read, the server refuses the request or is unreachable.
pub async fn type_text(options: TypeOptions, session: &Session) -> Outcome<()> {
    let text = read_text(options.text)?;
    let count = text.chars().count();
    let timeout = REQUEST_TIMEOUT + std::time::Duration::from_secs_f64(count as f64 / SLOWEST_TYPING);
    let message = format!("Typed {count} characters.");
    let body = Type {
        text,
        mode: None,
        stop_on_focus_change: None,
        confidential: None,
        options: Options::default(),
    };
    act(session, &options.computer, "type", options.screen.as_deref(), &body, timeout, &message).await
}

/// `hotdesk key`.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn key(options: KeyOptions, session: &Session) -> Outcome<()> {
    let message = format!("Pressed {}.", options.key);
    let body = KeyPress { key: Some(options.key), ..KeyPress::default() };
    act(session, &options.computer, "key", options.screen.as_deref(), &body, REQUEST_TIMEOUT, &message).await
}

async fn act<B: Serialize>(
    session: &Session,
    computer: &str,
    action: &str,
    screen: Option<&str>,
    body: &B,
    timeout: std::time::Duration,
    message: &str,
) -> Outcome<()> {
    let id = resolve::computer(&session.api, computer).await?;
    let path = ["computers", &id, action];
    let response =
        super::send(session, Method::POST, &path, &[("screen", screen)], Some(body), timeout).await?;
    let done: ActionResult = response.decode()?;
    if !done.success {
        return Err(
            format!("action {} failed on the computer; take a screenshot to see why", done.action).into()
        );
    }
    session.show(&response, || output::line(message))
}
