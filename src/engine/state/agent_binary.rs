//! Which executable do guests run as their agent? The controller's own as it was when the controller started, kept under
//! the name of its content, so that an upgrade on the host never changes a file that a guest has open.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::command::host_error;
use super::layout::{StateDir, sync_folder};
use crate::EngineResult;
use hotdesk_base::hex::hex;

/// Keeps `binary` and removes earlier ones; guests that run have theirs open and need no name for it.
pub(super) fn keep(binary: &Path, state: &StateDir) -> EngineResult<PathBuf> {
    keep_as(binary, state, "", |fresh| {
        fs::copy(binary, fresh)
            .and_then(|_| fs::set_permissions(fresh, fs::Permissions::from_mode(0o755)))
            .map_err(host_error("keep the agent's executable", fresh))
    })
}

/// As [`keep`], in another form: `make` makes a file of it, whose name ends with `suffix`.
pub(super) fn keep_as(
    binary: &Path,
    state: &StateDir,
    suffix: &str,
    make: impl FnOnce(&Path) -> EngineResult<()>,
) -> EngineResult<PathBuf> {
    const STEP: &str = "keep the agent's executable";
    let failed = host_error(STEP, binary);
    let mut source = File::open(binary).map_err(&failed)?;
    let mut hasher = Sha256::new();
    io::copy(&mut source, &mut HashWriter(&mut hasher)).map_err(&failed)?;
    let name = hex(hasher.finalize().get(..16).unwrap_or_default()) + suffix;
    let kept = state.agents().join(&name);
    remove_others(state, &name)?;
    if kept.exists() {
        return Ok(kept);
    }
    let fresh = state.agents().join("new");
    make(&fresh)?;
    File::open(&fresh)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&fresh, &kept))
        .and_then(|()| sync_folder(&state.agents()))
        .map_err(host_error(STEP, &fresh))?;
    Ok(kept)
}

fn remove_others(state: &StateDir, name: &str) -> EngineResult<()> {
    let agents = state.agents();
    let failed = host_error("remove an earlier agent", &agents);
    for entry in fs::read_dir(&agents).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        if entry.file_name() != name {
            fs::remove_file(entry.path()).map_err(&failed)?;
        }
    }
    Ok(())
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_replaces_the_kept_agent_and_the_same_binary_is_kept_once() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::open(&temp.path().join("state")).unwrap();
        let binary = temp.path().join("hotdesk");
        fs::write(&binary, "one").unwrap();
        let first = keep(&binary, &state).unwrap();
        assert_eq!(keep(&binary, &state).unwrap(), first);
        fs::write(&binary, "two").unwrap();
        let second = keep(&binary, &state).unwrap();
        assert_eq!(fs::read_to_string(&second).unwrap(), "two");
        assert_eq!(fs::metadata(&second).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(state.agents()).unwrap().count(), 1);
        assert!(!first.exists());
    }
}
