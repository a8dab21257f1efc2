//! `hotdesk ls`, `rm` and `password`: short forms of `hotdesk computers`.

use clap::Subcommand;

use super::{Command, ComputerArg, DeleteOptions, ListOptions};

/// Short forms of `hotdesk computers`.
#[derive(Debug, Subcommand)]
pub enum Shortcut {
    /// List computers, like `computers list`.
    Ls(ListOptions),
    /// Delete a computer and its disk, like `computers delete`.
    Rm(DeleteOptions),
    /// Print the password for the screens and sockets of a computer, like `computers password`.
    Password(ComputerArg),
}

impl From<Shortcut> for Command {
    fn from(shortcut: Shortcut) -> Self {
        match shortcut {
            Shortcut::Ls(options) => Self::List(options),
            Shortcut::Rm(options) => Self::Delete(options),
            Shortcut::Password(target) => Self::Password(target),
        }
    }
}
