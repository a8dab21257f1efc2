//! Where does the agent's token come from? A file that only its owner reads, given or made.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::base::secret::Secret;

/// Characters of a made token: 43 base62 characters hold 256 bits (threats.md design 4).
const LENGTH: usize = 43;
/// Shortest token that is accepted: 16 base62 characters hold 95 bits.
const SHORTEST: usize = 16;
/// Longest that is read: no sensible token is longer, and it must fit a header.
const LONGEST: u64 = 1024;

/// Reads a token.
///
/// # Errors
/// When the file cannot be read, others than its owner may read or write it, or it holds no usable token.
pub fn read(path: &Path) -> Result<Secret, String> {
    let fail = |why: String| format!("token file {}: {why}", path.display());
    // Non-blocking, so that a FIFO does not hang the start.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| fail(error.to_string()))?;
    let facts = file.metadata().map_err(|error| fail(error.to_string()))?;
    if !facts.is_file() {
        return Err(fail("not a regular file".to_owned()));
    }
    if facts.mode() & 0o077 != 0 {
        return Err(fail(format!("mode {:04o} lets others in; chmod 600 it", facts.mode() & 0o7777)));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    let token = text.trim();
    if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(fail(format!("must hold at least {SHORTEST} visible ASCII characters and no spaces")));
    }
    Ok(Secret::new(token))
}

/// Makes a token and writes it to `token` in a folder; returns it and the file's path. An earlier one is replaced.
///
/// # Errors
/// When the file cannot be written.
pub fn make(folder: &Path) -> Result<(Secret, PathBuf), String> {
    let path = folder.join("token");
    let token = Secret::random(LENGTH);
    write(&path, &token).map_err(|error| format!("token file {}: {error}", path.display()))?;
    Ok((token, path))
}

fn write(path: &Path, token: &Secret) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", token.reveal())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_made_token_is_private_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let (first, path) = make(folder.path()).unwrap();
        assert!(read(&path).unwrap().matches(first.reveal()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let (second, _) = make(folder.path()).unwrap();
        assert!(!second.matches(first.reveal()) && read(&path).unwrap().matches(second.reveal()));
    }

    #[test]
    fn a_token_that_others_can_read_or_guess_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let with = |text: &[u8], mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read(&path)
        };
        assert!(with(b"  0123456789abcdef\n", 0o400).unwrap().matches("0123456789abcdef"));
        for mode in [0o644, 0o640, 0o604, 0o620, 0o601] {
            let refusal = with(b"0123456789abcdef", mode).unwrap_err();
            assert!(refusal.contains("lets others in") && !refusal.contains("0123456789"), "{refusal}");
        }
        for text in [b"".as_slice(), b"\n", b"short", b"0123456789 abcdef", b"\xff0123456789abcdef"] {
            assert!(with(text, 0o600).is_err(), "{text:?}");
        }
        assert!(read(folder.path()).is_err() && read(&folder.path().join("none")).is_err());
    }
}
