//! Sign-in links: an account-wide API key makes a link that signs one browser in, once, for a short time.
//!
//! The link and the session that it begins end with the key, so a deleted key leaves nothing behind, A11
//! (docs/authentication-rules.md).

use std::time::{Duration, Instant};

use crate::computers::directory::Directory;
use crate::identity::accounts::agents;
use crate::identity::auth::keys;
use crate::web::failures::Failures;
use crate::web::origin::Origin;
use crate::web::source::Source;
use hotdesk_base::clock;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{Caller, Credential, check_account_wide};
use hotdesk_store::Store;
use hotdesk_store::identity::sign_in::links::{NewSignInLink, SignInLink};

/// Lifetime of a link: time to find the terminal that printed it, and to open it.
const LIFE: Duration = Duration::from_secs(15 * 60);
/// Characters of a link's token: 43 of base62 are 256 bits.
const CHARACTERS: usize = 43;
/// Unknown tokens of one client address in a minute, as of wrong keys, A18 (docs/authentication-rules.md).
const MAX_UNKNOWN: u32 = 20;
const MINUTE: Duration = Duration::from_secs(60);

/// New link. Its token is not available later.
#[derive(Debug)]
pub struct CreatedSignInLink {
    /// Secret part of the link.
    token: Secret,
    /// Expiry time.
    pub expires_at: UnixMillis,
}

impl CreatedSignInLink {
    /// Returns the link. The token is in the fragment, which reaches neither servers nor their logs.
    pub fn url(&self, origin: &Origin) -> String {
        format!("{}/sign-in/link#token={}", origin.0, self.token.reveal())
    }
}

/// Sign-in links of all accounts.
pub struct SignInLinks {
    store: Store,
    directory: Directory,
    unknown: Failures<Source>,
}

impl SignInLinks {
    /// Creates the service of the stored links.
    pub fn new(store: Store, directory: Directory) -> Self {
        Self { store, directory, unknown: Failures::new(MAX_UNKNOWN, MINUTE) }
    }

    /// Creates a link for the caller's account. It leads to the desktop of a computer, or to the console.
    ///
    /// # Errors
    /// `Forbidden` for a scoped key, for another credential than a key, and for an agent's account; those of
    /// [`Directory::find_computer`].
    pub async fn create(&self, caller: &Caller, computer: Option<&str>) -> Result<CreatedSignInLink> {
        check_account_wide(caller, "make sign-in links")?;
        let Credential::Key(key) = caller.credential else {
            return Err(Error::forbidden("Only an API key makes sign-in links"));
        };
        // A session is a person's.
        if self.store.account(caller.account).await?.is_some_and(|account| account.kind == agents::KIND) {
            let message = "An agent's account signs nobody in until a person claims it";
            return Err(Error::forbidden(message).code(ErrorCode::UpgradeRequired));
        }
        let path = match computer {
            // A viewer of the workspace may watch.
            Some(id) => {
                let computer = self.directory.find_computer(&caller.for_read(), id).await?;
                format!("/desktops/{}/view", computer.instance)
            }
            None => "/console".to_owned(),
        };
        let (token, expires_at) = (Secret::random(CHARACTERS), clock::now().plus(LIFE));
        let digest = keys::digest(token.reveal());
        let new = NewSignInLink { digest: &digest, account: caller.account, key, path: &path, expires_at };
        if !self.store.add_sign_in_link(&new).await? {
            return Err(Error::unauthenticated("Invalid API key"));
        }
        Ok(CreatedSignInLink { token, expires_at })
    }

    /// Returns the link of a token.
    ///
    /// # Errors
    /// `NotFound` when it was used, has expired, or its key was deleted; `RateLimited` after too many of
    /// those from one address.
    pub async fn find(&self, token: &Secret, source: Source) -> Result<SignInLink> {
        match self.store.sign_in_link(&keys::digest(token.reveal())).await? {
            Some(link) => Ok(link),
            None => {
                self.unknown.attempt(&source, Instant::now())?;
                Err(invalid_link())
            }
        }
    }

    /// Consumes the link of a token, for a browser that is signed in to its account already.
    ///
    /// # Errors
    /// `NotFound` as of [`SignInLinks::find`].
    pub async fn consume(&self, token: &Secret) -> Result<SignInLink> {
        let consumed = self.store.consume_sign_in_link(&keys::digest(token.reveal())).await?;
        consumed.ok_or_else(invalid_link)
    }
}

/// No valid link has this token.
pub fn invalid_link() -> Error {
    Error::not_found("This link was used or has expired. Make another one with `hotdesk open`.")
}
