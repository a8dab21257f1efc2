//! SSH host keys: the first one, and their renewal.
//!
//! At a renewal each existing key is replaced by a new one of its type. A key that cannot be replaced is removed, because
//! it belongs to another computer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use hotdesk_base::step_error::StepError;

const KEYGEN: &str = "ssh-keygen";
/// Key types that are generated anew; keys of other types are only removed.
const TYPES: [&str; 3] = ["rsa", "ecdsa", "ed25519"];
/// Type of the key that the agent makes itself.
const OWN_TYPE: &str = "ed25519";
/// How long one key may take: an RSA key takes half a second on a real processor and seconds on an emulated
/// one.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the path of the computer's host key and its public part. Makes the key if there is none; calls must not
/// overlap.
///
/// # Errors
/// When `ssh-keygen` fails, or a file cannot be written.
pub(in crate::system) async fn own(root: &Path) -> Result<(PathBuf, String), StepError> {
    let key = root.join(format!("etc/ssh/ssh_host_{OWN_TYPE}_key"));
    if !key.exists() {
        let new = root.join(format!("etc/ssh/hotdesk-new-{OWN_TYPE}"));
        make(&new, OWN_TYPE).await?;
        // The private part is last: the key exists once both parts do.
        let moved = fs::rename(public(&new), public(&key)).and_then(|()| fs::rename(&new, &key));
        moved.map_err(StepError::at("the new key could not be moved"))?;
    }
    // Not the file of the public part, which somebody may have changed or removed.
    let mut reader = Command::new(KEYGEN);
    reader.arg("-y").arg("-f").arg(&key).stdin(Stdio::null()).kill_on_drop(true);
    let read = tokio::time::timeout(TIMEOUT, reader.output()).await;
    let read = read.map_err(|_| StepError::new(format!("{KEYGEN} took too long")))?;
    let read = read.map_err(StepError::at(KEYGEN))?;
    match String::from_utf8(read.stdout) {
        Ok(text) if read.status.success() => Ok((key, text.trim().to_owned())),
        Ok(_) | Err(_) => {
            Err(StepError::new(format!("{KEYGEN} cannot read {}: {}", key.display(), read.status)))
        }
    }
}

/// Generates new host keys and returns the failures; `None` when there are no keys. A running SSH server uses
/// the old keys until its restart.
pub(super) async fn renew(root: &Path) -> Option<Vec<StepError>> {
    let folder = root.join("etc/ssh");
    let types = match types(&folder) {
        Ok(types) if types.is_empty() => return None,
        Ok(types) => types,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(vec![StepError::at(folder.display().to_string())(error)]),
    };
    let mut failures = Vec::new();
    for kind in types {
        failures.extend(replace(&folder, &kind).await.into_iter().map(StepError::at(kind)));
    }
    Some(failures)
}

/// Types of the keys in a folder, sorted.
fn types(folder: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let kind = name
            .to_str()
            .and_then(|name| name.strip_prefix("ssh_host_")?.strip_suffix("_key").map(str::to_owned));
        found.extend(kind);
    }
    found.sort();
    Ok(found)
}

/// Replaces a key of a type, or removes it. Returns why it was not replaced, and why it is still there.
async fn replace(folder: &Path, kind: &str) -> Vec<StepError> {
    let key = folder.join(format!("ssh_host_{kind}_key"));
    let gone = StepError::at("the old key could not be removed");
    if !TYPES.contains(&kind) {
        return remove(&key).map_err(gone).err().into_iter().collect();
    }
    let new = folder.join(format!("hotdesk-new-{kind}"));
    let made = make(&new, kind).await.and_then(|()| {
        let moved = fs::rename(&new, &key).and_then(|()| fs::rename(public(&new), public(&key)));
        moved.map_err(StepError::at("the new key could not be moved"))
    });
    let Err(failure) = made else { return Vec::new() };
    let removed = remove(&new).and_then(|()| remove(&key)).map_err(gone);
    [Some(failure), removed.err()].into_iter().flatten().collect()
}

async fn make(path: &Path, kind: &str) -> Result<(), StepError> {
    // `ssh-keygen` asks before it overwrites a file that an interrupted call has left.
    remove(path).map_err(StepError::at("the remains of a new key could not be removed"))?;
    let mut maker = Command::new(KEYGEN);
    maker.args(["-q", "-N", "", "-C", "", "-t", kind, "-f"]).arg(path);
    maker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(TIMEOUT, maker.status()).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(StepError::new(format!("{KEYGEN}: {status}"))),
        Ok(Err(error)) => Err(StepError::at(KEYGEN)(error)),
        Err(_) => Err(StepError::new(format!("{KEYGEN} took too long"))),
    }
}

fn public(key: &Path) -> PathBuf {
    key.with_extension("pub")
}

/// Removes a key and its public part.
fn remove(key: &Path) -> io::Result<()> {
    for path in [key, &public(key)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_computer_makes_one_key_and_keeps_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/ssh")).unwrap();
        if std::process::Command::new(KEYGEN).arg("-?").output().is_err() {
            assert!(own(root.path()).await.is_err());
            return hotdesk_capability::Capability::Ssh.skip("no ssh-keygen");
        }
        let (path, public) = own(root.path()).await.unwrap();
        assert!(public.starts_with("ssh-ed25519 ") && path.starts_with(root.path()), "{public}");
        fs::write(path.with_extension("pub"), "changed").unwrap();
        assert_eq!(own(root.path()).await.unwrap(), (path.clone(), public.clone()));
        assert!(renew(root.path()).await.unwrap().is_empty());
        assert_ne!(own(root.path()).await.unwrap().1, public);
        fs::write(&path, "no key").unwrap();
        assert!(own(root.path()).await.is_err());
    }

    #[tokio::test]
    async fn every_key_is_replaced_by_one_of_its_type() {
        let root = tempfile::tempdir().unwrap();
        assert!(renew(root.path()).await.is_none());
        let at = |name: &str| root.path().join("etc/ssh").join(name);
        fs::create_dir_all(at("")).unwrap();
        fs::write(at("sshd_config"), "mine").unwrap();
        assert!(renew(root.path()).await.is_none());
        for name in ["ssh_host_ed25519_key", "ssh_host_ed25519_key.pub", "ssh_host_dsa_key"] {
            fs::write(at(name), "old").unwrap();
        }
        let renewed = renew(root.path()).await.unwrap();
        assert!(!at("ssh_host_dsa_key").exists());
        if std::process::Command::new(KEYGEN).arg("-?").output().is_err() {
            assert!(format!("{:#}", renewed[0]).starts_with("ed25519: ssh-keygen"));
            return hotdesk_capability::Capability::Ssh.skip("no ssh-keygen");
        }
        assert!(renewed.is_empty(), "{renewed:?}");
        let key = fs::read_to_string(at("ssh_host_ed25519_key")).unwrap();
        assert!(key.contains("OPENSSH PRIVATE KEY"));
        assert!(fs::read_to_string(at("ssh_host_ed25519_key.pub")).unwrap().starts_with("ssh-ed25519 "));
        let names = fs::read_dir(at("")).unwrap().count();
        assert_eq!(names, 3, "something is left over");
        assert!(renew(root.path()).await.unwrap().is_empty());
        assert_ne!(fs::read_to_string(at("ssh_host_ed25519_key")).unwrap(), key);
    }
}
