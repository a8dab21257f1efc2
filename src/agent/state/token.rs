//! Bearer token of the agent: read from a file or generated, and replaced by `POST /identity`.
//!
//! A renewed token is stored in the runtime folder, because the agent may not be able to write the original
//! file. Beside it is a hash of the original token that it replaces. A restarted agent uses the renewed token
//! as long as the original file holds the same token; another boot's token invalidates it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use hotdesk_base::hex::hex;
use hotdesk_base::secret::Secret;
use hotdesk_base::step_error::StepError;
use hotdesk_domain::error::{Error, Result};

/// Characters of a generated token: 43 base62 characters hold 256 bits (D4, docs/security.md).
const LENGTH: usize = 43;
/// Shortest token that is accepted: 16 base62 characters hold 95 bits.
const MIN_LENGTH: usize = 16;
/// Exclusive upper bound in bytes: a token must fit a header. Files are read up to twice this size.
const MAX_LENGTH: usize = 1024;
/// File of a generated token.
const GENERATED_FILE: &str = "token";
/// File of a renewed token: the hash of the original token on the first line, the renewed token on the
/// second.
const RENEWED_FILE: &str = "renewed-token";

/// The token in force.
pub struct Token {
    active: Mutex<ActiveToken>,
    /// File that stores a renewed token.
    file: PathBuf,
    /// SHA-256 of the token that the agent was started with, in hexadecimal digits.
    given: Option<String>,
}

struct ActiveToken {
    token: Secret,
    term: Term,
}

/// Validity period of one token. Sockets that were opened with the token close at its end.
#[derive(Clone, Debug, Default)]
pub struct Term(CancellationToken);

impl Term {
    /// Resolves when another token has replaced this one.
    pub async fn ended(&self) {
        self.0.cancelled().await;
    }
}

impl Token {
    /// Reads the token of a file, or the renewed token in `folder` that has replaced it.
    ///
    /// # Errors
    /// Those of [`read`] for `path`; an unreadable renewed token is ignored.
    pub fn from_file(path: &Path, folder: &Path) -> Result<Self, StepError> {
        let given = read(path)?;
        let mark = hex(&Sha256::digest(given.reveal()));
        let file = folder.join(RENEWED_FILE);
        let renewed = read_private(&file).ok();
        let renewed = renewed.as_ref().and_then(|text| text.split_once('\n'));
        let renewed = renewed.filter(|(of, token)| *of == mark && is_usable(token.trim()));
        let token = renewed.map_or(given, |(_, token)| Secret::new(token.trim()));
        Ok(Self::new(token, file, Some(mark)))
    }

    /// Generates a token and writes it to a file in `folder`; returns also the file's path. Replaces an
    /// earlier file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn generate(folder: &Path) -> Result<(Self, PathBuf), StepError> {
        let path = folder.join(GENERATED_FILE);
        let token = Self::new(Secret::random(LENGTH), path.clone(), None);
        let written = token.save(&token.lock().token);
        written.map_err(StepError::at(token_file(&path)))?;
        Ok((token, path))
    }

    fn new(token: Secret, file: PathBuf, given: Option<String>) -> Self {
        Self { active: Mutex::new(ActiveToken { token, term: Term::default() }), file, given }
    }

    /// Returns the validity period when `shown` is the active token. Compares in constant time.
    pub fn admits(&self, shown: &str) -> Option<Term> {
        let active = self.lock();
        active.token.matches(shown).then(|| active.term.clone())
    }

    /// Replaces the active token and ends its term; does nothing when `token` is already active. `asked` is
    /// the term of the token that the request showed. Blocks.
    ///
    /// # Errors
    /// `Unauthenticated` when `asked` has ended; `Unavailable` when the token cannot be stored. Nothing is
    /// changed then.
    pub fn renew(&self, asked: &Term, token: Secret) -> Result<()> {
        let mut active = self.lock();
        if asked.0.is_cancelled() {
            return Err(replaced());
        }
        if active.token.matches(token.reveal()) {
            return Ok(());
        }
        let failed = |error| Error::unavailable("the token could not be stored").context(error);
        self.save(&token).map_err(failed)?;
        let last = std::mem::replace(&mut *active, ActiveToken { token, term: Term::default() });
        drop(active);
        last.term.0.cancel();
        Ok(())
    }

    /// Writes a token to the file, whole or not at all.
    fn save(&self, token: &Secret) -> io::Result<()> {
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

    fn lock(&self) -> MutexGuard<'_, ActiveToken> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `Unauthenticated`: another token has replaced the one that the request showed.
pub fn replaced() -> Error {
    Error::unauthenticated("the token was renewed")
}

/// Whether a text is 16 to 1023 visible ASCII characters: a token must be hard to guess and fit a header.
pub fn is_usable(token: &str) -> bool {
    (MIN_LENGTH..MAX_LENGTH).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reads a token.
///
/// # Errors
/// When the file cannot be read, others than its owner may read or write it, or it holds no usable token.
fn read(path: &Path) -> Result<Secret, StepError> {
    let text = read_private(path)?;
    let token = text.trim();
    if !is_usable(token) {
        return Err(StepError::new(format!(
            "{}: must hold at least {MIN_LENGTH} visible ASCII characters and no spaces",
            token_file(path)
        )));
    }
    Ok(Secret::new(token))
}

fn token_file(path: &Path) -> String {
    format!("token file {}", path.display())
}

/// Reads a file that only its owner may read or write.
fn read_private(path: &Path) -> Result<String, StepError> {
    let fail = StepError::at(token_file(path));
    let refuse = |why: String| StepError::new(format!("{}: {why}", token_file(path)));
    // Non-blocking, so that a FIFO does not hang the start.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(&fail)?;
    let facts = file.metadata().map_err(&fail)?;
    if !facts.is_file() {
        return Err(refuse("not a regular file".to_owned()));
    }
    if facts.mode() & 0o077 != 0 {
        return Err(refuse(format!("mode {:04o} lets others in; chmod 600 it", facts.mode() & 0o7777)));
    }
    let mut text = String::new();
    file.take(2 * MAX_LENGTH as u64).read_to_string(&mut text).map_err(fail)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_made_token_is_private_and_a_renewed_one_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (token, path) = Token::generate(folder.path()).unwrap();
        let first = read(&path).unwrap();
        let term = token.admits(first.reveal()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        token.renew(&term, Secret::new("another-token-of-this-test")).unwrap();
        assert!(read(&path).unwrap().matches("another-token-of-this-test"));
        let (second, _) = Token::generate(folder.path()).unwrap();
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
        let open = || Token::from_file(&file, folder.path()).unwrap();
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
            let refusal = String::from(with(b"0123456789abcdef", mode).unwrap_err());
            assert!(refusal.contains("lets others in") && !refusal.contains("0123456789"), "{refusal}");
        }
        for text in [b"".as_slice(), b"\n", b"short", b"0123456789 abcdef", b"\xff0123456789abcdef"] {
            assert!(with(text, 0o600).is_err(), "{text:?}");
        }
        assert!(read(folder.path()).is_err() && read(&folder.path().join("none")).is_err());
    }
}
