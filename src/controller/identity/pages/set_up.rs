//! First-visit page: the operator sets a password with the key that the first start printed.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use serde::Deserialize;

use super::form::{field, new_password};
use crate::AppState;
use crate::identity::auth::session::PublicForm;
use crate::identity::people::operator::already_set_up;
use crate::web::page::{Failure, page};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Kind;
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

/// `GET /set-up`.
async fn form(State(app): State<AppState>) -> Result<Response, Failure> {
    if !app.operator.is_new().await? {
        return Err(already_set_up().into());
    }
    Ok(page("Set up hotdesk", &fields("", "", None)))
}

/// `POST /set-up`.
async fn set_up(
    State(app): State<AppState>,
    PublicForm(form): PublicForm<SetUp>,
) -> Result<Response, Failure> {
    if !app.operator.is_new().await? {
        return Err(already_set_up().into());
    }
    let SetUp { key, email, full_name, password } = form;
    let set_up = app.operator.set_up(&key, &email, &full_name, password);
    match set_up.await {
        Ok(operator) => {
            let cookie = app.sessions.sign_in(operator).await?;
            Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/settings")).into_response())
        }
        Err(error) if matches!(error.kind, Kind::Invalid | Kind::Unauthenticated | Kind::Conflict) => {
            let mut again = page("Set up hotdesk", &fields(&email, &full_name, Some(&error.message)));
            *again.status_mut() = error_response::status(error.kind);
            Ok(again)
        }
        Err(error) => Err(error.into()),
    }
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
