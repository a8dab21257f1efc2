//! Who belongs to my workspaces? A list of them, where one more is made, and for each its members and invitations.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::page::{Failure, csrf, field, page};
use super::settings::navigation;
use crate::Shared;
use crate::auth::session::{Posted, SignedIn};
use crate::origin::Origin;
use crate::people::members::People;
use hotdesk_base::clock::iso8601;
use hotdesk_domain::access::{Intent, Role};
use hotdesk_domain::name;
use hotdesk_http::extract::Path;
use hotdesk_store::members::Member;
use hotdesk_wire::member::GivenRole;

/// What may be given, with what it means.
const GIVEN: [(&str, &str); 3] =
    [("viewer", "viewer: looks"), ("member", "member: works"), ("admin", "admin: manages people too")];

/// The status of a new workspace, as where the API is told none.
const ACTIVE: &str = "active";

/// The pages of workspaces.
pub fn router() -> Router<Shared> {
    Router::new()
        .route("/settings/workspaces", get(list).post(make))
        .route("/settings/workspaces/{id}", get(one))
        .route("/settings/workspaces/{id}/role", post(role))
        .route("/settings/workspaces/{id}/remove", post(remove))
        .route("/settings/workspaces/{id}/invite", post(invite))
        .route("/settings/workspaces/{id}/uninvite", post(uninvite))
}

#[derive(Debug, Deserialize)]
struct NewWorkspace {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Given {
    member: String,
    role: GivenRole,
}

#[derive(Debug, Deserialize)]
struct Whom {
    member: String,
}

#[derive(Debug, Deserialize)]
struct Asked {
    email: String,
    role: GivenRole,
}

#[derive(Debug, Deserialize)]
struct Address {
    email: String,
}

fn address(workspace: &str) -> String {
    format!("/settings/workspaces/{workspace}")
}

/// `GET /settings/workspaces`.
async fn list(State(app): State<Shared>, who: SignedIn) -> Result<Response, Failure> {
    let workspaces = app.store.workspaces(who.account).await?;
    let body = html! {
        (navigation("/settings/workspaces"))
        @if workspaces.is_empty() { p { "There are none yet." } }
        ul {
            @for it in &workspaces {
                li {
                    a href=(address(&it.id.to_string())) { (it.name) }
                    @if it.account != who.account { span.dim { " (another's)" } }
                }
            }
        }
        h2 { "Make a workspace" }
        form.card method="post" action="/settings/workspaces" {
            (csrf(&who))
            label {
                span { "Name" }
                input type="text" name="name" maxlength=(name::MAX_CHARACTERS) autocomplete="off" required;
            }
            button { "Make it" }
        }
    };
    Ok(page("Workspaces", &body))
}

/// `POST /settings/workspaces`: what `POST /workspaces` does with a name alone.
async fn make(
    State(app): State<Shared>,
    Posted { who, form }: Posted<NewWorkspace>,
) -> Result<Response, Failure> {
    let made = app.make_workspace(&who.caller(Intent::Change), &form.name, None, ACTIVE).await?;
    Ok(Redirect::to(&address(&made.id.to_string())).into_response())
}

/// `GET /settings/workspaces/{id}`.
async fn one(State(app): State<Shared>, who: SignedIn, Path(id): Path<String>) -> Result<Response, Failure> {
    let people = app.people(&who.caller(Intent::Read), &id).await?;
    Ok(show(&who, &people, &html! {}))
}

/// `POST /settings/workspaces/{id}/role`.
async fn role(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Posted { who, form }: Posted<Given>,
) -> Result<Response, Failure> {
    app.change_member(&who.caller(Intent::Change), &id, &form.member, form.role.into()).await?;
    Ok(Redirect::to(&address(&id)).into_response())
}

/// `POST /settings/workspaces/{id}/remove`.
async fn remove(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Posted { who, form }: Posted<Whom>,
) -> Result<Response, Failure> {
    app.remove_member(&who.caller(Intent::Change), &id, &form.member).await?;
    let left = form.member == who.account.to_string();
    let next = if left { "/settings/workspaces".to_owned() } else { address(&id) };
    Ok(Redirect::to(&next).into_response())
}

/// `POST /settings/workspaces/{id}/invite`. Not a redirect: the link is shown now or never.
async fn invite(
    State(app): State<Shared>,
    origin: Origin,
    Path(id): Path<String>,
    Posted { who, form }: Posted<Asked>,
) -> Result<Response, Failure> {
    let invited = app.invite(&who.caller(Intent::Change), &id, &form.email, form.role.into()).await?;
    let people = app.people(&who.caller(Intent::Read), &id).await?;
    let told = html! {
        div.card role="status" {
            p { "Hand this link to " strong { (invited.email) } ". It is shown this once, holds for seven days, and no mail is sent." }
            p.code { (invited.url(&origin)) }
        }
    };
    Ok(show(&who, &people, &told))
}

/// `POST /settings/workspaces/{id}/uninvite`.
async fn uninvite(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Posted { who, form }: Posted<Address>,
) -> Result<Response, Failure> {
    app.uninvite(&who.caller(Intent::Change), &id, &form.email).await?;
    Ok(Redirect::to(&address(&id)).into_response())
}

fn show(who: &SignedIn, people: &People, told: &Markup) -> Response {
    let (at, manages) = (address(&people.workspace.id.to_string()), people.role >= Role::Admin);
    let body = html! {
        (navigation("/settings/workspaces"))
        (told)
        h2 { "Members" }
        table {
            thead { tr { th scope="col" { "Who" } th scope="col" { "Role" } th scope="col" { "" } } }
            tbody { @for member in &people.members { (row(who, member, &at, manages)) } }
        }
        @if manages {
            h2 { "Invitations" }
            @if !people.invitations.is_empty() {
                table {
                    thead { tr { th scope="col" { "Who" } th scope="col" { "Role" } th scope="col" { "Until" } th scope="col" { "" } } }
                    tbody {
                        @for it in &people.invitations {
                            tr {
                                td { (it.email) }
                                td { (it.role.name()) }
                                td { time datetime=(iso8601(it.expires_at)) { (iso8601(it.expires_at)[..10]) } }
                                td {
                                    form method="post" action={ (at) "/uninvite" } {
                                        (csrf(who))
                                        input type="hidden" name="email" value=(it.email);
                                        button.danger aria-label={ "Take back the invitation of " (it.email) } { "Take back" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            form.card method="post" action={ (at) "/invite" } {
                (csrf(who))
                (field("E-mail of whom to invite", "email", "email", "", "off"))
                label { span { "As" } (roles("viewer")) }
                button { "Invite" }
            }
        }
    };
    page(&people.workspace.name, &body)
}

fn row(who: &SignedIn, member: &Member, at: &str, manages: bool) -> Markup {
    let (id, own) = (member.account.to_string(), member.account == who.account);
    let fixed = member.role == Role::Owner;
    html! {
        tr {
            td { (member.email) @if !member.full_name.is_empty() { span.dim { " " (member.full_name) } } }
            td {
                @if manages && !fixed {
                    form method="post" action={ (at) "/role" } {
                        (csrf(who))
                        input type="hidden" name="member" value=(id);
                        label { span { "Role of " (member.email) } (roles(member.role.name())) }
                        button.quiet { "Change" }
                    }
                } @else { (member.role.name()) }
            }
            td {
                @if !fixed && (manages || own) {
                    form method="post" action={ (at) "/remove" } {
                        (csrf(who))
                        input type="hidden" name="member" value=(id);
                        button.danger aria-label=[(!own).then(|| format!("Remove {}", member.email))] {
                            @if own { "Leave" } @else { "Remove" }
                        }
                    }
                }
            }
        }
    }
}

fn roles(chosen: &str) -> Markup {
    html! {
        select name="role" {
            @for (role, meaning) in GIVEN { option value=(role) selected[role == chosen] { (meaning) } }
        }
    }
}
