//! Build script that embeds the console, which `packaging/dev/console` builds. It contains noVNC.

use std::path::Path;
use std::process::ExitCode;

/// Folder of the built console, from that of the controller's crate.
const CONSOLE: &str = "../clients/console/dist";

fn main() -> ExitCode {
    // New files of folders that the program includes.
    println!("cargo:rerun-if-changed=../../packaging/templates");
    println!("cargo:rerun-if-changed=../../packaging/image/files");
    println!("cargo:rerun-if-changed={CONSOLE}");
    // Cargo runs build scripts in the folder of their crate.
    let console = match Path::new(CONSOLE).canonicalize() {
        Ok(console) if console.join("index.html").is_file() => console,
        Ok(_) | Err(_) => {
            eprintln!("The console is not built: run `packaging/dev/console`, which needs npm");
            return ExitCode::FAILURE;
        }
    };
    // The name has no prefix HOTDESK_: programs that cargo runs inherit it, and hotdesk would refuse it as an
    // unknown setting.
    println!("cargo:rustc-env=CONSOLE_FOLDER={}", console.display());
    ExitCode::SUCCESS
}
