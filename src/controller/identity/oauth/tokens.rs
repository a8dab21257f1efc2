//! Access and refresh tokens: opaque, random, and stored as SHA-256 only, A51 and A56
//! (docs/authentication-rules.md).

use std::time::Duration;

use crate::audit;
use crate::identity::auth::keys::{digest, unavailable_store};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, GrantId};
use hotdesk_base::revocation_registry::Lease;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Caller, Credential, Intent, Role};
use hotdesk_domain::identity::oauth::SCOPE;
use hotdesk_store::Store;
use hotdesk_store::identity::oauth::grants::{Grant, TokenDigests};
use hotdesk_wire::identity::oauth::Tokens;

/// Characters of codes and access tokens: 43 of base62 are 256 random bits.
pub(super) const CHARACTERS: usize = 43;
/// Characters that all refresh tokens of a connection begin with: 22 of base62 are 130 random bits.
const FAMILY_CHARACTERS: usize = 22;
/// Further characters of each refresh token: 190 random bits.
const OWN_CHARACTERS: usize = 32;
/// Lifetime of an access token (docs/api/limits.md).
const ACCESS_LIFE: Duration = Duration::from_secs(3600);
/// Time between two stored uses of a connection, so that requests do not each write.
const USE_INTERVAL: Duration = Duration::from_secs(60);

/// Connections of MCP clients.
pub struct Grants {
    store: Store,
}

impl Grants {
    /// Creates the service of the stored connections.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Returns the caller of an access token and its client's name; `None` for an invalid token.
    ///
    /// The person's role in the workspace is checked at each call, as for all callers
    /// ([`hotdesk_domain::identity::access::check`]). The intent is [`Intent::Change`]. Tools that only read
    /// override it, so that a tool that forgets to is refused to viewers.
    ///
    /// # Errors
    /// `Unavailable` when the token cannot be checked now.
    pub async fn find(&self, token: &str) -> Result<Option<(Caller, String)>> {
        let Some(bearer) = self.store.token_owner(&digest(token)).await.map_err(unavailable_store)? else {
            return Ok(None);
        };
        if bearer.used_at.is_none_or(|at| at < clock::now().minus(USE_INTERVAL))
            && let Err(error) = self.store.note_use(bearer.grant).await
        {
            tracing::warn!(error = format_args!("{error:#}"), "could not store the last use of a connection");
        }
        let caller = Caller {
            credential: Credential::Grant(bearer.grant),
            account: bearer.account,
            scope: Some(bearer.workspace),
            intent: Intent::Change,
        };
        Ok(Some((caller, bearer.client)))
    }

    /// Does the same as [`Grants::find`], with a lease on the connection. If a credential ended between the
    /// look-up and the lease, the look-up is repeated.
    ///
    /// # Errors
    /// The errors of [`Grants::find`].
    pub async fn hold(&self, token: &str) -> Result<Option<(Caller, String, Lease<Credential>)>> {
        loop {
            let ends = self.store.credentials.revocations();
            let Some((caller, client)) = self.find(token).await? else { return Ok(None) };
            let hold = self.store.credentials.lease(caller.credential);
            if self.store.credentials.revocations() == ends {
                return Ok(Some((caller, client, hold)));
            }
        }
    }

    /// Ends a connection at the request of its person.
    ///
    /// # Errors
    /// `NotFound` when the account has no such connection; `Internal` when the database fails.
    pub async fn revoke(&self, account: AccountId, id: &str) -> Result<()> {
        let unknown = || Error::not_found("This connection does not exist, or has ended");
        let id: GrantId = id.parse().map_err(|_| unknown())?;
        let grant = self.store.grant(id).await?.filter(|grant| grant.account == account);
        let grant = grant.ok_or_else(unknown)?;
        if !self.store.remove_grant(id, Some(account)).await? {
            return Err(unknown());
        }
        about(&grant, AuditAction::ConnectionRevoked);
        Ok(())
    }

    /// Ends a connection because of what its client sent. Returns whether it existed.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub(super) async fn end(&self, grant: GrantId, why: &'static str) -> Result<bool> {
        let ended = self.store.remove_grant(grant, None).await?;
        if ended {
            tracing::warn!(%grant, why, "ended an MCP client's connection");
        }
        Ok(ended)
    }
}

/// Records in the audit log what a client does with its connection, and that the client is the actor.
pub(super) fn audit_client(grant: &Grant, action: AuditAction) {
    audit::set_actor(Credential::Grant(grant.id), grant.account);
    about(grant, action);
}

/// Records in the audit log which connection a request concerns.
fn about(grant: &Grant, action: AuditAction) {
    let (workspace, owner) = grant.workspace;
    audit::set_workspace(workspace, owner, Some(Role::Member));
    audit::set_client(grant.client_name.as_deref().unwrap_or(&grant.client_id));
    audit::set_target(grant.id);
    audit::set_action(action);
}

/// Generates the next tokens of a connection that ends at `expires_at`, and their digests.
/// Without `family` a new family begins.
pub(super) fn generate(family: Option<&str>, expires_at: UnixMillis) -> (Tokens, TokenDigests) {
    let now = clock::now();
    let access_expires_at = expires_at.min(now.plus(ACCESS_LIFE));
    let family = family.map_or_else(|| Secret::random(FAMILY_CHARACTERS), Secret::new);
    let (access, own) = (Secret::random(CHARACTERS), Secret::random(OWN_CHARACTERS));
    let refresh = format!("{}{}", family.reveal(), own.reveal());
    let digests = TokenDigests {
        family: digest(family.reveal()),
        refresh: digest(&refresh),
        access: digest(access.reveal()),
        access_expires_at,
    };
    let tokens = Tokens {
        access_token: access.reveal().to_owned(),
        token_type: "Bearer".to_owned(),
        expires_in: (access_expires_at.as_i64() - now.as_i64()) / 1000,
        refresh_token: refresh,
        scope: SCOPE.to_owned(),
    };
    (tokens, digests)
}

/// Returns the family of a refresh token; `None` for a text of another length.
pub(super) fn family_of(refresh: &str) -> Option<&str> {
    let whole = refresh.len() == FAMILY_CHARACTERS + OWN_CHARACTERS;
    refresh.get(..FAMILY_CHARACTERS).filter(|_| whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a56_tokens_are_random_and_of_a_refresh_token_the_family_stays() {
        let (first, kept) = generate(None, clock::now().plus(10 * ACCESS_LIFE));
        assert_eq!((first.access_token.len(), first.expires_in), (43, 3600));
        let family = family_of(&first.refresh_token).unwrap();
        assert_eq!(digest(family), kept.family);
        let (second, next) = generate(Some(family), clock::now().plus(Duration::from_secs(60)));
        assert_eq!((family_of(&second.refresh_token), next.family), (Some(family), kept.family));
        assert!(second.refresh_token != first.refresh_token && second.access_token != first.access_token);
        assert!((59..=60).contains(&second.expires_in), "no token outlives its connection");
        for none in ["", "x", "é", &"x".repeat(53), &"x".repeat(55), &"é".repeat(27)] {
            assert!(family_of(none).is_none_or(|family| family.len() == FAMILY_CHARACTERS), "{none}");
        }
    }
}
