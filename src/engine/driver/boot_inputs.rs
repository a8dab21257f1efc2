//! Digest of what a boot depends on besides the machine's hardware.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::EngineResult;
use crate::driver::GuestDriver;
use crate::host::command::host_error;
use hotdesk_base::hex::hex;

/// [`crate::Engine::boot_inputs`]. Blocks. Files count by path, size and time of modification: an image is never
/// changed in place, and the agent's name in the state folder is a digest of its content.
pub(super) fn digest<M: GuestDriver>(engine: &M) -> EngineResult<String> {
    let settings = &engine.host().settings;
    let mut sum = Sha256::new();
    sum.update(format!("{} {}\n{:?}\n", M::NAME, engine.version()?, settings.init_args));
    sum.update(format!("network {}\n", settings.network.enabled));
    sum.update(description(&settings.image.join("rootfs"))?);
    sum.update(description(&engine.host().agent)?);
    for file in engine.boot_files() {
        sum.update(description(&file)?);
    }
    Ok(hex(&sum.finalize()))
}

fn description(path: &Path) -> EngineResult<String> {
    let failed = host_error("look at what a boot depends on", path);
    let real = fs::canonicalize(path).map_err(&failed)?;
    let data = fs::metadata(&real).map_err(&failed)?;
    Ok(format!("{} {} {}.{}\n", real.display(), data.size(), data.mtime(), data.mtime_nsec()))
}
