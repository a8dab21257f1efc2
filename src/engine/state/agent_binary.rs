//! The agent's executable for guests: a copy of the controller's own, named by its BLAKE3 hash, so that an
//! upgrade on the host never changes a file that a guest has open.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::EngineResult;
use crate::host::command::host_error;
use crate::host::files::sync_folder;
use crate::state::layout::StateDir;

/// Hexadecimal digits of the hash in a name: 128 bits.
const NAME_DIGITS: usize = 32;

/// Copies `binary` into the state folder, removes copies of earlier ones, and returns the path. Running guests keep
/// theirs open.
pub(crate) fn install(binary: &Path, state: &StateDir) -> EngineResult<PathBuf> {
    install_as(binary, state, "", |fresh| {
        fs::copy(binary, fresh)
            .and_then(|_| fs::set_permissions(fresh, fs::Permissions::from_mode(0o755)))
            .map_err(host_error("copy the agent's executable", fresh))
    })
}

/// The digest of an executable, which names its copies. Blocks.
pub(crate) fn digest(binary: &Path) -> EngineResult<String> {
    let failed = host_error("read the agent's executable", binary);
    let source = File::open(binary).map_err(&failed)?;
    // Every start hashes the whole program; BLAKE3 takes a third of the time of SHA-256.
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(source).map_err(&failed)?;
    Ok(hasher.finalize().to_hex().chars().take(NAME_DIGITS).collect())
}

/// [`install`] in another form: `make` writes a file from it, whose name ends with `suffix`.
pub(crate) fn install_as(
    binary: &Path,
    state: &StateDir,
    suffix: &str,
    make: impl FnOnce(&Path) -> EngineResult<()>,
) -> EngineResult<PathBuf> {
    const STEP: &str = "copy the agent's executable";
    let hash = digest(binary)?;
    let path = state.agents().join(hash.clone() + suffix);
    remove_others(state, &hash)?;
    if path.exists() {
        return Ok(path);
    }
    let fresh = state.agents().join("new");
    make(&fresh)?;
    File::open(&fresh)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&fresh, &path))
        .and_then(|()| sync_folder(&state.agents()))
        .map_err(host_error(STEP, &fresh))?;
    Ok(path)
}

/// Removes what was not made from the executable with this hash. Engines of one host have several forms of it.
fn remove_others(state: &StateDir, hash: &str) -> EngineResult<()> {
    let agents = state.agents();
    let failed = host_error("remove an earlier agent", &agents);
    for entry in fs::read_dir(&agents).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        if !entry.file_name().to_string_lossy().starts_with(hash) {
            fs::remove_file(entry.path()).map_err(&failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_replaces_the_copy_and_the_same_binary_has_one_copy() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::open(&temp.path().join("state")).unwrap();
        let binary = temp.path().join("hotdesk");
        fs::write(&binary, "one").unwrap();
        let first = install(&binary, &state).unwrap();
        assert_eq!(install(&binary, &state).unwrap(), first);
        let other = install_as(&binary, &state, ".ext4", |fresh| {
            fs::write(fresh, "disk").unwrap();
            Ok(())
        });
        assert!(first.exists() && other.unwrap().exists(), "one host has both forms of an agent");
        fs::write(&binary, "two").unwrap();
        let second = install(&binary, &state).unwrap();
        assert_eq!(fs::read_to_string(&second).unwrap(), "two");
        assert_eq!(fs::metadata(&second).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(state.agents()).unwrap().count(), 1);
        assert!(!first.exists());
    }
}
