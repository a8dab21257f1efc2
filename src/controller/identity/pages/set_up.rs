//! First-visit page: the operator sets a password with the key that the first start printed.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use serde::Deserialize;

use super::form::{field, new_password};
use crate::identity::auth::keys;
use crate::identity::auth::session::{PublicForm, hash_password};
use crate::identity::people::invitations::person_name;
use crate::web::page::{Failure, page};
use crate::{App, AppState};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Result;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::identity::email::Email;
use hotdesk_http::error_response;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/set-up", get(form).post(set_up))
}

#[derive(Debug, Deserialize)]
struct SetUp {
    key: Secret,
    email: String,
    #[serde(default)]
    full_name: String,
    password: Secret,
}

impl App {
    /// Whether the operator's account has no password yet.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn is_new(&self) -> Result<bool> {
        let operator = self.store.account(self.store.operator_account().await?).await?;
        Ok(operator.is_some_and(|operator| operator.password_hash.is_none()))
    }
}

fn already_set_up() -> Error {
    Error::forbidden("This hotdesk is set up already: sign in. For a lost password use `hotdesk admin`.")
}

/// `GET /set-up`.
async fn form(State(app): State<AppState>) -> Result<Response, Failure> {
    if !app.is_new().await? {
        return Err(already_set_up().into());
    }
    Ok(page("Set up hotdesk", &fields("", "", None)))
}

/// `POST /set-up`.
async fn set_up(
    State(app): State<AppState>,
    PublicForm(form): PublicForm<SetUp>,
) -> Result<Response, Failure> {
    if !app.is_new().await? {
        return Err(already_set_up().into());
    }
    let (email, full_name) = (form.email.clone(), form.full_name.clone());
    match enter(&app, form).await {
        Ok(cookie) => Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/settings")).into_response()),
        Err(error) if matches!(error.kind, Kind::Invalid | Kind::Unauthenticated | Kind::Conflict) => {
            let mut again = page("Set up hotdesk", &fields(&email, &full_name, Some(&error.message)));
            *again.status_mut() = error_response::status(error.kind);
            Ok(again)
        }
        Err(error) => Err(error.into()),
    }
}

async fn enter(app: &App, form: SetUp) -> Result<axum::http::HeaderValue> {
    let operator = app.store.operator_account().await?;
    let holder = keys::holder(&app.store, form.key.reveal().trim()).await?;
    if holder.account != operator || holder.scope.is_some() {
        return Err(Error::unauthenticated(
            "Invalid API key: an account-wide key of the operator is required",
        ));
    }
    let (email, full_name) = (Email::parse(&form.email)?, person_name(&form.full_name)?);
    let hash = hash_password(form.password).await?;
    if !app.store.set_sign_in(operator, email.as_str(), &full_name, &hash).await? {
        return Err(already_set_up());
    }
    app.sign_in(operator).await
}

fn fields(email: &str, full_name: &str, wrong: Option<&str>) -> Markup {
    html! {
        form.card method="post" action="/set-up" {
            @if let Some(wrong) = wrong { p.bad role="alert" { (wrong) } }
            p { "The first start of hotdesk printed an API key. Enter it, and choose how the operator signs in." }
            (field("API key", "key", "password", "", "off"))
            (field("E-mail", "email", "email", email, "username"))
            label {
                span { "Name" }
                input type="text" name="full_name" value=(full_name) autocomplete="name";
            }
            (new_password())
            button { "Set up" }
        }
    }
}
