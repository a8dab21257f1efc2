//! First-visit page: the operator sets a password, with the key that the first start printed or with a sign-in
//! by a link.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::console;
use super::form::{csrf, field, new_password};
use crate::identity::auth::browser::BrowserDescription;
use crate::identity::auth::session::{PublicForm, SignedIn, SignedInForm};
use crate::identity::people::operator::already_set_up;
use crate::web::page::{Failure, page, sentence};
use crate::{App, AppState};
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_http::error_response;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/set-up", get(show).post(set_up_by_key)).route("/set-up/account", post(set_up))
}

#[derive(Debug, Deserialize)]
struct Person {
    email: String,
    #[serde(default)]
    full_name: String,
    password: Secret,
}

#[derive(Debug, Deserialize)]
struct KeyForm {
    key: Secret,
    #[serde(flatten)]
    person: Person,
}

/// `GET /set-up`.
async fn show(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, Failure> {
    check_new(&app).await?;
    let operator = app.store.operator_account().await?;
    let who = app.sessions.signed_in(&headers).await?.filter(|who| who.account == operator);
    Ok(page("Set up hotdesk", &fields(who.as_ref(), "", "", None)))
}

/// `POST /set-up`: the key proves who asks.
async fn set_up_by_key(
    State(app): State<AppState>,
    browser: BrowserDescription,
    PublicForm(KeyForm { key, person }): PublicForm<KeyForm>,
) -> Result<Response, Failure> {
    check_new(&app).await?;
    let (email, full_name) = (person.email.clone(), person.full_name.clone());
    let set_up = async {
        let operator = app.operator.of_key(&key).await?;
        store(&app, operator, person).await?;
        Ok(operator)
    };
    match set_up.await {
        Ok(operator) => {
            let cookie = app.sessions.sign_in(operator, &browser).await?;
            Ok(([(header::SET_COOKIE, cookie)], Redirect::to(console::HOME)).into_response())
        }
        Err(error) => again(None, &email, &full_name, error),
    }
}

/// `POST /set-up/account`: the operator is signed in by a link.
async fn set_up(
    State(app): State<AppState>,
    SignedInForm { who, form }: SignedInForm<Person>,
) -> Result<Response, Failure> {
    let (email, full_name) = (form.email.clone(), form.full_name.clone());
    match store(&app, who.account, form).await {
        Ok(()) => Ok(Redirect::to(console::HOME).into_response()),
        Err(error) => again(Some(&who), &email, &full_name, error),
    }
}

async fn check_new(app: &App) -> Result<()> {
    if app.operator.is_new().await? { Ok(()) } else { Err(already_set_up()) }
}

async fn store(app: &App, account: AccountId, person: Person) -> Result<()> {
    app.operator.set_up(account, &person.email, &person.full_name, person.password).await?;
    app.addresses.welcome(account).await;
    Ok(())
}

/// Renders the form again with what was wrong, unless the person cannot mend it.
fn again(who: Option<&SignedIn>, email: &str, full_name: &str, error: Error) -> Result<Response, Failure> {
    if !matches!(error.kind, Kind::Invalid | Kind::Unauthenticated | Kind::Conflict) {
        return Err(error.into());
    }
    let mut again = page("Set up hotdesk", &fields(who, email, full_name, Some(&error.message)));
    *again.status_mut() = error_response::status(error.kind);
    Ok(again)
}

fn fields(who: Option<&SignedIn>, email: &str, full_name: &str, wrong: Option<&str>) -> Markup {
    let action = if who.is_some() { "/set-up/account" } else { "/set-up" };
    html! {
        form.card method="post" action=(action) {
            @if let Some(wrong) = wrong { p.bad role="alert" { (sentence(wrong)) } }
            @if let Some(who) = who {
                p { "Choose how the operator signs in." }
                (csrf(who))
            } @else {
                p { "The first start of hotdesk printed an API key. Enter it, and choose how the operator signs in." }
                (field("API key", "key", "password", "", "off"))
            }
            (field("E-mail", "email", "email", email, "username"))
            label.field {
                span { "Name" }
                input type="text" name="full_name" value=(full_name) autocomplete="name";
            }
            (new_password())
            button.button.primary { "Set up" }
        }
    }
}
