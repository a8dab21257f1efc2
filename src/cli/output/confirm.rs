//! Question before a command deletes something.

use std::io::{self, IsTerminal};

use clap::Args;

use crate::failure::Outcome;

/// Options of a command that deletes something.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Confirmation {
    /// Delete without a question. Where there is no terminal, none is asked.
    #[arg(long, short)]
    yes: bool,
}

impl Confirmation {
    /// Asks the question on the terminal and waits for the answer. Without a terminal, and with `--yes`, it asks nothing
    /// and does not call `question`.
    ///
    /// # Errors
    /// When the answer is not yes, the terminal cannot be read, and those of `question`.
    pub async fn ask(self, question: impl AsyncFnOnce() -> Outcome<String>) -> Outcome<()> {
        if self.yes || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(());
        }
        let question = question().await?;
        eprint!("{question} [y/N] ");
        let mut answer = String::new();
        io::stdin()
            .read_line(&mut answer)
            .map_err(|error| format!("cannot read from the terminal: {error}"))?;
        if is_yes(&answer) { Ok(()) } else { Err("nothing was deleted".into()) }
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for (answer, expected) in
            [("y", true), ("Yes\n", true), (" YES ", true), ("", false), ("n", false), ("yesterday", false)]
        {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }
}
