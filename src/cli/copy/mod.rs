//! `hotdesk cp`: copies of files and folders to and from a computer.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use guest_files::GuestFiles;

mod download;
mod folder;
pub mod guest_files;
mod resumable;
mod upload;
mod upload_record;

/// End of the name of an incomplete file, and of a folder that collects an incomplete one.
const PART: &str = ".hotdesk-part";

/// `hotdesk cp`.
#[derive(Debug, Args)]
pub struct Options {
    /// Do not replace files that exist: fail instead.
    #[arg(short, long)]
    no_clobber: bool,
    /// Copy folders. They are copied without this option too.
    #[arg(short, long)]
    recursive: bool,
    /// Sources, then the target. COMPUTER:PATH is on a computer (absolute, or relative to the home folder; as a target
    /// COMPUTER: is its desktop), any other path is local. `-` is standard input or standard output.
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<Endpoint>,
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

/// Whether a local path means standard input or standard output.
fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// Copies each source in turn.
///
/// # Errors
/// When all ends are local or several are remote, or a source cannot be read, sent, received or written. Sources
/// before it were copied.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let Some((target, sources)) = options.paths.split_last() else {
        return Err(Failure::Usage("a source and a target are needed".to_owned()));
    };
    let several = sources.len() > 1;
    let overwrite = !options.no_clobber;
    match target {
        Endpoint::Remote { computer, path } => {
            let local: Vec<&Path> = sources.iter().filter_map(Endpoint::local).collect();
            if local.len() < sources.len() {
                return Err(Failure::Usage(
                    "source and target are both on a computer: copy to a local file first".to_owned(),
                ));
            }
            let id = resolve::computer(&session.api, computer).await?;
            let files = GuestFiles { session, name: computer, id };
            let folder = upload::target_folder(&files, path, several).await?;
            for source in local {
                upload::run(&files, source, path, folder.as_deref(), overwrite).await?;
            }
        }
        Endpoint::Local(to) => {
            if several && !to.is_dir() {
                return Err(Failure::Usage(format!(
                    "{} is not a folder: several sources need one",
                    to.display()
                )));
            }
            let remote: Vec<(&str, &str)> = sources.iter().filter_map(Endpoint::remote).collect();
            if remote.len() < sources.len() {
                return Err(Failure::Usage(
                    "source and target are both local: one of them must be COMPUTER:PATH".to_owned(),
                ));
            }
            if let Some((computer, _)) = remote.iter().find(|(_, path)| path.is_empty()) {
                return Err(Failure::Usage(format!("no path on {computer} is given: use {computer}:PATH")));
            }
            for (computer, path) in remote {
                let id = resolve::computer(&session.api, computer).await?;
                let files = GuestFiles { session, name: computer, id };
                download::run(&files, path, to, overwrite).await?;
            }
        }
    }
    Ok(())
}

impl Endpoint {
    fn local(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => Some(path),
            Self::Remote { .. } => None,
        }
    }

    fn remote(&self) -> Option<(&str, &str)> {
        match self {
            Self::Local(_) => None,
            Self::Remote { computer, path } => Some((computer, path)),
        }
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
