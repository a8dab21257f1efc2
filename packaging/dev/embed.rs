//! Build script that embeds the console, which `packaging/dev/console` builds and which contains noVNC, and the
//! recorded OpenAPI document.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Folder of the built console, from that of the controller's crate.
const CONSOLE: &str = "../clients/console/dist";
/// The recorded OpenAPI document, from the same folder.
const DOCUMENT: &str = "../../packaging/openapi.json";

fn main() -> ExitCode {
    // New files of folders that the program includes.
    println!("cargo:rerun-if-changed=../../packaging/templates");
    println!("cargo:rerun-if-changed=../../packaging/image/files");
    println!("cargo:rerun-if-changed={CONSOLE}");
    println!("cargo:rerun-if-changed={DOCUMENT}");
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
    if let Err(error) = compress_document() {
        eprintln!("The OpenAPI document {DOCUMENT} cannot be compressed: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Writes the compressed document, without a name and a time: builds are the same.
fn compress_document() -> io::Result<()> {
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    let file = fs::File::create(Path::new(&folder).join("openapi.json.gz"))?;
    let mut encoder = GzEncoder::new(file, Compression::best());
    io::copy(&mut fs::File::open(DOCUMENT)?, &mut encoder)?;
    encoder.finish()?;
    Ok(())
}
