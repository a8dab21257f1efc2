//! `hotdesk launch`: programs, web pages and files on a screen.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Method;

use super::{ScreenArg, printable, send};
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::computers::ComputerArg;
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::programs::program::{Launch, LaunchResult};

/// Opens `$1` in its default program. The small image has no `xdg-open`; its file manager opens files too.
const OPEN_FILE: &str = r#"test -e "$1" || exit 1
if command -v xdg-open >/dev/null; then exec xdg-open "$1"; fi
exec pcmanfm "$1""#;
/// Largest time in seconds that the server waits for a window (docs/api/screens.md).
const MAX_WAIT: f64 = 60.0;

/// `hotdesk launch`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    target: ComputerArg,
    #[command(flatten)]
    screen: ScreenArg,
    /// Seconds to wait for the first window, at most 60; 0 does not wait (server default: 10).
    #[arg(long, value_name = "SECONDS")]
    wait: Option<f64>,
    /// Open a file or folder of the computer in its default program.
    #[arg(long, value_name = "PATH", conflicts_with = "program")]
    file: Option<String>,
    /// Program and its arguments; an http, https or file URL for the browser; or one quoted bash command.
    #[arg(required_unless_present = "file", trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<String>,
}

/// Starts a program and prints its first window. The exit code is 1 when the program failed before it had a window.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(options: Options, session: &Session) -> Outcome {
    let id = resolve::computer(&session.api, &options.target.computer).await?;
    let label = options.file.clone().unwrap_or_else(|| options.program.join(" "));
    // The server refuses a time out of range.
    let wait = options.wait.filter(|seconds| (0.0..=MAX_WAIT).contains(seconds)).unwrap_or(MAX_WAIT);
    let body = request(options.program, options.file, options.wait);
    let query = [("screen", options.screen.screen.as_deref())];
    let timeout = REQUEST_TIMEOUT + Duration::from_secs_f64(wait);
    let response =
        send(session, Method::POST, &["computers", &id, "launch"], &query, Some(&body), timeout).await?;
    let launched: LaunchResult = response.decode()?;
    let failed = launched.exit_code.is_some_and(|code| code != 0);
    session.show(&response, || match (&launched.window, launched.exit_code) {
        (Some(window), _) => {
            let title = printable(&window.title);
            output::line(&format!("{label} opened window {} ({title}).", window.id))
        }
        (None, Some(0)) => output::line(&format!("{label} ended without a window of its own.")),
        (None, Some(code)) => {
            eprintln!("hotdesk: {label} ended with exit code {code} before it opened a window");
            Ok(())
        }
        (None, None) => output::line(&format!("Started {label} (process {}).", launched.pid)),
    })?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn request(mut program: Vec<String>, file: Option<String>, wait_seconds: Option<f64>) -> Launch {
    let launch = Launch { wait_seconds, ..Launch::default() };
    if let Some(file) = file {
        let argv = ["bash", "-c", OPEN_FILE, "hotdesk", &file].map(str::to_owned).to_vec();
        return Launch { argv: Some(argv), ..launch };
    }
    let is_url = |text: &String| ["http://", "https://", "file://"].iter().any(|it| text.starts_with(it));
    match program.as_slice() {
        [url] if is_url(url) => Launch { url: program.pop(), ..launch },
        [_] => Launch { command: program.pop(), ..launch },
        _ => Launch { argv: Some(program), ..launch },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_program_and_one_word_is_a_command_or_a_url() {
        let parts = |words: &[&str]| {
            let made = request(words.iter().map(|&word| word.to_owned()).collect(), None, None);
            (made.command, made.argv, made.url)
        };
        assert_eq!(parts(&["xterm -e top"]), (Some("xterm -e top".to_owned()), None, None));
        let argv = ["gimp", "my file.png"].map(str::to_owned).to_vec();
        assert_eq!(parts(&["gimp", "my file.png"]), (None, Some(argv), None));
        for url in ["http://a", "https://a/b", "file:///root/x.html"] {
            assert_eq!(parts(&[url]), (None, None, Some(url.to_owned())));
        }
        let opened = request(Vec::new(), Some("a; b".to_owned()), Some(2.0));
        assert_eq!(opened.argv.unwrap().last().map(String::as_str), Some("a; b"));
        assert_eq!(opened.wait_seconds, Some(2.0));
    }
}
