//! `hotdesk share`: single-use links to a screen.

use clap::Args;
use jiff::SignedDuration;
use reqwest::Method;

use super::ScreenArg;
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::computers::ComputerArg;
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::computer::ticket::{NewTicket, Ticket, TicketMode};

/// `hotdesk share`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    target: ComputerArg,
    #[command(flatten)]
    screen: ScreenArg,
    /// Let the person use mouse and keyboard; without it the link only shows the screen.
    #[arg(long)]
    control: bool,
    /// Time until the link expires if nobody opens it: seconds, or for example 90s, 15m or 1h; at most 1h.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = seconds)]
    ttl: u32,
}

/// Prints a link and its expiry.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.target.computer).await?;
    let mode = if options.control { TicketMode::Control } else { TicketMode::View };
    let body = NewTicket { mode, screen: options.screen.screen, ttl_seconds: Some(options.ttl) };
    let path = ["computers", &id, "stream-tickets"];
    let response = session.api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
    let ticket: Ticket = response.decode()?;
    let use_of_it = if options.control { "control" } else { "view" };
    session.show(&response, || {
        output::line(&ticket.url)?;
        let (name, expiry) = (&options.target.computer, &ticket.expires_at);
        output::line(&format!("It opens {name} once, to {use_of_it} it, until {expiry}."))
    })
}

/// Parses a time into whole seconds; the server checks the range.
pub fn seconds(text: &str) -> Result<u32, String> {
    let parsed = text.parse::<u32>().ok().or_else(|| {
        let duration: SignedDuration = text.parse().ok()?;
        (duration.subsec_nanos() == 0).then(|| u32::try_from(duration.as_secs()).ok())?
    });
    parsed.ok_or_else(|| "use a number of seconds, or a time such as 90s, 15m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_or_has_units() {
        for (text, expected) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("1h", Some(3600)),
            ("1h 30m", Some(5400)),
            ("1.5s", None),
            ("-5m", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text:?}");
        }
    }
}
