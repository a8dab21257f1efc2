//! `hotdesk open`: a link that signs the person's browser in, and leads to a desktop or to the console.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use reqwest::{Method, Url};

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::identity::sign_in_link::{CreateSignInLink, SignInLink};

/// Program that opens a file in the person's browser, where `BROWSER` names none.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// What stands for the page in an argument of `BROWSER`.
const PLACE: &str = "%s";

/// `hotdesk open`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer whose desktop to open: id, instance id or name. Without it, the console opens.
    computer: Option<String>,
    /// Print the link and open no browser.
    #[arg(long)]
    print: bool,
}

impl Options {
    /// Options of a link to the console.
    pub fn without_computer(print: bool) -> Self {
        Self { computer: None, print }
    }
}

/// Makes a link, and opens it in a browser where there is one. Prints the link in any case, because a browser may
/// fail to open.
///
/// # Errors
/// When the server refuses the request or is unreachable, or its link is invalid.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let computer_id = match &options.computer {
        Some(wanted) => Some(resolve::computer(&session.api, wanted).await?),
        None => None,
    };
    let body = CreateSignInLink { computer_id };
    let response =
        session.api.call(Method::POST, &["user", "sign-in-links"], Some(&body), REQUEST_TIMEOUT).await?;
    let link: SignInLink = response.decode()?;
    session.show(&response, || {
        if options.print {
            return output::line(&link.url);
        }
        let until = format!("It works once, until {}.", link.expires_at);
        match open(&link.url) {
            Ok(()) => output::line(&format!("Opening a browser with this link. {until}\n{}", link.url)),
            Err(why) => output::line(&format!("No browser was opened: {why}. {until}\n{}", link.url)),
        }
    })
}

/// Opens a link in the person's browser, or returns why not.
fn open(link: &str) -> Result<(), String> {
    let opener = opener(|name| std::env::var(name).ok())?;
    let page = redirecting_page(link)?;
    let (program, arguments) = opener.split_first().ok_or("BROWSER names no program")?;
    let page = page.display().to_string();
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| argument.replace(PLACE, &page)));
    if !arguments.iter().any(|argument| argument.contains(PLACE)) {
        command.arg(&page);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Not awaited: it may be the browser itself.
    command.spawn().map(drop).map_err(|error| format!("cannot run {program}: {error}"))
}

/// The program that opens a page, and its arguments: the first one in `BROWSER`, which separates several by
/// colons, else [`OPENER`] in a desktop session. An empty variable counts as unset.
fn opener(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(browser) = set("BROWSER") {
        let first = browser.split(':').find(|entry| !entry.trim().is_empty()).unwrap_or_default();
        return Ok(first.split_whitespace().map(str::to_owned).collect());
    }
    if cfg!(target_os = "macos") || set("DISPLAY").is_some() || set("WAYLAND_DISPLAY").is_some() {
        return Ok(vec![OPENER.to_owned()]);
    }
    Err("there is no desktop session here".to_owned())
}

/// Writes a private file that redirects to the link. Other users see the arguments of the opener and of the
/// browser, which must not contain the token (T24, docs/security.md). The file remains, because nothing tells when
/// the browser has read it; the link in it works once.
fn redirecting_page(link: &str) -> Result<PathBuf, String> {
    // A parsed URL has no quote or angle bracket.
    let url: Url = link.parse().map_err(|_| format!("the server's link is not a URL: {link}"))?;
    let url = url.as_str().replace('&', "&amp;");
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\">\n<title>hotdesk</title>\n<a href=\"{url}\">Open hotdesk</a>\n"
    );
    let failed = |error: std::io::Error| format!("cannot write a file for the browser: {error}");
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let mut file =
        tempfile::Builder::new().prefix("hotdesk-").suffix(".html").tempfile_in(folder).map_err(failed)?;
    file.write_all(page.as_bytes()).map_err(failed)?;
    file.into_temp_path().keep().map_err(|error| failed(error.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_opened_by_the_browser_that_is_named_else_in_a_desktop_session() {
        for (browser, display, expected) in [
            ("", "", None),
            ("", ":0", Some(vec![OPENER])),
            ("firefox", "", Some(vec!["firefox"])),
            ("firefox --new-tab %s:w3m", ":0", Some(vec!["firefox", "--new-tab", "%s"])),
            (":w3m", "", Some(vec!["w3m"])),
            (":", "", Some(vec![])),
        ] {
            let variable = |name: &str| match name {
                "BROWSER" => Some(browser.to_owned()),
                "DISPLAY" => Some(display.to_owned()),
                _ => None,
            };
            let found = opener(variable).ok();
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(found, expected, "{browser:?} {display:?}");
        }
    }
}
