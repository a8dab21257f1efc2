//! Settings of the authenticator app: set-up with a QR code, recovery codes, removal.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use qrcode::{Color, EcLevel, QrCode};
use serde::Deserialize;

use super::{HERE, account_of, check_password};
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::identity::pages::form::{csrf, field, moment};
use crate::identity::pages::settings::navigation;
use crate::web::origin::Origin;
use crate::web::page::{Failure, page, sentence};
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_http::encode::percent_encode;
use hotdesk_http::error_response;
use hotdesk_store::identity::people::Account;

/// Light modules around a QR code (ISO/IEC 18004 asks for four).
const QUIET_ZONE: usize = 4;

/// Returns the pages' routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/settings/sign-in/authenticator", get(begin).post(turn_on))
        .route("/settings/sign-in/authenticator/codes", post(replace_codes))
        .route("/settings/sign-in/authenticator/remove", post(turn_off))
}

#[derive(Debug, Deserialize)]
struct SetUp {
    secret: Secret,
    code: Secret,
    password: Secret,
}

#[derive(Debug, Deserialize)]
struct PasswordForm {
    password: Secret,
}

/// Renders the section of the settings page.
pub async fn section(app: &AppState, who: &SignedIn) -> Result<Markup> {
    let account = account_of(app, who).await?;
    let factor = app.second_factors.of(account.id).await?;
    Ok(html! {
        h2 { "Authenticator app" }
        @if let Some(factor) = factor {
            p {
                "A sign-in with the password also needs a code of your app, since " (moment(factor.created_at)) ". "
                "Recovery codes that are left: " strong { (factor.recovery_codes) } "."
            }
            (password_form(who, "/settings/sign-in/authenticator/codes", html! { button.button.primary { "Make new recovery codes" } }))
            (password_form(who, "/settings/sign-in/authenticator/remove", html! { button.button.danger { "Remove the app" } }))
        } @else if account.password_hash.is_some() {
            p { "A sign-in needs the password alone. With an app on your phone it also needs a code that changes every 30 seconds." }
            p { a href="/settings/sign-in/authenticator" { "Set up an authenticator app" } }
        } @else {
            p { "This account has no password, so no second step guards it." }
        }
    })
}

/// `GET /settings/sign-in/authenticator`.
async fn begin(State(app): State<AppState>, origin: Origin, who: SignedIn) -> Result<Response, Failure> {
    let account = account_of(&app, &who).await?;
    check_has_password(&account)?;
    if app.second_factors.of(account.id).await?.is_some() {
        return Ok(Redirect::to(HERE).into_response());
    }
    let secret = app.second_factors.new_secret();
    Ok(page("Authenticator app", &set_up_form(&who, &account, &origin, &secret, None)?))
}

/// `POST /settings/sign-in/authenticator`. Its response is the only page that shows the recovery codes.
async fn turn_on(
    State(app): State<AppState>,
    source: Source,
    origin: Origin,
    SignedInForm { who, form }: SignedInForm<SetUp>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SecondFactorAdded);
    let account = account_of(&app, &who).await?;
    let turned_on = async {
        check_has_password(&account)?;
        check_password(&app, source, &account, Some(form.password)).await?;
        app.second_factors.turn_on(account.id, who.session, &form.secret, form.code.reveal()).await
    };
    match turned_on.await {
        Ok(codes) => Ok((StatusCode::CREATED, codes_page(&codes)).into_response()),
        // The person mends it with the same secret, which the app has already.
        Err(error) if matches!(error.kind, Kind::Invalid | Kind::Forbidden) => {
            let body = set_up_form(&who, &account, &origin, &form.secret, Some(&error.message))?;
            let mut again = page("Authenticator app", &body);
            *again.status_mut() = error_response::status(error.kind);
            Ok(again)
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST /settings/sign-in/authenticator/codes`. Its response is the only page that shows the new codes.
async fn replace_codes(
    State(app): State<AppState>,
    source: Source,
    SignedInForm { who, form }: SignedInForm<PasswordForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::RecoveryCodesMade);
    let account = account_of(&app, &who).await?;
    check_password(&app, source, &account, Some(form.password)).await?;
    let codes = app.second_factors.new_recovery_codes(account.id).await?;
    Ok((StatusCode::CREATED, codes_page(&codes)).into_response())
}

/// `POST /settings/sign-in/authenticator/remove`.
async fn turn_off(
    State(app): State<AppState>,
    source: Source,
    SignedInForm { who, form }: SignedInForm<PasswordForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SecondFactorRemoved);
    let account = account_of(&app, &who).await?;
    check_password(&app, source, &account, Some(form.password)).await?;
    app.second_factors.turn_off(account.id).await?;
    Ok(Redirect::to(HERE).into_response())
}

fn check_has_password(account: &Account) -> Result<()> {
    if account.password_hash.is_some() {
        return Ok(());
    }
    Err(Error::forbidden("Only an account with a password has a second step."))
}

fn password_form(who: &SignedIn, action: &str, button: Markup) -> Markup {
    html! {
        form.card method="post" action=(action) {
            (csrf(who))
            (field("Current password", "password", "password", "", "current-password"))
            (button)
        }
    }
}

fn set_up_form(
    who: &SignedIn,
    account: &Account,
    origin: &Origin,
    secret: &Secret,
    wrong: Option<&str>,
) -> Result<Markup> {
    let picture = qr_code(&uri(account, origin, secret))?;
    Ok(html! {
        (navigation(HERE))
        form.card method="post" action="/settings/sign-in/authenticator" {
            @if let Some(wrong) = wrong { p.bad role="alert" { (sentence(wrong)) } }
            (csrf(who))
            p { "Scan this picture with an authenticator app, for example Aegis, Google Authenticator or a password manager." }
            (picture)
            p { "Or enter this key in the app: " span.code { (secret.reveal()) } }
            input type="hidden" name="secret" value=(secret.reveal());
            (field("Code that the app shows", "code", "text", "", "one-time-code"))
            (field("Current password", "password", "password", "", "current-password"))
            p.dim { "Other browsers that are signed in to this account will be signed out. API keys stay valid." }
            button.button.primary { "Turn on" }
        }
    })
}

fn codes_page(codes: &[Secret]) -> Response {
    let body = html! {
        (navigation(HERE))
        section.card role="status" {
            p { "The authenticator app is set up. These are your recovery codes. Each one replaces the app once, for example when the phone is lost." }
            p { strong { "Print or store them now: they are not shown again." } " Earlier ones do not work any more." }
            ul.codes { @for code in codes { li.code { (code.reveal()) } } }
        }
        p { a href=(HERE) { "Continue" } }
    };
    page("Recovery codes", &body)
}

/// Returns the address by which apps read a secret (the format of Google Authenticator's key URI). SHA-1, six digits
/// and 30 seconds are its defaults.
fn uri(account: &Account, origin: &Origin, secret: &Secret) -> String {
    let issuer = percent_encode(&format!("hotdesk {}", origin.host().replace(':', " ")));
    let name = percent_encode(&account.email);
    format!("otpauth://totp/{issuer}:{name}?secret={}&issuer={issuer}", secret.reveal())
}

/// Draws a QR code, dark on light whatever the colors of the page are, because scanners expect that.
fn qr_code(text: &str) -> Result<Markup> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).map_err(Error::internal)?;
    let width = code.width();
    let modules = code.to_colors().into_iter().enumerate();
    let dark = modules
        .filter(|(_, color)| *color == Color::Dark)
        .map(|(place, _)| format!("M{} {}h1v1h-1z", place % width + QUIET_ZONE, place / width + QUIET_ZONE));
    let (path, whole) = (dark.collect::<String>(), width + 2 * QUIET_ZONE);
    Ok(html! {
        svg.qr viewBox={ "0 0 " (whole) " " (whole) } role="img" aria-label="QR code of the key" shape-rendering="crispEdges" {
            rect width=(whole) height=(whole) fill="#fff" {}
            path d=(path) fill="#000" {}
        }
    })
}
