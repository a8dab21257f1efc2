//! Terminals: sizes (docs/channels.md), and those of a template (docs/templates.md).

use crate::error::{Error, Result};

/// Largest number of columns and of rows: programs allocate memory per cell.
pub const MAX_SIDE: u16 = 1000;

/// A terminal that the template of a computer declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputerTerminal {
    /// Name of the session of tmux.
    pub name: String,
    /// Title for people.
    pub title: Option<String>,
}

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { cols: 80, rows: 24 }
    }
}

impl TerminalSize {
    /// Creates a size of 1 to [`MAX_SIDE`] columns and rows.
    ///
    /// # Errors
    /// `Invalid` for any other number.
    pub fn new(cols: i64, rows: i64) -> Result<Self> {
        Ok(Self { cols: side("cols", cols)?, rows: side("rows", rows)? })
    }

    /// Parses the query parameters; an absent one is as in [`TerminalSize::default`].
    ///
    /// # Errors
    /// `Invalid` for text that is not a number, and those of [`Self::new`].
    pub fn parse(cols: Option<&str>, rows: Option<&str>) -> Result<Self> {
        let read = |name: &str, given: Option<&str>, usual: u16| match given {
            None => Ok(i64::from(usual)),
            Some(text) => text.parse().map_err(|_| refused(name)),
        };
        let usual = Self::default();
        Self::new(read("cols", cols, usual.cols)?, read("rows", rows, usual.rows)?)
    }
}

fn side(name: &str, count: i64) -> Result<u16> {
    u16::try_from(count).ok().filter(|side| (1..=MAX_SIDE).contains(side)).ok_or_else(|| refused(name))
}

fn refused(name: &str) -> Error {
    Error::invalid(format!("{name} must be a whole number from 1 to {MAX_SIDE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_within_bounds() {
        let asked = |cols, rows| TerminalSize::parse(cols, rows).ok().map(|size| (size.cols, size.rows));
        assert_eq!(asked(None, None), Some((80, 24)));
        assert_eq!(asked(Some("200"), Some("50")), Some((200, 50)));
        assert_eq!(asked(Some("1"), Some("1000")), Some((1, 1000)));
        for bad in ["", "0", "-1", "1001", "80.5", "x", "80 ", "99999999999999999999", "65616"] {
            assert_eq!(asked(Some(bad), None), None, "{bad:?}");
            assert_eq!(asked(None, Some(bad)), None, "{bad:?}");
        }
    }
}
