//! Standard output of the commands: raw bytes, lines and tables.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use console::{Style, Term};

use crate::failure::Outcome;

/// Writes to standard output. A closed pipe (`hotdesk ... | head`) is no error.
///
/// # Errors
/// When the write fails for another reason, for example a full disk.
pub fn bytes(content: &[u8]) -> Outcome<()> {
    stream(content).map(drop)
}

/// Writes a part of endless output; returns false when the reader has closed the pipe, so that the output can end.
///
/// # Errors
/// Those of [`bytes`].
pub fn stream(content: &[u8]) -> Outcome<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(content).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write to standard output: {error}").into()),
    }
}

/// Writes a line to standard output.
///
/// # Errors
/// Those of [`bytes`].
pub fn line(text: &str) -> Outcome<()> {
    bytes(format!("{text}\n").as_bytes())
}

/// Writes a table. On a terminal the columns wrap to its width; elsewhere each row is one line, for `grep`.
///
/// # Errors
/// Those of [`bytes`].
pub fn table(headings: &[&str], rows: Vec<Vec<String>>) -> Outcome<()> {
    let terminal = io::stdout().is_terminal();
    let width = terminal.then(|| Term::stdout().size().1);
    let text = render(headings, rows, width);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    if !use_colour(terminal, |name| std::env::var(name).ok()) {
        return line(&text);
    }
    let first = Style::new().bold().force_styling(true).apply_to(first);
    line(format!("{first}\n{rest}").trim_end())
}

/// The table as text; without `width`, in characters, no cell wraps.
fn render(headings: &[&str], rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings.to_vec()).add_rows(rows);
    match width {
        Some(width) => table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Whether to print colour: never with `NO_COLOR` (https://no-color.org), else with `FORCE_COLOR` or on a terminal.
/// An empty variable counts as unset.
fn use_colour(terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name| variable(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && (set("FORCE_COLOR") || terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_unless_a_variable_says_otherwise() {
        for (terminal, no, force, expected) in [
            (true, "", "", true),
            (false, "", "", false),
            (true, "1", "", false),
            (false, "", "1", true),
            (true, "1", "1", false),
        ] {
            let variable = |name: &str| Some(if name == "NO_COLOR" { no } else { force }.to_owned());
            assert_eq!(use_colour(terminal, variable), expected, "{terminal} {no:?} {force:?}");
        }
    }

    #[test]
    fn rows_stay_lines_where_there_is_no_terminal() {
        let rows = vec![vec!["a".repeat(300), "二".to_owned()], vec!["b".to_owned(), "c".to_owned()]];
        let text = render(&["NAME", "STATUS"], rows, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("NAME ") && lines[1].ends_with("a  二") && lines[2].ends_with('c'));
    }
}
