//! The composition root: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotdesk::cli::main()
}
