//! Build script that embeds noVNC, which `packaging/dev/deps` puts into the cache.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo:rerun-if-env-changed=HOTDESK_CACHE");
    println!("cargo:rerun-if-changed=../../packaging/dev/novnc");
    // New files of folders that the program includes.
    println!("cargo:rerun-if-changed=../../packaging/templates");
    println!("cargo:rerun-if-changed=../../packaging/image/files");
    let version = include_str!("novnc").split_whitespace().next().unwrap_or_default();
    let cache = std::env::var_os("HOTDESK_CACHE").unwrap_or_else(|| "/var/cache/hotdesk".into());
    let folder = PathBuf::from(cache).join(format!("novnc-{version}"));
    println!("cargo:rerun-if-changed={}", folder.display());
    if !folder.join("core/rfb.js").is_file() {
        eprintln!("noVNC {version} is not in {}: run `make deps` first", folder.display());
        return ExitCode::FAILURE;
    }
    // The name has no prefix HOTDESK_: programs that cargo runs inherit it, and hotdesk would refuse it as an
    // unknown setting.
    println!("cargo:rustc-env=NOVNC_FOLDER={}", folder.display());
    ExitCode::SUCCESS
}
