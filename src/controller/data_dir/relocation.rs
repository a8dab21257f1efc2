//! Move of a store to the folder of its own that a controller without privileges needs.
//!
//! ```text
//! <data>/hotdesk.db, blobs/     root's: a controller that makes its machines itself
//! <data>/store/hotdesk.db, ...  the user's: a controller beside a host helper
//! <data>/machines/, ...         root's in both cases; running computers notice nothing
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::Path;

use crate::config::Config;
use crate::data_dir::lock;
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::AgentClient;

/// Files of the store. The one that marks its folder moves last: until then, the store counts as not moved.
const PARTS: [&str; 6] =
    ["blobs", "hotdesk.room", "hotdesk.key", "hotdesk.db-shm", "hotdesk.db-wal", "hotdesk.db"];

/// Makes the folder of the store for a user, and moves a store there that root has in the data folder. Repeats what an
/// interrupted call began.
///
/// # Errors
/// `Internal` with a sentence for people, when a controller uses the store, both folders have one, or a file cannot be moved.
pub fn prepare(config: &Config, client: AgentClient) -> Result<()> {
    let (from, to) = (&config.data_dir, config.store_dir_of_client());
    let failed = |error: io::Error| {
        Error::failed(format!("cannot prepare {} for the user with id {}: {error}", to.display(), client.uid))
    };
    fs::DirBuilder::new().recursive(true).mode(0o711).create(from).map_err(failed)?;
    match fs::DirBuilder::new().mode(0o700).create(&to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    lchown(&to, Some(client.uid), Some(client.gid)).map_err(failed)?;
    let mark = config.store_mark();
    if !from.join(mark).exists() {
        return Ok(());
    }
    let _lock = lock::acquire(from)?;
    if to.join(mark).exists() {
        let (from, to) = (from.display(), to.display());
        return Err(Error::failed(format!("{from} and {to} both have {mark}; move one of them away")));
    }
    for part in PARTS.into_iter().filter(|part| *part != mark).chain([mark]) {
        let (old, new) = (from.join(part), to.join(part));
        if fs::symlink_metadata(&old).is_ok() {
            give(&old, client).and_then(|()| fs::rename(&old, &new)).map_err(failed)?;
        }
    }
    fs::File::open(from).and_then(|folder| folder.sync_all()).map_err(failed)?;
    tracing::info!(from = %from.display(), to = %to.display(), "moved the store, which belongs to the controller's user now");
    Ok(())
}

/// Gives a file or folder with all its contents to the user. Nobody but root can change it meanwhile.
fn give(path: &Path, client: AgentClient) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), client)?;
        }
    }
    lchown(path, Some(client.uid), Some(client.gid))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_store_moves_once_with_its_database_last() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().metadata().unwrap();
        let client = AgentClient { uid: own.uid(), gid: own.gid() };
        let config = Config { data_dir: folder.path().join("data"), ..Config::default() };
        prepare(&config, client).unwrap();
        assert_eq!(config.store_dir(), config.data_dir.join("store"));
        fs::remove_dir(config.data_dir.join("store")).unwrap();

        fs::create_dir_all(config.data_dir.join("blobs/files")).unwrap();
        fs::create_dir(config.data_dir.join("machines")).unwrap();
        for file in ["hotdesk.db", "hotdesk.db-wal", "blobs/files/one"] {
            fs::write(config.data_dir.join(file), file).unwrap();
        }
        assert_eq!(config.store_dir(), config.data_dir);
        let held = lock::acquire(&config.data_dir).unwrap();
        assert!(prepare(&config, client).is_err(), "a controller uses the store");
        drop(held);
        // An interrupted move.
        fs::rename(config.data_dir.join("hotdesk.db-wal"), config.data_dir.join("store/hotdesk.db-wal"))
            .unwrap();
        assert_eq!(config.store_dir(), config.data_dir);
        for _ in 0..2 {
            prepare(&config, client).unwrap();
        }
        for file in ["hotdesk.db", "hotdesk.db-wal", "blobs/files/one"] {
            assert_eq!(fs::read_to_string(config.store_dir().join(file)).unwrap(), file);
        }
        assert!(config.data_dir.join("machines").is_dir());
        assert_eq!(config.store_file(), config.data_dir.join("store/hotdesk.db"));
        fs::write(config.data_dir.join("hotdesk.db"), "another").unwrap();
        assert!(prepare(&config, client).is_err(), "two stores");
    }

    #[test]
    fn stored_files_move_where_postgresql_has_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().metadata().unwrap();
        let client = AgentClient { uid: own.uid(), gid: own.gid() };
        let mut config = Config { data_dir: folder.path().join("data"), ..Config::default() };
        config.store.url = "postgres://hotdesk@localhost/hotdesk".to_owned();
        fs::create_dir_all(config.data_dir.join("blobs/files")).unwrap();
        fs::write(config.data_dir.join("hotdesk.key"), "key").unwrap();
        assert_eq!(config.store_dir(), config.data_dir);
        for _ in 0..2 {
            prepare(&config, client).unwrap();
        }
        let apart = config.data_dir.join("store");
        assert_eq!(config.store_dir(), apart);
        assert!(apart.join("blobs/files").is_dir() && apart.join("hotdesk.key").is_file());
    }
}
