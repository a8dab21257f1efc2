//! Members and invitations over HTTP (docs/api/workspaces.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::AppState;
use crate::api::NO_STORE;
use crate::api::api_router::{ApiRouter, routes};
use crate::web::origin::Origin;
use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::identity::access::Role;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::identity::member::{
    ChangeMember, Invitation, InvitationCreated, Invite, Member, MemberList, RemoveMember, Uninvite,
};

/// Returns the routes of members and invitations.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list, change, remove)).routes(routes!(invite, uninvite))
}

/// Lists the members of a workspace.
///
/// Its admins also see the invitations.
#[utoipa::path(get, path = "/workspaces/{id}/members", tag = "members", params(("id" = String, Path)),
    responses((status = 200, description = "Members, the owner first", body = MemberList)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<MemberList>> {
    let people = app.members.list(&caller, &id).await?;
    let members = people.members.into_iter().map(|member| Member {
        id: member.account.to_string(),
        role: member.role.name().to_owned(),
        email: member.email,
        email_verified: member.email_verified,
        full_name: member.full_name,
        created_at: member.created_at.iso8601(),
    });
    let invites = people.invitations.into_iter();
    let invites = invites.map(|it| invitation(it.email, it.role, it.created_at, it.expires_at));
    Ok(Json(MemberList { members: members.collect(), invites: invites.collect() }))
}

/// Changes a member's role.
///
/// Only for admins and the owner. If the member becomes a viewer, the passwords of the workspace's computers
/// change.
#[utoipa::path(patch, path = "/workspaces/{id}/members", tag = "members", params(("id" = String, Path)),
    request_body = ChangeMember,
    responses((status = 200, description = "The role was changed", body = Acknowledgement)))]
async fn change(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<ChangeMember>,
) -> Result<Json<Acknowledgement>> {
    app.members.change(&caller, &id, &wanted.member_id, wanted.role.into()).await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Removes a member from a workspace, with the member's scoped keys and MCP connections.
///
/// Only for admins and the owner; every member may leave. Scoped keys may do neither. The passwords of the
/// workspace's computers change, and sockets that use the old ones are closed. The computers continue to run.
#[utoipa::path(delete, path = "/workspaces/{id}/members", tag = "members", params(("id" = String, Path)),
    request_body = RemoveMember,
    responses((status = 200, description = "The member was removed", body = Acknowledgement)))]
async fn remove(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<RemoveMember>,
) -> Result<Json<Acknowledgement>> {
    app.members.remove(&caller, &id, &wanted.member_id).await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Invites an e-mail address for seven days.
///
/// Only for admins and the owner. It replaces an earlier invitation of the address. It is not mailed: pass on
/// the link of the response.
#[utoipa::path(post, path = "/workspaces/{id}/invite", tag = "members", params(("id" = String, Path)),
    request_body = Invite,
    responses((status = 200, description = "The invitation with its link, which is not available later", body = InvitationCreated)))]
async fn invite(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<Invite>,
) -> Result<Response> {
    let invited = app.invitations.create(&caller, &id, &wanted.email, wanted.permission.into()).await?;
    let (url, token) = (invited.url(&origin), invited.token.reveal().to_owned());
    let invite = invitation(invited.email.to_string(), invited.role, invited.created_at, invited.expires_at);
    Ok((NO_STORE, Json(InvitationCreated { success: true, invite, url, token })).into_response())
}

/// Revokes an invitation.
///
/// Only for admins and the owner.
#[utoipa::path(delete, path = "/workspaces/{id}/invite", tag = "members", params(("id" = String, Path)),
    request_body = Uninvite,
    responses((status = 200, description = "The invitation was revoked", body = Acknowledgement)))]
async fn uninvite(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<Uninvite>,
) -> Result<Json<Acknowledgement>> {
    app.invitations.revoke(&caller, &id, &wanted.email).await?;
    Ok(Json(Acknowledgement { success: true }))
}

fn invitation(email: String, role: Role, created_at: UnixMillis, expires_at: UnixMillis) -> Invitation {
    let expired = expires_at <= clock::now();
    Invitation {
        email,
        role: role.name().to_owned(),
        status: if expired { "expired" } else { "pending" }.to_owned(),
        created_at: created_at.iso8601(),
        expires_at: expires_at.iso8601(),
        expired,
    }
}
