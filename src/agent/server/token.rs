//! Which token must be shown? One from a file that only its owner reads, given or made, until a renewal replaces it.
//!
//! A renewed token lies in the runtime folder, because the file of the given one may be out of the agent's reach: an agent
//! that is started again after its end finds it there, beside a mark of the given token that it replaces. So it counts for
//! as long as the same token is given, and another boot's token ends it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use hotdesk_base::hex::hex;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};

/// Characters of a made token: 43 base62 characters hold 256 bits (threats.md design 4).
const LENGTH: usize = 43;
/// Shortest token that is accepted: 16 base62 characters hold 95 bits.
const SHORTEST: usize = 16;
/// A token is shorter: no sensible one is longer, and it must fit a header. Files are read to twice of it.
const LONGEST: usize = 1024;
/// The file of a token that was made here.
const MADE: &str = "token";
/// The file of one that has replaced a given one: the mark of that, and itself, a line each.
const RENEWED: &str = "renewed-token";

/// The token in force.
pub struct Token {
    in_force: Mutex<InForce>,
    /// Where a renewed one is kept.
    file: PathBuf,
    /// The mark of the token that was given.
    given: Option<String>,
}

struct InForce {
    token: Secret,
    term: Term,
}

/// The time during which a token is in force: who was let in with it may stay until its end.
#[derive(Clone, Debug, Default)]
pub struct Term(CancellationToken);

impl Term {
    /// Resolves when another token has replaced this one.
    pub async fn ended(&self) {
        self.0.cancelled().await;
    }
}

impl Token {
    /// The token of a file, or the one that has replaced it since.
    ///
    /// # Errors
    /// As [`read`].
    pub fn given(path: &Path, folder: &Path) -> Result<Self, String> {
        let given = read(path)?;
        let mark = hex(&Sha256::digest(given.reveal()));
        let file = folder.join(RENEWED);
        let renewed = read_private(&file).ok();
        let renewed = renewed.as_ref().and_then(|text| text.split_once('\n'));
        let renewed = renewed.filter(|(of, token)| *of == mark && usable(token.trim()));
        let token = renewed.map_or(given, |(_, token)| Secret::new(token.trim()));
        Ok(Self::new(token, file, Some(mark)))
    }

    /// Makes one and writes it to a file in a folder; returns also the file's path. An earlier one is replaced.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn made(folder: &Path) -> Result<(Self, PathBuf), String> {
        let path = folder.join(MADE);
        let token = Self::new(Secret::random(LENGTH), path.clone(), None);
        let written = token.keep(&token.lock().token);
        written.map_err(|error| format!("token file {}: {error}", path.display()))?;
        Ok((token, path))
    }

    fn new(token: Secret, file: PathBuf, given: Option<String>) -> Self {
        Self { in_force: Mutex::new(InForce { token, term: Term::default() }), file, given }
    }

    /// Whether who shows this may come in, and for how long; it is compared in constant time.
    pub fn admits(&self, shown: &str) -> Option<Term> {
        let in_force = self.lock();
        in_force.token.matches(shown).then(|| in_force.term.clone())
    }

    /// Takes another token for the only one and ends the term of the last; the one in force stays as it is. `asked` is the
    /// term in which it was asked for. Blocks.
    ///
    /// # Errors
    /// `Unauthenticated` when that term has ended meanwhile; `Unavailable` when the token cannot be kept, and nothing has
    /// changed.
    pub fn renew(&self, asked: &Term, token: Secret) -> Result<()> {
        let mut in_force = self.lock();
        if asked.0.is_cancelled() {
            return Err(over());
        }
        if in_force.token.matches(token.reveal()) {
            return Ok(());
        }
        let failed = |error| Error::unavailable("the token could not be kept").context(error);
        self.keep(&token).map_err(failed)?;
        let last = std::mem::replace(&mut *in_force, InForce { token, term: Term::default() });
        drop(in_force);
        last.term.0.cancel();
        Ok(())
    }

    /// Writes a token to the file, whole or not at all.
    fn keep(&self, token: &Secret) -> io::Result<()> {
        let new = self.file.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        if let Some(mark) = &self.given {
            writeln!(file, "{mark}")?;
        }
        writeln!(file, "{}", token.reveal())?;
        fs::rename(&new, &self.file)
    }

    fn lock(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What somebody is told whose token another one has replaced.
pub fn over() -> Error {
    Error::unauthenticated("the token was renewed")
}

/// Whether a text can be a token: it must fit a header and be hard to guess.
pub fn usable(token: &str) -> bool {
    (SHORTEST..LONGEST).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reads a token.
///
/// # Errors
/// When the file cannot be read, others than its owner may read or write it, or it holds no usable token.
fn read(path: &Path) -> Result<Secret, String> {
    let text = read_private(path)?;
    let token = text.trim();
    if !usable(token) {
        return Err(format!(
            "token file {}: must hold at least {SHORTEST} visible ASCII characters and no spaces",
            path.display()
        ));
    }
    Ok(Secret::new(token))
}

/// Reads a file that only its owner may read or write.
fn read_private(path: &Path) -> Result<String, String> {
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
    file.take(2 * LONGEST as u64).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_made_token_is_private_and_a_renewed_one_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (token, path) = Token::made(folder.path()).unwrap();
        let first = read(&path).unwrap();
        let term = token.admits(first.reveal()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        token.renew(&term, Secret::new("another-token-of-this-test")).unwrap();
        assert!(read(&path).unwrap().matches("another-token-of-this-test"));
        let (second, _) = Token::made(folder.path()).unwrap();
        assert!(second.admits("another-token-of-this-test").is_none());
        assert!(second.admits(read(&path).unwrap().reveal()).is_some());
    }

    #[tokio::test]
    async fn a_renewal_ends_the_last_term_and_outlives_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("given");
        let give = |text: &str| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
        };
        let open = || Token::given(&file, folder.path()).unwrap();
        give("the-token-of-the-first-boot");
        let token = open();
        let old = token.admits("the-token-of-the-first-boot").unwrap();
        token.renew(&old, Secret::new("the-first-renewed-token")).unwrap();
        old.ended().await;
        assert!(token.admits("the-token-of-the-first-boot").is_none());
        // Asked for in the old term, it comes too late; in the new one the same changes nothing.
        assert!(token.renew(&old, Secret::new("the-token-of-somebody-else")).is_err());
        let new = token.admits("the-first-renewed-token").unwrap();
        token.renew(&new, Secret::new("the-first-renewed-token")).unwrap();
        assert!(!new.0.is_cancelled());
        assert!(open().admits("the-first-renewed-token").is_some());
        token.renew(&new, Secret::new("the-second-renewed-token")).unwrap();
        let again = open();
        assert!(again.admits("the-second-renewed-token").is_some());
        assert!(again.admits("the-token-of-the-first-boot").is_none());
        // The next boot.
        fs::remove_file(&file).unwrap();
        give("the-token-of-the-second-boot");
        assert!(open().admits("the-token-of-the-second-boot").is_some());
        assert!(open().admits("the-second-renewed-token").is_none());
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
