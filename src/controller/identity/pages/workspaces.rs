//! Pages of workspaces: the list, and the members and invitations of each.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::{csrf, field};
use super::settings::navigation;
use crate::AppState;
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::identity::people::members::People;
use crate::web::origin::Origin;
use crate::web::page::{Failure, page};
use hotdesk_domain::identity::access::{Intent, Role};
use hotdesk_domain::name;
use hotdesk_http::extract::Path;
use hotdesk_store::identity::members::Member;
use hotdesk_wire::identity::member::AssignableRole;

/// Roles that can be assigned, with their meaning.
const ASSIGNABLE_ROLES: [(&str, &str); 3] = [
    ("viewer", "viewer: can only look"),
    ("member", "member: can use computers"),
    ("admin", "admin: can also manage people"),
];

/// Status of a new workspace, as the API's default.
const ACTIVE: &str = "active";

/// Returns the pages' routes.
pub fn router() -> Router<AppState> {
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
struct RoleForm {
    member: String,
    role: AssignableRole,
}

#[derive(Debug, Deserialize)]
struct MemberForm {
    member: String,
}

#[derive(Debug, Deserialize)]
struct InviteForm {
    email: String,
    role: AssignableRole,
}

#[derive(Debug, Deserialize)]
struct EmailForm {
    email: String,
}

fn address(workspace: &str) -> String {
    format!("/settings/workspaces/{workspace}")
}

/// `GET /settings/workspaces`.
async fn list(State(app): State<AppState>, who: SignedIn) -> Result<Response, Failure> {
    let workspaces = app.store.workspaces(who.account).await?;
    let body = html! {
        (navigation("/settings/workspaces"))
        @if workspaces.is_empty() { p { "There are none yet. A workspace contains computers and files: create one here." } }
        ul {
            @for it in &workspaces {
                li {
                    a href=(address(&it.id.to_string())) { (it.name) }
                    @if it.account != who.account { span.dim { " (of another account)" } }
                }
            }
        }
        h2 { "Create a workspace" }
        form.card method="post" action="/settings/workspaces" {
            (csrf(&who))
            label.field {
                span { "Name" }
                input type="text" name="name" maxlength=(name::MAX_CHARACTERS) autocomplete="off" required;
            }
            button.button.primary { "Create" }
        }
    };
    Ok(page("Workspaces", &body))
}

/// `POST /settings/workspaces`: does the same as `POST /workspaces` with a name.
async fn make(
    State(app): State<AppState>,
    SignedInForm { who, form }: SignedInForm<NewWorkspace>,
) -> Result<Response, Failure> {
    let made = app.workspaces.create(&who.caller(Intent::Change), &form.name, None, ACTIVE).await?;
    Ok(Redirect::to(&address(&made.id.to_string())).into_response())
}

/// `GET /settings/workspaces/{id}`.
async fn one(
    State(app): State<AppState>,
    who: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let people = app.members.list(&who.caller(Intent::Read), &id).await?;
    Ok(show(&who, &people, &html! {}))
}

/// `POST /settings/workspaces/{id}/role`.
async fn role(
    State(app): State<AppState>,
    Path(id): Path<String>,
    SignedInForm { who, form }: SignedInForm<RoleForm>,
) -> Result<Response, Failure> {
    app.members.change(&who.caller(Intent::Change), &id, &form.member, form.role.into()).await?;
    Ok(Redirect::to(&address(&id)).into_response())
}

/// `POST /settings/workspaces/{id}/remove`.
async fn remove(
    State(app): State<AppState>,
    Path(id): Path<String>,
    SignedInForm { who, form }: SignedInForm<MemberForm>,
) -> Result<Response, Failure> {
    app.members.remove(&who.caller(Intent::Change), &id, &form.member).await?;
    let left = form.member == who.account.to_string();
    let next = if left { "/settings/workspaces".to_owned() } else { address(&id) };
    Ok(Redirect::to(&next).into_response())
}

/// `POST /settings/workspaces/{id}/invite`. The response is a page and not a redirect, because the link is
/// shown only once.
async fn invite(
    State(app): State<AppState>,
    origin: Origin,
    Path(id): Path<String>,
    SignedInForm { who, form }: SignedInForm<InviteForm>,
) -> Result<Response, Failure> {
    let invited =
        app.invitations.create(&who.caller(Intent::Change), &id, &form.email, form.role.into()).await?;
    let people = app.members.list(&who.caller(Intent::Read), &id).await?;
    let notice = html! {
        div.card role="status" {
            p { "Send this link to " strong { (invited.email) } ". It is shown this once and is valid for seven days. It is not mailed." }
            p.code { (invited.url(&origin)) }
        }
    };
    Ok(show(&who, &people, &notice))
}

/// `POST /settings/workspaces/{id}/uninvite`.
async fn uninvite(
    State(app): State<AppState>,
    Path(id): Path<String>,
    SignedInForm { who, form }: SignedInForm<EmailForm>,
) -> Result<Response, Failure> {
    app.invitations.revoke(&who.caller(Intent::Change), &id, &form.email).await?;
    Ok(Redirect::to(&address(&id)).into_response())
}

fn show(who: &SignedIn, people: &People, notice: &Markup) -> Response {
    let (at, manages) = (address(&people.workspace.id.to_string()), people.role >= Role::Admin);
    let body = html! {
        (navigation("/settings/workspaces"))
        (notice)
        h2 { "Members" }
        div.scroll { table {
            thead { tr { th scope="col" { "Person" } th scope="col" { "Role" } th scope="col" { "Remove" } } }
            tbody { @for member in &people.members { (row(who, member, &at, manages)) } }
        } }
        @if manages {
            h2 { "Invitations" }
            @if !people.invitations.is_empty() {
                div.scroll { table {
                    thead { tr { th scope="col" { "E-mail" } th scope="col" { "Role" } th scope="col" { "Valid until" } th scope="col" { "Revoke" } } }
                    tbody {
                        @for it in &people.invitations {
                            tr {
                                td { (it.email) }
                                td { (it.role.name()) }
                                td { time datetime=(it.expires_at.iso8601()) { (it.expires_at.iso8601()[..10]) } }
                                td {
                                    form method="post" action={ (at) "/uninvite" } {
                                        (csrf(who))
                                        input type="hidden" name="email" value=(it.email);
                                        button.button.danger aria-label={ "Revoke the invitation of " (it.email) } { "Revoke" }
                                    }
                                }
                            }
                        }
                    }
                } }
            }
            form.card method="post" action={ (at) "/invite" } {
                (csrf(who))
                (field("E-mail address", "email", "email", "", "off"))
                label.field { span { "Role" } (roles("viewer")) }
                button.button.primary { "Invite" }
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
            td {
                (member.email)
                @if !member.full_name.is_empty() { span.dim { " " (member.full_name) } }
                @if !member.email_verified { span.dim { " (address not confirmed)" } }
            }
            td {
                @if manages && !fixed {
                    form method="post" action={ (at) "/role" } {
                        (csrf(who))
                        input type="hidden" name="member" value=(id);
                        label.field { span { "Role of " (member.email) } (roles(member.role.name())) }
                        button.button { "Change" }
                    }
                } @else { (member.role.name()) }
            }
            td {
                @if !fixed && (manages || own) {
                    form method="post" action={ (at) "/remove" } {
                        (csrf(who))
                        input type="hidden" name="member" value=(id);
                        button.button.danger aria-label=[(!own).then(|| format!("Remove {}", member.email))] {
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
            @for (role, meaning) in ASSIGNABLE_ROLES { option value=(role) selected[role == chosen] { (meaning) } }
        }
    }
}
