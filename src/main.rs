//! Entry point of the `hotdesk` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotdesk::cli::main()
}
