//! Members and invitations over HTTP (wire.md 3).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::api::NO_STORE;
use crate::origin::Origin;
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_domain::access::Role;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::action::Done;
use hotdesk_wire::member::{
    ChangeMember, Invitation, Invite, Invited, Member, MemberList, RemoveMember, Uninvite,
};

/// The routes of members and invitations.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list, change, remove)).routes(routes!(invite, uninvite))
}

/// Who belongs to a workspace; for its admins also who is invited.
#[utoipa::path(get, path = "/workspaces/{id}/members", tag = "members", params(("id" = String, Path)),
    responses((status = 200, description = "The owner first", body = MemberList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<MemberList>> {
    let people = app.people(&caller, &id).await?;
    let members = people.members.into_iter().map(|member| Member {
        id: member.account.to_string(),
        role: member.role.name().to_owned(),
        email: member.email,
        full_name: member.full_name,
        created_at: iso8601(member.created_at),
    });
    let invites = people.invitations.into_iter();
    let invites = invites.map(|it| invitation(it.email, it.role, it.created_at, it.expires_at));
    Ok(Json(MemberList { members: members.collect(), invites: invites.collect() }))
}

/// Changes what a member is, for admins and the owner. Where they only look from now on, the computers' passwords change.
#[utoipa::path(patch, path = "/workspaces/{id}/members", tag = "members", params(("id" = String, Path)),
    request_body = ChangeMember, responses((status = 200, description = "So it is", body = Done)))]
async fn change(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<ChangeMember>,
) -> Result<Json<Done>> {
    app.change_member(&caller, &id, &wanted.member_id, wanted.role.into()).await?;
    Ok(Json(Done { success: true }))
}

/// Takes a member out of a workspace, with their keys and MCP clients' connections to it, for admins and the owner; everybody may leave.
/// No key to one workspace does that. The computers' passwords change, and sockets that were opened with those before are closed;
/// the computers go on.
#[utoipa::path(delete, path = "/workspaces/{id}/members", tag = "members", params(("id" = String, Path)),
    request_body = RemoveMember, responses((status = 200, description = "They are out", body = Done)))]
async fn remove(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<RemoveMember>,
) -> Result<Json<Done>> {
    app.remove_member(&caller, &id, &wanted.member_id).await?;
    Ok(Json(Done { success: true }))
}

/// Invites an address for seven days, for admins and the owner; an older invitation of it is worth nothing any more. No
/// mail is sent: the answer holds the link to hand over.
#[utoipa::path(post, path = "/workspaces/{id}/invite", tag = "members", params(("id" = String, Path)),
    request_body = Invite, responses((status = 200, description = "The link, shown once", body = Invited)))]
async fn invite(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<Invite>,
) -> Result<Response> {
    let invited = app.invite(&caller, &id, &wanted.email, wanted.permission.into()).await?;
    let (url, token) = (invited.url(&origin), invited.token.reveal().to_owned());
    let invite = invitation(invited.email.to_string(), invited.role, invited.created_at, invited.expires_at);
    Ok((NO_STORE, Json(Invited { success: true, invite, url, token })).into_response())
}

/// Takes an invitation back, for admins and the owner.
#[utoipa::path(delete, path = "/workspaces/{id}/invite", tag = "members", params(("id" = String, Path)),
    request_body = Uninvite, responses((status = 200, description = "It is worth nothing any more", body = Done)))]
async fn uninvite(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<Uninvite>,
) -> Result<Json<Done>> {
    app.uninvite(&caller, &id, &wanted.email).await?;
    Ok(Json(Done { success: true }))
}

fn invitation(email: String, role: Role, created_at: i64, expires_at: i64) -> Invitation {
    let expired = expires_at <= now_ms();
    Invitation {
        email,
        role: role.name().to_owned(),
        status: if expired { "expired" } else { "pending" }.to_owned(),
        created_at: iso8601(created_at),
        expires_at: iso8601(expires_at),
        expired,
    }
}
