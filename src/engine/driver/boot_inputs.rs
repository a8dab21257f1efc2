//! Digest of what a boot depends on besides the machine's hardware.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::EngineResult;
use crate::driver::GuestDriver;
use crate::driver::guest::BootDependencies;
use crate::host::command::host_error;
use hotdesk_base::hex::hex;
use hotdesk_domain::computer::isolation::Isolation;

/// [`crate::Engine::boot_inputs`]. Blocks. Files count by path, size and time of modification: an image is never
/// changed in place, and the agent's name is a digest of its content.
pub(super) fn digest<M: GuestDriver>(engine: &M, isolation: Isolation) -> EngineResult<String> {
    let settings = &engine.host().settings;
    let BootDependencies { program, agent, files } = engine.boot_dependencies(isolation)?;
    let mut sum = Sha256::new();
    sum.update(format!("{} {program}\n{:?}\n", isolation.name(), settings.init_args));
    sum.update(format!("network {}\n", settings.network.enabled));
    for file in [settings.image.join("rootfs"), agent].into_iter().chain(files) {
        sum.update(description(&file)?);
    }
    Ok(hex(&sum.finalize()))
}

/// [`crate::Engine::image_id`]. Blocks.
pub(super) fn image<M: GuestDriver>(engine: &M) -> EngineResult<String> {
    let rootfs = description(&engine.host().settings.image.join("rootfs"))?;
    Ok(hex(&Sha256::digest(rootfs)))
}

fn description(path: &Path) -> EngineResult<String> {
    let failed = host_error("look at what a boot depends on", path);
    let real = fs::canonicalize(path).map_err(&failed)?;
    let data = fs::metadata(&real).map_err(&failed)?;
    Ok(format!("{} {} {}.{}\n", real.display(), data.size(), data.mtime(), data.mtime_nsec()))
}
