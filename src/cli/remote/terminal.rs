//! The terminal of this program: its size, and raw mode.

use std::io;

use console::Term;
use nix::sys::termios::{self, SetArg, Termios};

/// Raw mode of the terminal on standard input, until this is dropped: keys arrive unchanged and are not shown.
pub struct RawMode(Termios);

impl RawMode {
    /// Sets raw mode.
    ///
    /// # Errors
    /// When standard input is no terminal.
    pub fn enter() -> Result<Self, String> {
        let failed = |error| format!("cannot set the terminal to raw mode: {error}");
        let before = termios::tcgetattr(io::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw).map_err(failed)?;
        Ok(Self(before))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Not `TCSADRAIN`: a terminal whose output is stopped never drains.
        if let Err(error) = termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0) {
            eprintln!("hotdesk: cannot restore the terminal: {error}; run `reset`");
        }
    }
}

/// Columns and rows of the terminal on standard output; 80 and 24 when it has none.
pub fn size() -> (u16, u16) {
    let (rows, cols) = Term::stdout().size_checked().unwrap_or((24, 80));
    (cols, rows)
}
