//! Invitations to workspaces: links that are valid for one address, once, for a week.
//!
//! An invitation is not mailed; the person who invites passes the link on.

use std::sync::Arc;
use std::time::Duration;

use crate::computers::directory::Directory;
use crate::identity::accounts::agents;
use crate::identity::auth::{keys, session};
use crate::identity::mail::addresses::Addresses;
use crate::web::origin::Origin;
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{Caller, Role, check_account_wide};
use hotdesk_domain::identity::email::Email;
use hotdesk_store::Store;
use hotdesk_store::identity::invitations::{Invitation, NewInvitation};
use hotdesk_store::identity::people::Account;

/// Lifetime of an invitation (docs/api/workspaces.md).
const LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Characters of a link's token: 43 of base62 are 256 bits.
const CHARACTERS: usize = 43;

/// New invitation. Its token is not available later.
#[derive(Debug)]
pub struct CreatedInvitation {
    /// Invited address.
    pub email: Email,
    /// Role that the person gets.
    pub role: Role,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Expiry time.
    pub expires_at: UnixMillis,
    /// Secret part of the link.
    pub token: Secret,
}

impl CreatedInvitation {
    /// Returns the link.
    pub fn url(&self, origin: &Origin) -> String {
        // The token is in the query, because paths are logged and queries are not.
        format!("{}/invitation?token={}", origin.0, self.token.reveal())
    }
}

/// Invitations to all workspaces.
pub struct Invitations {
    store: Store,
    directory: Directory,
    plans: Plans,
    addresses: Arc<Addresses>,
}

impl Invitations {
    /// Creates the service of the stored invitations.
    pub fn new(store: Store, directory: Directory, plans: Plans, addresses: Arc<Addresses>) -> Self {
        Self { store, directory, plans, addresses }
    }

    /// Invites an address to a workspace. It replaces an earlier invitation of the address.
    ///
    /// # Errors
    /// The errors of [`Directory::find_workspace_as`] and [`Store::invite`]; `Invalid` for an
    /// invalid address; `Forbidden` (`UPGRADE_REQUIRED`) for an agent's account.
    pub async fn create(
        &self,
        caller: &Caller,
        workspace: &str,
        email: &str,
        role: Role,
    ) -> Result<CreatedInvitation> {
        let (workspace, _) = self.directory.find_workspace_as(caller, workspace, Role::Admin).await?;
        check_account_wide(caller, "invite people")?;
        // The invited person would have the plan of a person.
        if self.store.account(workspace.account).await?.is_some_and(|account| account.kind == agents::KIND) {
            let message = "An agent's account invites nobody until a person claims it";
            return Err(Error::forbidden(message).code(ErrorCode::UpgradeRequired));
        }
        let (email, token, created_at) = (Email::parse(email)?, Secret::random(CHARACTERS), clock::now());
        let expires_at = created_at.plus(LIFE);
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
        Ok(CreatedInvitation { email, role, created_at, expires_at, token })
    }

    /// Revokes an invitation.
    ///
    /// # Errors
    /// The errors of [`Directory::find_workspace_as`]; `NotFound` when the address has none.
    pub async fn revoke(&self, caller: &Caller, workspace: &str, email: &str) -> Result<()> {
        let (workspace, _) = self.directory.find_workspace_as(caller, workspace, Role::Admin).await?;
        let removed = self.store.remove_invitation(workspace.id, &Email::parse(email)?).await?;
        if removed { Ok(()) } else { Err(Error::not_found("Invitation not found")) }
    }

    /// Returns the invitation of a link.
    ///
    /// # Errors
    /// `NotFound` when it was used, revoked or replaced, or has expired.
    pub async fn find(&self, token: &str) -> Result<Invitation> {
        self.store.invitation(&keys::digest(token)).await?.ok_or_else(invalid_invitation)
    }

    /// Accepts the invitation of a link for a signed-in account. Returns the workspace.
    ///
    /// # Errors
    /// `NotFound` as of [`Invitations::find`]; `Forbidden` when it is for another address, or the account's address
    /// is not verified although the service sends mail.
    pub async fn accept(&self, token: &str, account: AccountId) -> Result<WorkspaceId> {
        let invitation = self.find(token).await?;
        let known = self.store.account(account).await?.filter(|account| account.email == invitation.email);
        let invited = known.ok_or_else(|| {
            Error::forbidden("This invitation is for another e-mail address than the one signed in")
        })?;
        self.addresses.check(&invited)?;
        self.store.accept_invitation(&keys::digest(token), account).await?.ok_or_else(invalid_invitation)
    }

    /// Creates an account for the address of an invitation and accepts it. Returns the account and the
    /// workspace.
    ///
    /// # Errors
    /// The errors of [`Invitations::find`] and [`Store::accept_invitation_with_new_account`];
    /// `Invalid` for an invalid password.
    pub async fn accept_with_new_account(
        &self,
        token: &str,
        full_name: &str,
        password: Secret,
    ) -> Result<(AccountId, WorkspaceId)> {
        let email = Email::parse(&self.find(token).await?.email)?;
        let (full_name, hash) = (person_name(full_name)?, session::hash_password(password).await?);
        let account = Account::person(&email, &full_name, Some(hash));
        let workspace = self
            .store
            .accept_invitation_with_new_account(&keys::digest(token), &account, &self.plans)
            .await?
            .ok_or_else(invalid_invitation)?;
        Ok((account.id, workspace))
    }
}

fn invalid_invitation() -> Error {
    Error::not_found("This invitation was used or revoked, or has expired. Ask for a new one.")
}

/// Validates a person's name, which may be empty.
///
/// # Errors
/// `Invalid` for a name that is too long or has control characters.
pub fn person_name(text: &str) -> Result<String> {
    if text.trim().is_empty() {
        return Ok(String::new());
    }
    hotdesk_domain::name::Name::parse(text).map(|name| name.as_str().to_owned())
}
