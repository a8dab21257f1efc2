//! Whose is an access token, and how are tokens made? Opaque, random, and kept as SHA-256 only (access.md A51, A56).

use crate::auth::keys::{away, digest};
use crate::{App, audit};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::GrantId;
use hotdesk_base::living::Hold;
use hotdesk_base::secret::Secret;
use hotdesk_domain::access::{Caller, Credential, Intent, Role};
use hotdesk_domain::audit::Action;
use hotdesk_domain::error::Result;
use hotdesk_domain::oauth::SCOPE;
use hotdesk_store::oauth_grants::{Digests, Grant};
use hotdesk_wire::oauth::Tokens;

/// Characters of codes and access tokens: 43 of base62 are 256 random bits.
pub(super) const CHARACTERS: usize = 43;
/// Characters that all refresh tokens of a connection begin with: 22 of base62 are 130 random bits.
const FAMILY: usize = 22;
/// Characters that each refresh token has of its own: 190 random bits.
const OWN: usize = 32;
/// How long an access token holds (interface.md "Limits").
const ACCESS_MS: i64 = 3_600_000;
/// How exactly it is known when a connection was last used: a write a minute and not one per request.
const USE_MS: i64 = 60_000;

impl App {
    /// Who shows an access token to the MCP endpoint, and what its client is called; `None` for a token that opens nothing (any
    /// more).
    ///
    /// What the person is in the workspace is asked at each call, as for everybody ([`hotdesk_domain::access::check`]). The
    /// intent is [`Intent::Change`]: a tool that only looks says so, so that one that forgets to refuses viewers.
    ///
    /// # Errors
    /// `Unavailable` when the token cannot be checked now.
    pub async fn grant_of(&self, token: &str) -> Result<Option<(Caller, String)>> {
        let Some(bearer) = self.store.bearer(&digest(token)).await.map_err(away)? else { return Ok(None) };
        if bearer.used_at.is_none_or(|at| at < now_ms() - USE_MS)
            && let Err(error) = self.store.note_use(bearer.grant).await
        {
            tracing::warn!(%error, "the use of a connection was not noted");
        }
        let caller = Caller {
            credential: Credential::Grant(bearer.grant),
            account: bearer.account,
            scope: Some(bearer.workspace),
            intent: Intent::Change,
        };
        Ok(Some((caller, bearer.client)))
    }

    /// As [`App::grant_of`], with the connection held for as long as a request goes on under it. One that ends after it was
    /// looked up and before it is held has ended unheard: then it is looked up again.
    ///
    /// # Errors
    /// As that.
    pub async fn hold_grant(&self, token: &str) -> Result<Option<(Caller, String, Hold<Credential>)>> {
        loop {
            let ends = self.store.live.ends();
            let Some((caller, client)) = self.grant_of(token).await? else { return Ok(None) };
            let hold = self.store.live.hold(caller.credential);
            if self.store.live.ends() == ends {
                return Ok(Some((caller, client, hold)));
            }
        }
    }

    /// Ends a connection because of what its client shows; false when it has ended already.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn end_grant(&self, grant: GrantId, why: &'static str) -> Result<bool> {
        let ended = self.store.remove_grant(grant, None).await?;
        if ended {
            tracing::warn!(%grant, why, "a connection was ended");
            self.mcp.end(grant).await;
        }
        Ok(ended)
    }
}

/// Says in the log what a client does with a connection of its own: the request shows a code or a token of it.
pub(super) fn told(grant: &Grant, action: Action) {
    audit::by(Credential::Grant(grant.id), grant.account);
    about(grant, action);
}

/// Says in the log which connection a request is about.
pub(crate) fn about(grant: &Grant, action: Action) {
    let (workspace, owner) = grant.workspace;
    audit::about(workspace, owner, Some(Role::Member));
    audit::named(grant.client_name.as_deref().unwrap_or(&grant.client_id));
    audit::target(grant.id);
    audit::did(action);
}

/// The next tokens of a connection that ends at `expires_at`, of a family or of a new one; with what is kept of them.
pub(super) fn fresh(family: Option<&str>, expires_at: i64) -> (Tokens, Digests) {
    let now = now_ms();
    let access_expires_at = expires_at.min(now + ACCESS_MS);
    let family = family.map_or_else(|| Secret::random(FAMILY), Secret::new);
    let (access, own) = (Secret::random(CHARACTERS), Secret::random(OWN));
    let refresh = format!("{}{}", family.reveal(), own.reveal());
    let digests = Digests {
        family: digest(family.reveal()),
        refresh: digest(&refresh),
        access: digest(access.reveal()),
        access_expires_at,
    };
    let tokens = Tokens {
        access_token: access.reveal().to_owned(),
        token_type: "Bearer".to_owned(),
        expires_in: (access_expires_at - now) / 1000,
        refresh_token: refresh,
        scope: SCOPE.to_owned(),
    };
    (tokens, digests)
}

/// The part of a refresh token that its whole family shares; `None` for a text that can be none.
pub(super) fn family_of(refresh: &str) -> Option<&str> {
    let whole = refresh.len() == FAMILY + OWN;
    refresh.get(..FAMILY).filter(|_| whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a56_tokens_are_random_and_of_a_refresh_token_the_family_stays() {
        let (first, kept) = fresh(None, now_ms() + 10 * ACCESS_MS);
        assert_eq!((first.access_token.len(), first.expires_in), (43, 3600));
        let family = family_of(&first.refresh_token).unwrap();
        assert_eq!(digest(family), kept.family);
        let (second, next) = fresh(Some(family), now_ms() + 60_000);
        assert_eq!((family_of(&second.refresh_token), next.family), (Some(family), kept.family));
        assert!(second.refresh_token != first.refresh_token && second.access_token != first.access_token);
        assert!((59..=60).contains(&second.expires_in), "no token outlives its connection");
        for none in ["", "x", "é", &"x".repeat(53), &"x".repeat(55), &"é".repeat(27)] {
            assert!(family_of(none).is_none_or(|family| family.len() == FAMILY), "{none}");
        }
    }
}
