//! Lists that are shown again each second (`--watch`).

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use console::Term;
use jiff::Zoned;

use super::interrupts::Interrupts;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Time between two frames. Requests are rate-limited per key: one or two a second leave most of the limit to
/// others.
const INTERVAL: Duration = Duration::from_secs(1);
/// Second screen of the terminal, no cursor, and no wrapping of long lines, which would need more lines than
/// counted.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
/// End of [`ENTER`]: what the terminal showed before appears again.
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Beginning of a frame, which a terminal shows at once if it can (mode 2026, synchronized output).
const BEGIN_FRAME: &str = "\x1b[?2026h\x1b[H";
/// End of a frame: what an earlier, longer one left below is erased.
const END_FRAME: &str = "\x1b[J\x1b[?2026l";
/// Erases the rest of a line.
const END_LINE: &str = "\x1b[K";

/// Option of a list that can be watched.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Watch {
    /// Show the list again each second, until Ctrl-C. It needs a terminal.
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

impl Watch {
    /// Whether the list is watched.
    pub fn is_on(self) -> bool {
        self.watch
    }

    /// Prints a list once, or with `--watch` again each second. A failure of the first request ends the
    /// command; a later one is shown above the last list, because a server may restart.
    ///
    /// # Errors
    /// Those of the first `list`, `Usage` where there is no terminal, and `Interrupted` at the end of a
    /// watched list.
    pub async fn run(self, list: impl AsyncFn() -> Outcome<()>) -> Outcome<()> {
        if !self.watch {
            return list().await;
        }
        if !io::stdout().is_terminal() {
            let text = "--watch needs a terminal, and standard output is none: repeat the command in a loop";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut interrupts = Interrupts::receive()?;
        tokio::select! {
            ended = show(list) => ended,
            _ = interrupts.next() => Err(Failure::Interrupted("stopped watching".to_owned())),
        }
    }
}

/// Shows the list until a failure of the first request or of the terminal.
async fn show(list: impl AsyncFn() -> Outcome<()>) -> Outcome<()> {
    let mut content = collected(&list).await?;
    let mut failed = None;
    let screen = SecondScreen::enter()?;
    loop {
        screen.draw(&content, failed.as_deref())?;
        tokio::time::sleep(INTERVAL).await;
        match collected(&list).await {
            Ok(next) => (content, failed) = (next, None),
            Err(failure) => failed = Some(failure.text().to_owned()),
        }
    }
}

/// What a list prints.
async fn collected(list: &impl AsyncFn() -> Outcome<()>) -> Outcome<String> {
    let collection = output::Collection::begin();
    list().await?;
    Ok(String::from_utf8_lossy(&collection.end()).into_owned())
}

/// Second screen of the terminal, until this is dropped.
struct SecondScreen(());

impl SecondScreen {
    fn enter() -> Outcome<Self> {
        output::bytes(ENTER.as_bytes())?;
        Ok(Self(()))
    }

    fn draw(&self, content: &str, failed: Option<&str>) -> Outcome<()> {
        let rows = Term::stdout().size().0.into();
        let now = Zoned::now().strftime("%H:%M:%S").to_string();
        output::bytes(frame(content, failed, &now, rows).as_bytes())
    }
}

impl Drop for SecondScreen {
    fn drop(&mut self) {
        if let Err(failure) = output::bytes(LEAVE.as_bytes()) {
            eprintln!("hotdesk: cannot restore the terminal: {}; run `reset`", failure.text());
        }
    }
}

/// A frame of at most `rows` lines: the time with the failure of the last request, and the beginning of the
/// content.
fn frame(content: &str, failed: Option<&str>, now: &str, rows: usize) -> String {
    let heading = match failed {
        Some(failure) => {
            let failure: String = failure.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("{now}  cannot refresh: {failure}")
        }
        None => format!("{now}  End with Ctrl-C."),
    };
    let all: Vec<&str> = [heading.as_str(), ""].into_iter().chain(content.lines()).collect();
    let hidden = all.len().saturating_sub(rows.max(1));
    let mut shown = all[..all.len() - hidden].iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    if hidden > 0
        && let Some(last) = shown.last_mut()
    {
        // The line itself is hidden, too.
        *last = format!("... {} more lines", hidden + 1);
    }
    let lines: Vec<String> = shown.into_iter().map(|line| format!("{line}{END_LINE}")).collect();
    // Without a line feed behind the last line, which would scroll.
    format!("{BEGIN_FRAME}{}{END_FRAME}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str, failed: Option<&str>, rows: usize) -> Vec<String> {
        let frame = frame(content, failed, "12:00:00", rows);
        let inner = frame.strip_prefix(BEGIN_FRAME).and_then(|rest| rest.strip_suffix(END_FRAME)).unwrap();
        inner.split('\n').map(|line| line.strip_suffix(END_LINE).unwrap().to_owned()).collect()
    }

    #[test]
    fn a_frame_fits_the_terminal() {
        let whole = lines("NAME\none\n", None, 24);
        assert_eq!(whole, ["12:00:00  End with Ctrl-C.", "", "NAME", "one"]);
        let cut = lines("NAME\none\ntwo\nthree\n", None, 5);
        assert_eq!(cut, ["12:00:00  End with Ctrl-C.", "", "NAME", "one", "... 2 more lines"]);
        for rows in [1, 2] {
            assert!(lines("NAME\n", None, rows).len() <= rows, "{rows}");
        }
    }

    #[test]
    fn a_failure_is_one_line_above_the_last_list() {
        let shown = lines("NAME\n", Some("refused\n\x1b[2J"), 24);
        assert_eq!(shown, ["12:00:00  cannot refresh: refused  [2J", "", "NAME"]);
    }
}
