//! `hotdesk open`: a link that signs the person's browser in, and leads to a desktop or to the settings.

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

/// Program that opens a file in the person's browser.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// `hotdesk open`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer whose desktop to open: id, instance id or name. Without it, the settings open.
    computer: Option<String>,
    /// Print the link and open no browser.
    #[arg(long)]
    print: bool,
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
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !cfg!(target_os = "macos") && !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") {
        return Err("there is no desktop session here".to_owned());
    }
    let page = redirecting_page(link)?;
    let mut opener = Command::new(OPENER);
    opener.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Not awaited: it may be the browser itself.
    opener.spawn().map(drop).map_err(|error| format!("cannot run {OPENER}: {error}"))
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
