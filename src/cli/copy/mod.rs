//! `hotdesk cp`: file copies to and from a computer.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::client::Session;
use crate::failure::{Failure, Outcome};

mod download;
mod upload;

/// `hotdesk cp`.
#[derive(Debug, Args)]
pub struct Options {
    /// Source: a local file, or COMPUTER:PATH (absolute, or relative to the home folder).
    from: Endpoint,
    /// Target: COMPUTER: or COMPUTER:NAME (on its desktop), a local file or folder, or `-` for standard output.
    to: Endpoint,
}

/// One end of a copy. A colon before the first slash ends the name of a computer, like with scp; `./a:b` is a local
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Endpoint {
    Local(PathBuf),
    Remote { computer: String, path: String },
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((before, _)) if before.contains('/') => {}
            Some(("", _)) => return Err("the computer name before the colon is empty".to_owned()),
            Some((computer, path)) => {
                return Ok(Self::Remote { computer: computer.to_owned(), path: path.to_owned() });
            }
            None if text.is_empty() => return Err("the path is empty".to_owned()),
            None => {}
        }
        Ok(Self::Local(PathBuf::from(text)))
    }
}

/// Copies a file.
///
/// # Errors
/// When both ends are local or both remote, or the file cannot be read, sent, received or written.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    match (options.from, options.to) {
        (Endpoint::Local(file), Endpoint::Remote { computer, path }) => {
            upload::run(session, &file, &computer, &path).await
        }
        (Endpoint::Remote { computer, path }, Endpoint::Local(to)) => {
            download::run(session, &computer, &path, &to).await
        }
        (Endpoint::Local(_), Endpoint::Local(_)) => Err(Failure::Usage(
            "source and target are both local: one of them must be COMPUTER:PATH".to_owned(),
        )),
        (Endpoint::Remote { .. }, Endpoint::Remote { .. }) => Err(Failure::Usage(
            "source and target are both on a computer: one of them must be a local file".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_any_slash_ends_a_computer_s_name() {
        let local = |path: &str| Ok(Endpoint::Local(PathBuf::from(path)));
        let remote = |computer: &str, path: &str| {
            Ok(Endpoint::Remote { computer: computer.to_owned(), path: path.to_owned() })
        };
        for (text, expected) in [
            ("report.pdf", local("report.pdf")),
            ("./a:b", local("./a:b")),
            ("/a:b", local("/a:b")),
            ("a/b:c", local("a/b:c")),
            ("-", local("-")),
            ("first-light:", remote("first-light", "")),
            ("first light:a b", remote("first light", "a b")),
            ("desk:~/Desktop/a:b", remote("desk", "~/Desktop/a:b")),
            ("desk:/root/x", remote("desk", "/root/x")),
            (":x", Err("the computer name before the colon is empty".to_owned())),
            ("", Err("the path is empty".to_owned())),
        ] {
            assert_eq!(text.parse(), expected, "{text:?}");
        }
    }
}
