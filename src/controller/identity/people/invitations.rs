//! How does somebody come to belong to a workspace? By a link that holds for one address, once, for a week. No mail is sent:
//! whoever invites hands the link over.

use crate::App;
use crate::accounts::agents;
use crate::auth::{keys, session};
use crate::origin::Origin;
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::access::{Caller, Role, check_account_wide};
use hotdesk_domain::email::Email;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::invitations::{Invitation, NewInvitation};
use hotdesk_store::people::Account;

/// How long an invitation holds (wire.md 3).
const LIFE_MS: i64 = 7 * 24 * 3_600_000;
/// Characters of a link's token: 43 of base62 are 256 bits.
const CHARACTERS: usize = 43;

/// An invitation that was just made. The token is here and never again.
#[derive(Debug)]
pub struct Invited {
    /// Who is invited.
    pub email: Email,
    /// What they become.
    pub role: Role,
    /// When it was made.
    pub created_at: i64,
    /// When it is worth nothing any more.
    pub expires_at: i64,
    /// The link's secret part.
    pub token: Secret,
}

impl Invited {
    /// The link.
    pub fn url(&self, origin: &Origin) -> String {
        // In the query: paths are logged, queries never.
        format!("{}/invitation?token={}", origin.0, self.token.reveal())
    }
}

impl App {
    /// Invites an address into a workspace; an older invitation of it is worth nothing any more.
    ///
    /// # Errors
    /// As [`App::find_workspace_as`] and [`hotdesk_store::Store::invite`]; `Invalid` for what is no address.
    pub async fn invite(&self, caller: &Caller, workspace: &str, email: &str, role: Role) -> Result<Invited> {
        let (workspace, _) = self.find_workspace_as(caller, workspace, Role::Admin).await?;
        check_account_wide(caller, "invite people")?;
        // Whom it lets in would have the plan of a person.
        if self.store.account(workspace.account).await?.is_some_and(|account| account.kind == agents::KIND) {
            let message = "An agent's account invites nobody until a person claims it";
            return Err(Error::forbidden(message).code("UPGRADE_REQUIRED"));
        }
        let (email, token, created_at) = (Email::parse(email)?, Secret::random(CHARACTERS), now_ms());
        let expires_at = created_at.saturating_add(LIFE_MS);
        let new = NewInvitation {
            workspace: workspace.id,
            email: &email,
            role,
            inviter: caller.account,
            digest: &keys::digest(token.reveal()),
            created_at,
            expires_at,
        };
        self.store.invite(&new, &self.plans).await?;
        Ok(Invited { email, role, created_at, expires_at, token })
    }

    /// Takes an invitation back.
    ///
    /// # Errors
    /// As [`App::find_workspace_as`]; `NotFound` when the address has none.
    pub async fn uninvite(&self, caller: &Caller, workspace: &str, email: &str) -> Result<()> {
        let (workspace, _) = self.find_workspace_as(caller, workspace, Role::Admin).await?;
        let removed = self.store.uninvite(workspace.id, &Email::parse(email)?).await?;
        if removed { Ok(()) } else { Err(Error::not_found("Invitation not found")) }
    }

    /// The invitation that a link is for.
    ///
    /// # Errors
    /// `NotFound` when it was used, taken back or replaced, or its time is over.
    pub async fn invitation(&self, token: &str) -> Result<Invitation> {
        self.store.invitation(&keys::digest(token)).await?.ok_or_else(over)
    }

    /// Has a signed-in account take the invitation of a link.
    ///
    /// # Errors
    /// `NotFound` as [`App::invitation`]; `Forbidden` when it is another address's.
    pub async fn join(&self, token: &str, account: AccountId) -> Result<WorkspaceId> {
        let invitation = self.invitation(token).await?;
        let own = self.store.account(account).await?.is_some_and(|account| account.email == invitation.email);
        if !own {
            return Err(Error::forbidden(
                "This invitation is for another e-mail address than the one signed in",
            ));
        }
        self.store.join(&keys::digest(token), account).await?.ok_or_else(over)
    }

    /// Makes an account for the address of an invitation, which takes it; the account and the workspace.
    ///
    /// # Errors
    /// As [`App::invitation`] and [`hotdesk_store::Store::join_anew`]; `Invalid` for a password that is none.
    pub async fn join_anew(
        &self,
        token: &str,
        full_name: &str,
        password: Secret,
    ) -> Result<(AccountId, WorkspaceId)> {
        let email = Email::parse(&self.invitation(token).await?.email)?;
        let (full_name, hash) = (person_name(full_name)?, session::hash_password(password).await?);
        let account = Account::person(&email, &full_name, Some(hash));
        let workspace =
            self.store.join_anew(&keys::digest(token), &account, &self.plans).await?.ok_or_else(over)?;
        Ok((account.id, workspace))
    }
}

fn over() -> Error {
    Error::not_found("This invitation was used or taken back, or its time is over. Ask for a new one.")
}

/// What a person is called, which may be nothing.
///
/// # Errors
/// `Invalid` for what is longer than any other name here, or has control characters.
pub fn person_name(text: &str) -> Result<String> {
    if text.trim().is_empty() {
        return Ok(String::new());
    }
    hotdesk_domain::name::Name::parse(text).map(|name| name.as_str().to_owned())
}
