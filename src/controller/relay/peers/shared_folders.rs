//! Folder of stored files and machines that the controllers over one database have in common.
//!
//! | | id in the folder | controllers have in common |
//! |---|---|---|
//! | stored files | `blobs/id` | the folder, on a file system that they share |
//! | instances of Incus | `incus/owner` | the id; a new controller takes it from the database |
//! | machines of embedded engines | `owner` | nothing: they are on one host, so another controller leads only without computers |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::config::Config;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::Store;
use hotdesk_store::database::{LeaseClient, SharedValue};

/// What to do about the ids of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MachinesStep {
    /// They are those of the service.
    Continue,
    /// The folder gets the id of the service.
    Adopt,
    /// The service gets the id of the folder, which gets one if it has none.
    Register,
    /// They are not those of the service, whose computers would be lost.
    Refuse,
}

/// Checks that folders and machines of this controller are those of the service, without a change of either.
///
/// # Errors
/// `Internal`, with the file and the remedy, when they are not; those of the database.
pub(super) async fn check(config: &Config, lease: &mut LeaseClient) -> Result<()> {
    let file = blobs_file(config);
    if let Some(wanted) = lease.shared_value(SharedValue::Blobs).await?
        && read_id(&file)? != Some(wanted)
    {
        return Err(wrong_blobs(&file));
    }
    machines_step(config, lease).await.map(drop)
}

/// Gives the machines of the leader the id that the service has, or the other way round, before the engine opens.
///
/// # Errors
/// Those of [`check`]; `Internal` when a file cannot be written.
pub(super) async fn settle_machines(config: &Config, lease: &mut LeaseClient) -> Result<()> {
    let file = machines_file(config);
    match machines_step(config, lease).await? {
        MachinesStep::Continue | MachinesStep::Refuse => Ok(()),
        MachinesStep::Adopt => match lease.shared_value(SharedValue::Machines).await? {
            Some(id) => write_id(&file, &id),
            None => Ok(()),
        },
        MachinesStep::Register => lease.share(SharedValue::Machines, &own_id(&file)?).await,
    }
}

/// Gives the folder of stored files of the first leader its id, which all later ones must find there.
///
/// # Errors
/// `Internal`, with the file and the remedy, when the folder is not that of the service; those of the store.
pub async fn settle_blobs(config: &Config, store: &Store) -> Result<()> {
    let file = blobs_file(config);
    let own = own_id(&file)?;
    if store.share(SharedValue::Blobs, &own).await? == own { Ok(()) } else { Err(wrong_blobs(&file)) }
}

/// Compares the machines of this controller with those of the service.
///
/// # Errors
/// `Internal`, with the file and the remedy, for [`MachinesStep::Refuse`]; those of the database.
async fn machines_step(config: &Config, lease: &mut LeaseClient) -> Result<MachinesStep> {
    let file = machines_file(config);
    let (stored, found) = (lease.shared_value(SharedValue::Machines).await?, read_id(&file)?);
    let is_incus = config.engines.incus.is_used();
    let step = decide(is_incus, stored.as_deref(), found.as_deref(), lease.has_computers().await?);
    if step != MachinesStep::Refuse {
        return Ok(step);
    }
    let file = file.display();
    Err(Error::failed(if is_incus {
        format!(
            "{file} is not the id of the instances of this service, which has computers: copy it from the controller that \
             made them; if it belongs to another service, set another data_dir"
        )
    } else {
        format!(
            "{file} is not the id of the machines of this service: its computers are on the host of another controller, \
             and only those of engines.incus can be reached from several"
        )
    }))
}

/// The rule of [`machines_step`], by the id in the database and that in the folder.
fn decide(is_incus: bool, stored: Option<&str>, found: Option<&str>, has_computers: bool) -> MachinesStep {
    match (stored, found) {
        // Instances of the service have the id of another folder.
        (None, None) if is_incus && has_computers => MachinesStep::Refuse,
        (None, Some(_) | None) => MachinesStep::Register,
        (Some(stored), Some(found)) if stored == found => MachinesStep::Continue,
        (Some(_), None) if is_incus => MachinesStep::Adopt,
        (Some(_), Some(_) | None) if is_incus || has_computers => MachinesStep::Refuse,
        (Some(_), Some(_) | None) => MachinesStep::Register,
    }
}

fn blobs_file(config: &Config) -> PathBuf {
    config.store_dir().join("blobs").join("id")
}

fn machines_file(config: &Config) -> PathBuf {
    let folder = config.machines_dir();
    // The engine's own file, which it makes if it is missing.
    if config.engines.incus.is_used() { folder.join("incus").join("owner") } else { folder.join("owner") }
}

fn wrong_blobs(file: &Path) -> Error {
    let folder = file.parent().unwrap_or(file).display();
    Error::failed(format!(
        "{folder} is not the folder in which the other controllers of this database store files: mount the file system that \
         they share there"
    ))
}

/// Returns the id in a file; `None` when there is none.
fn read_id(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", file, &error)),
    }
}

/// Returns the id in a file, which gets one if there is none.
fn own_id(file: &Path) -> Result<String> {
    if let Some(id) = read_id(file)? {
        return Ok(id);
    }
    let id = Uuid::new_v4().to_string();
    write_id(file, &id)?;
    Ok(id)
}

/// Writes an id to a file that does not exist, and its folder if needed.
fn write_id(file: &Path, id: &str) -> Result<()> {
    let written = || {
        let folder = file.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // Renamed when it is whole: a crash leaves no empty file.
        let draft = file.with_extension("new");
        let mut created =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        created.write_all(id.as_bytes())?;
        created.sync_all()?;
        fs::rename(&draft, file)?;
        File::open(folder)?.sync_all()
    };
    written().map_err(|error| failed("write", file, &error))
}

fn failed(step: &str, file: &Path, error: &io::Error) -> Error {
    Error::failed(format!("cannot {step} {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_machines_of_the_service_are_used() {
        use MachinesStep::{Adopt, Continue, Refuse, Register};
        for (is_incus, stored, found, has_computers, step) in [
            (true, None, None, false, Register),
            (true, None, None, true, Refuse),
            (true, None, Some("a"), true, Register),
            (true, Some("a"), Some("a"), true, Continue),
            (true, Some("a"), None, true, Adopt),
            (true, Some("a"), Some("b"), false, Refuse),
            (false, None, None, false, Register),
            (false, None, None, true, Register),
            (false, Some("a"), Some("a"), true, Continue),
            (false, Some("a"), None, true, Refuse),
            (false, Some("a"), Some("b"), true, Refuse),
            (false, Some("a"), None, false, Register),
            (false, Some("a"), Some("b"), false, Register),
        ] {
            let decided = decide(is_incus, stored, found, has_computers);
            assert_eq!(decided, step, "{is_incus} {stored:?} {found:?} {has_computers}");
        }
    }

    #[test]
    fn an_id_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("blobs").join("id");
        assert_eq!(read_id(&file).unwrap(), None);
        let id = own_id(&file).unwrap();
        assert_eq!((own_id(&file).unwrap(), read_id(&file).unwrap()), (id.clone(), Some(id)));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    }
}
