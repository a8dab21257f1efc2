//! Settings of passkeys: list, add, remove.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use maud::{Markup, html};
use serde::Deserialize;

use super::{HERE, account_of, check_password, password_field};
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::identity::pages::form::{csrf, field, moment};
use crate::identity::pages::settings::navigation;
use crate::identity::passkeys::{NewCredential, rp_id, user_handle};
use crate::web::origin::Origin;
use crate::web::page::{Failure, page_with_script};
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::Result;
use hotdesk_domain::name::Name;
use hotdesk_store::identity::sign_in::passkeys::Passkey;

/// Returns the pages' routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/settings/sign-in/passkeys", post(begin))
        .route("/settings/sign-in/passkeys/add", post(add))
        .route("/settings/sign-in/passkeys/remove", post(remove))
}

#[derive(Debug, Deserialize)]
struct BeginForm {
    name: String,
    #[serde(default)]
    password: Option<Secret>,
}

#[derive(Debug, Deserialize)]
struct AddForm {
    token: Secret,
    name: String,
    #[serde(flatten)]
    credential: NewCredential,
}

#[derive(Debug, Deserialize)]
struct RemoveForm {
    id: String,
    #[serde(default)]
    password: Option<Secret>,
}

/// Renders the section of the settings page.
pub async fn section(app: &AppState, who: &SignedIn) -> Result<Markup> {
    let account = account_of(app, who).await?;
    let passkeys = app.passkeys.of(account.id).await?;
    Ok(html! {
        h2 { "Passkeys" }
        p { "A passkey signs you in without a password and without a code. It stays on your device, or in your password manager." }
        @for passkey in &passkeys {
            form.card method="post" action="/settings/sign-in/passkeys/remove" {
                (csrf(who))
                input type="hidden" name="id" value=(passkey.credential_id);
                p { strong { (passkey.name) } ", " (times(passkey)) }
                (password_field(&account))
                button.button.danger aria-label={ "Remove the passkey " (passkey.name) } { "Remove" }
            }
        }
        form.card method="post" action="/settings/sign-in/passkeys" {
            (csrf(who))
            (field("Name of the new passkey", "name", "text", "", "off"))
            (password_field(&account))
            button.button.primary { "Add a passkey" }
        }
    })
}

fn times(passkey: &Passkey) -> Markup {
    html! {
        "since " (moment(passkey.created_at)) ", last used "
        @match passkey.last_used_at { Some(at) => (moment(at)), None => "never" }
    }
}

/// `POST /settings/sign-in/passkeys`: shows the page whose script makes the passkey.
async fn begin(
    State(app): State<AppState>,
    source: Source,
    origin: Origin,
    SignedInForm { who, form }: SignedInForm<BeginForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::PasskeyAdded);
    let account = account_of(&app, &who).await?;
    check_password(&app, source, &account, form.password).await?;
    let name = Name::parse(&form.name)?;
    let known = app.passkeys.of(account.id).await?;
    let known: Vec<&str> = known.iter().map(|passkey| passkey.credential_id.as_str()).collect();
    let challenge = app.passkeys.registration(&who);
    let body = html! {
        (navigation(HERE))
        form.card id="passkey" method="post" action="/settings/sign-in/passkeys/add"
            data-challenge=(challenge.value.reveal()) data-rp=(rp_id(&origin)) data-user=(user_handle(account.id))
            data-account=(account.email) data-known=(known.join(" ")) {
            (csrf(&who))
            p { "Your device makes the passkey " strong { (name.as_str()) } " and asks for its PIN, your finger or your face." }
            p.bad id="state" role="alert" {}
            input type="hidden" name="token" value=(challenge.token.reveal());
            input type="hidden" name="name" value=(name.as_str());
            @for name in ["id", "client_data", "authenticator_data", "public_key"] {
                input type="hidden" name=(name) value="";
            }
            // The script enables it: without the browser's answer the form is of no use.
            button.button.primary autofocus disabled { "Make the passkey" }
        }
        noscript { p.bad { "This page needs JavaScript: only a script can make a passkey." } }
    };
    Ok(page_with_script("Add a passkey", &body, "passkey.js"))
}

/// `POST /settings/sign-in/passkeys/add`. The challenge proves that this session showed the password.
async fn add(
    State(app): State<AppState>,
    origin: Origin,
    SignedInForm { who, form }: SignedInForm<AddForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::PasskeyAdded);
    app.passkeys.register(&who, &origin, &form.name, &form.token, &form.credential).await?;
    Ok(Redirect::to(HERE).into_response())
}

/// `POST /settings/sign-in/passkeys/remove`.
async fn remove(
    State(app): State<AppState>,
    source: Source,
    SignedInForm { who, form }: SignedInForm<RemoveForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::PasskeyRemoved);
    let account = account_of(&app, &who).await?;
    check_password(&app, source, &account, form.password).await?;
    app.passkeys.remove(account.id, &form.id).await?;
    Ok(Redirect::to(HERE).into_response())
}
