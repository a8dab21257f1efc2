//! Tables on standard output: wrapped to a terminal's width, one line for each row elsewhere.

use std::io::{self, IsTerminal};

use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use console::{Style, Term};

use super::line;
use crate::failure::Outcome;

/// Smallest length of a shortened id in characters: the first group of a UUID, of which two rarely agree.
const SHORT_ID: usize = 8;

/// Options of a command that prints a list.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ListView {
    /// Print only the ids, whole, one on each line.
    #[arg(long, short, conflicts_with_all = ["wide", "json"])]
    quiet: bool,
    /// Print whole ids and all columns on a terminal, too. Elsewhere this is the default.
    #[arg(long)]
    wide: bool,
}

impl ListView {
    /// View of a list that has no `--quiet`.
    pub fn rows(wide: bool) -> Self {
        Self { quiet: false, wide }
    }
}

/// A column of a list, with its heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Text, which may wrap on a terminal.
    Text(&'static str),
    /// An id. It never wraps; a terminal shows a prefix that differs from those of the other rows.
    Id(&'static str),
    /// A column that a terminal shows only with `--wide`.
    Wide(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        let (Self::Text(heading) | Self::Id(heading) | Self::Wide(heading)) = self;
        heading
    }
}

/// Writes a list. On a terminal the text wraps to its width and ids are short; with `--wide`, and where there is no
/// terminal, each row is one line with all columns and whole ids. With `--quiet` the first [`Column::Id`] is written
/// alone. A list without rows is written as the line `empty`, or with `--quiet` as nothing.
///
/// # Errors
/// Those of [`super::bytes`].
pub fn list(view: ListView, columns: &[Column], rows: Vec<Vec<String>>, empty: &str) -> Outcome<()> {
    if view.quiet {
        return super::bytes(ids(columns, &rows).as_bytes());
    }
    if rows.is_empty() {
        return line(empty);
    }
    let width = terminal_width().filter(|_| !view.wide);
    match width {
        Some(width) => {
            let (columns, rows) = narrowed(columns, rows);
            print(&render(&columns, rows, Some(width)))
        }
        None => print(&render(columns, rows, None)),
    }
}

/// Writes a table of text. On a terminal the columns wrap to its width; elsewhere each row is one line, for `grep`.
///
/// # Errors
/// Those of [`super::bytes`].
pub fn table(headings: &[&'static str], rows: Vec<Vec<String>>) -> Outcome<()> {
    let columns: Vec<Column> = headings.iter().map(|heading| Column::Text(heading)).collect();
    print(&render(&columns, rows, terminal_width()))
}

/// Writes the fields of one record, each on one line: no value wraps, so that it can be copied.
///
/// # Errors
/// Those of [`super::bytes`].
pub fn fields<const N: usize>(fields: [(&str, String); N]) -> Outcome<()> {
    let rows = fields.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    print(&render(&[Column::Text("FIELD"), Column::Text("VALUE")], rows, None))
}

/// Width of the terminal in characters; `None` when standard output is no terminal.
fn terminal_width() -> Option<u16> {
    io::stdout().is_terminal().then(|| Term::stdout().size().1)
}

/// Writes a rendered table; a terminal shows its first line in bold.
fn print(text: &str) -> Outcome<()> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if !use_colour(io::stdout().is_terminal(), |name| std::env::var(name).ok()) {
        return line(text);
    }
    let first = Style::new().bold().force_styling(true).apply_to(first);
    line(format!("{first}\n{rest}").trim_end())
}

/// Cells of the first id column, one on each line.
fn ids(columns: &[Column], rows: &[Vec<String>]) -> String {
    let position = columns.iter().position(|column| matches!(column, Column::Id(_)));
    position.map_or_else(String::new, |at| rows.iter().map(|row| format!("{}\n", row[at])).collect())
}

/// What a terminal shows of a list: no wide columns, and short ids.
fn narrowed(columns: &[Column], rows: Vec<Vec<String>>) -> (Vec<Column>, Vec<Vec<String>>) {
    let lengths: Vec<usize> =
        (0..columns.len()).map(|at| prefix_length(rows.iter().map(|row| &*row[at]))).collect();
    let narrow = |row: Vec<String>| {
        let cells = row.into_iter().zip(columns).zip(&lengths);
        let cells = cells.filter_map(|((cell, column), length)| match column {
            Column::Text(_) => Some(cell),
            Column::Id(_) => Some(cell.chars().take(*length).collect()),
            Column::Wide(_) => None,
        });
        cells.collect()
    };
    let rows = rows.into_iter().map(narrow).collect();
    (columns.iter().copied().filter(|column| !matches!(column, Column::Wide(_))).collect(), rows)
}

/// Length in characters of the shortest prefixes that distinguish all ids, at least [`SHORT_ID`].
fn prefix_length<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let common = |pair: &[&str]| pair[0].chars().zip(pair[1].chars()).take_while(|(a, b)| a == b).count();
    ids.windows(2).map(|pair| common(pair) + 1).max().unwrap_or(0).max(SHORT_ID)
}

/// The table as text; without `width`, in characters, no cell wraps.
fn render(columns: &[Column], rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    let headings = columns.iter().map(|column| column.heading());
    table.load_style(presets::NOTHING).set_header(headings).add_rows(rows);
    match width {
        Some(width) => table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    for (shown, column) in table.column_iter_mut().zip(columns) {
        shown.set_padding((0, 2));
        if matches!(column, Column::Id(_)) {
            shown.set_constraint(ColumnConstraint::ContentWidth);
        }
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

    const A: &str = "11111111-1111-4111-8111-111111111111";
    const B: &str = "11111111-12ab-4111-8111-111111111111";
    const COLUMNS: [Column; 3] = [Column::Text("NAME"), Column::Wide("SIZE"), Column::Id("ID")];

    fn row(cells: [&str; 3]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

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
        let long = "a".repeat(300);
        let rows = vec![row([&long, "4 GB", "二"]), row(["b", "4 GB", A])];
        let text = render(&COLUMNS, rows, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("NAME ") && lines[1].ends_with("a  4 GB  二") && lines[2].ends_with(A));
    }

    #[test]
    fn short_ids_differ_and_have_at_least_8_characters() {
        for (ids, expected) in [
            (&[][..], 8),
            (&[A], 8),
            (&[A, A], 8),
            (&[A, "22222222-1111-4111-8111-111111111111"], 8),
            (&[A, B, "222"], 11),
            (&[A, "all", ""], 8),
        ] {
            assert_eq!(prefix_length(ids.iter().copied()), expected, "{ids:?}");
        }
    }

    #[test]
    fn a_terminal_wraps_names_but_no_ids() {
        let name = "a rather long name of a computer ".repeat(4);
        let (columns, rows) = narrowed(&COLUMNS, vec![row([&name, "4 GB", A]), row(["b", "8 GB", B])]);
        assert_eq!(columns, [Column::Text("NAME"), Column::Id("ID")]);
        for width in [80, 40, 20] {
            let text = render(&columns, rows.clone(), Some(width));
            assert!(text.lines().any(|line| line.ends_with("11111111-11")), "{width}: {text}");
            assert!(text.lines().any(|line| line.ends_with("11111111-12")), "{width}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}: {text}");
        }
    }

    #[test]
    fn quiet_lists_are_whole_ids() {
        assert_eq!(ids(&COLUMNS, &[row(["a", "", A]), row(["b", "", B])]), format!("{A}\n{B}\n"));
        assert_eq!(ids(&COLUMNS, &[]), "");
    }
}
