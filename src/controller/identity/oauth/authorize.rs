//! Authorization endpoint: checks the request, asks the person, and redirects with a code (RFC 6749 section
//! 4.1, RFC 9700, RFC 9207).
//!
//! Nothing is stored between the consent page and its form: the form is sent to the page's own address, which
//! is checked again. A person signs in first, so that strangers cannot make the service fetch documents or
//! redirect.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::authorization_request::{AuthorizationFailure, redirect_back, refused};
use super::{AuthorizationServer, consent, resource, tokens};
use crate::identity::auth::keys::digest;
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::web::origin::Origin;
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Role;
use hotdesk_domain::identity::oauth::refusal::Code;
use hotdesk_store::identity::oauth::grants::{GrantableWorkspace, NewGrant, workspace_not_grantable};

/// Lifetime of a code: a redirect and a request, A51 (docs/authentication-rules.md).
const CODE_LIFE: Duration = Duration::from_secs(60);
/// Lifetime of a connection, however often its tokens are refreshed (docs/api/limits.md).
const CONNECTION_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Form of the consent page: `deny`, or a workspace.
#[derive(Debug, Deserialize)]
pub(super) struct ConsentForm {
    #[serde(default)]
    decision: String,
    #[serde(default)]
    workspace: String,
}

/// `GET /oauth/authorize`.
pub(super) async fn show(
    State(app): State<AppState>,
    who: SignedIn,
    site: Origin,
    source: Source,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    app.oauth.show_consent(&who, &site, source, &query).await.unwrap_or_else(IntoResponse::into_response)
}

/// `POST /oauth/authorize`, from the consent page.
pub(super) async fn decide(
    State(app): State<AppState>,
    site: Origin,
    source: Source,
    RawQuery(query): RawQuery,
    form: SignedInForm<ConsentForm>,
) -> Response {
    let query = query.unwrap_or_default();
    app.oauth.store_decision(&form, &site, source, &query).await.unwrap_or_else(IntoResponse::into_response)
}

impl AuthorizationServer {
    async fn show_consent(
        &self,
        who: &SignedIn,
        site: &Origin,
        source: Source,
        query: &str,
    ) -> Result<Response, AuthorizationFailure> {
        let request = self.checked_request(who.account, site, source, query).await?;
        let choices = self.store.grantable_workspaces(who.account).await?;
        let viewed = self.store.view_only_workspaces(who.account).await?;
        let account = self.store.account(who.account).await?;
        let email = account.map(|account| account.email).unwrap_or_default();
        Ok(consent::page(
            &request,
            &consent::Person { email: &email, csrf: &who.csrf, choices: &choices, viewed: &viewed },
            query,
        ))
    }

    async fn store_decision(
        &self,
        form: &SignedInForm<ConsentForm>,
        site: &Origin,
        source: Source,
        query: &str,
    ) -> Result<Response, AuthorizationFailure> {
        let request = self.checked_request(form.who.account, site, source, query).await?;
        audit::set_client(request.client.name.as_deref().unwrap_or(&request.client.id));
        if form.form.decision != "allow" {
            audit::set_action(AuditAction::ConsentRefused);
            let refusal = Code::AccessDenied.because("the person denied access");
            return Ok(redirect_back(
                &request.redirect_uri,
                request.state.as_deref(),
                site,
                &refused(&refusal),
            ));
        }
        let chosen = self.chosen(form.who.account, &form.form.workspace).await?;
        let code = Secret::random(tokens::CHARACTERS);
        let now = clock::now();
        let grant = NewGrant {
            account: form.who.account,
            workspace: chosen.id,
            client_id: &request.client.id,
            client_name: request.client.name.as_deref(),
            redirect_uri: &request.redirect_uri,
            resource: &resource(site),
            challenge: &request.challenge,
            code: &digest(code.reveal()),
            code_expires_at: now.plus(CODE_LIFE),
            expires_at: now.plus(CONNECTION_LIFE),
        };
        let connection = self.store.add_grant(&grant).await?;
        audit::set_workspace(chosen.id, chosen.account, Some(Role::Member));
        audit::set_target(connection);
        audit::set_action(AuditAction::ConsentGiven);
        Ok(redirect_back(&request.redirect_uri, request.state.as_deref(), site, &[("code", code.reveal())]))
    }

    /// Returns the chosen workspace if the person may grant access to it.
    async fn chosen(&self, account: AccountId, chosen: &str) -> Result<GrantableWorkspace> {
        let choices = self.store.grantable_workspaces(account).await?;
        let found = choices.into_iter().find(|choice| choice.id.to_string() == chosen);
        found.ok_or_else(workspace_not_grantable)
    }
}
