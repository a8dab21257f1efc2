//! Verification of addresses: a mailed link, opened in a browser that is signed in to the account.
//!
//! The sign-in prevents that a person confirms an account that somebody else made with the person's address.

use std::time::Duration;

use super::{Mail, Mailer, is_deliverable};
use crate::identity::auth::keys;
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::verification::check_verified;
use hotdesk_store::Store;
use hotdesk_store::identity::people::Account;
use hotdesk_store::identity::people::addresses::{NewVerification, invalid_verification};

/// Lifetime of a link: mail may be read the next day.
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// Characters of a link's token: 43 of base62 are 256 bits.
const CHARACTERS: usize = 43;

/// Verification of the addresses of all accounts.
pub struct Addresses {
    store: Store,
    mailer: Mailer,
}

impl Addresses {
    /// Creates the service of the stored links.
    pub fn new(store: Store, mailer: Mailer) -> Self {
        Self { store, mailer }
    }

    /// Whether addresses can be verified.
    pub fn sends_mail(&self) -> bool {
        self.mailer.is_configured()
    }

    /// Mails a link to the address of an account. Does nothing when it is verified, or without a mail server.
    ///
    /// # Errors
    /// `RateLimited` as of [`Store::add_verification`]; `Invalid` for an address that cannot get mail; `Unavailable`
    /// when too many mails wait; those of the database.
    pub async fn send_link(&self, account: AccountId) -> Result<()> {
        let account = self.account(account).await?;
        if account.email_verified || !self.sends_mail() {
            return Ok(());
        }
        if !is_deliverable(&account.email) {
            return Err(Error::invalid(
                "No mail can be sent to this address. Ask the operator to change it.",
            ));
        }
        let (token, created_at) = (Secret::random(CHARACTERS), clock::now());
        let new = NewVerification {
            account: account.id,
            email: &account.email,
            digest: &keys::digest(token.reveal()),
            created_at,
            expires_at: created_at.plus(LIFE),
        };
        self.store.add_verification(&new).await?;
        self.mailer.send(|url| Mail {
            account: account.id,
            to: account.email.clone(),
            subject: "Confirm your e-mail address",
            text: Secret::new(text(url, &token)),
        })
    }

    /// Mails a link to the address of a new account. A failure is only logged, because the account exists: the
    /// settings send another link.
    pub async fn welcome(&self, account: AccountId) {
        if let Err(error) = self.send_link(account).await {
            tracing::warn!(
                %account,
                error = format_args!("{error:#}"),
                "a new account got no link to confirm its address; its settings page can send one"
            );
        }
    }

    /// Returns the account of a link.
    ///
    /// # Errors
    /// `NotFound` when it was used or replaced, or has expired.
    pub async fn find(&self, token: &Secret) -> Result<AccountId> {
        let account = self.store.verification(&keys::digest(token.reveal())).await?;
        account.ok_or_else(invalid_verification)
    }

    /// Uses a link up: the address of the account is verified.
    ///
    /// # Errors
    /// `NotFound` as of [`Self::find`], and for the link of another account.
    pub async fn verify(&self, token: &Secret, account: AccountId) -> Result<()> {
        let verified = self.store.verify_address(&keys::digest(token.reveal()), account).await?;
        if verified { Ok(()) } else { Err(invalid_verification()) }
    }

    /// Refuses what the address of an account gives a right to, until the address is verified.
    ///
    /// # Errors
    /// Those of [`check_verified`].
    pub fn check(&self, account: &Account) -> Result<()> {
        check_verified(self.sends_mail(), account.email_verified)
    }

    async fn account(&self, account: AccountId) -> Result<Account> {
        self.store.account(account).await?.ok_or_else(|| Error::internal("a session without an account"))
    }
}

fn text(public_url: &str, token: &Secret) -> String {
    format!(
        "Somebody made an account with this e-mail address at {public_url}.\r\n\r\n\
         If it was you, open this link in the browser in which you are signed in. It works once, within a day:\r\n\r\n\
         {public_url}/verify-email?token={}\r\n\r\n\
         If it was not you, ignore this mail.\r\n",
        token.reveal()
    )
}
