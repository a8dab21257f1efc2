//! `hotdesk cp`: from where to where is a file copied?

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::client::Session;
use super::failure::{Failure, Outcome};

mod download;
mod upload;

/// `hotdesk cp`.
#[derive(Debug, Args)]
pub struct Options {
    /// A local file, or COMPUTER:PATH (relative to its home folder, absolute, or ~/).
    from: Place,
    /// COMPUTER: or COMPUTER:NAME for its desktop, or a local file or folder; `-` is standard output.
    to: Place,
}

/// One end of a copy. As with scp, a colon before any slash ends a computer's name; `./a:b` is a local file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Here(PathBuf),
    There { computer: String, path: String },
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((before, _)) if before.contains('/') => {}
            Some(("", _)) => return Err("there is no computer before the colon".to_owned()),
            Some((computer, path)) => {
                return Ok(Self::There { computer: computer.to_owned(), path: path.to_owned() });
            }
            None if text.is_empty() => return Err("a path is not empty".to_owned()),
            None => {}
        }
        Ok(Self::Here(PathBuf::from(text)))
    }
}

/// Copies.
///
/// # Errors
/// When the file cannot be read, sent, received or written.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    match (options.from, options.to) {
        (Place::Here(file), Place::There { computer, path }) => {
            upload::run(session, &file, &computer, &path).await
        }
        (Place::There { computer, path }, Place::Here(to)) => {
            download::run(session, &computer, &path, &to).await
        }
        (Place::Here(_), Place::Here(_)) => {
            Err(Failure::Usage("one side must be on a computer: COMPUTER:PATH".to_owned()))
        }
        (Place::There { .. }, Place::There { .. }) => {
            Err(Failure::Usage("one side must be a local file".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_any_slash_ends_a_computer_s_name() {
        let here = |path: &str| Ok(Place::Here(PathBuf::from(path)));
        let there = |computer: &str, path: &str| {
            Ok(Place::There { computer: computer.to_owned(), path: path.to_owned() })
        };
        for (text, expected) in [
            ("report.pdf", here("report.pdf")),
            ("./a:b", here("./a:b")),
            ("/a:b", here("/a:b")),
            ("a/b:c", here("a/b:c")),
            ("-", here("-")),
            ("first-light:", there("first-light", "")),
            ("first light:a b", there("first light", "a b")),
            ("desk:~/Desktop/a:b", there("desk", "~/Desktop/a:b")),
            ("desk:/root/x", there("desk", "/root/x")),
            (":x", Err("there is no computer before the colon".to_owned())),
            ("", Err("a path is not empty".to_owned())),
        ] {
            assert_eq!(text.parse(), expected, "{text:?}");
        }
    }
}
