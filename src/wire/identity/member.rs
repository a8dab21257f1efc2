//! Who belongs to a workspace, and who is asked to? (wire.md 3)

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use hotdesk_domain::access::Role;

/// What somebody may be made in a workspace; its owner is nobody's to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GivenRole {
    /// Looks, and changes nothing.
    Viewer,
    /// Works with the computers.
    Member,
    /// Also manages members and invitations.
    Admin,
}

impl From<GivenRole> for Role {
    fn from(given: GivenRole) -> Self {
        match given {
            GivenRole::Viewer => Self::Viewer,
            GivenRole::Member => Self::Member,
            GivenRole::Admin => Self::Admin,
        }
    }
}

/// One who belongs to a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// UUID of the account; `memberId` in a change.
    pub id: String,
    /// `owner`, `admin`, `member` or `viewer`.
    pub role: String,
    /// The address that the account signs in with.
    pub email: String,
    /// What it is called; may be empty.
    pub full_name: String,
    /// Since when, ISO 8601.
    pub created_at: String,
}

/// An invitation that was not taken yet.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    /// Who is invited.
    pub email: String,
    /// What they become: `admin`, `member` or `viewer`.
    pub role: String,
    /// `pending` or `expired`.
    pub status: String,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    pub expires_at: String,
    /// Whether its time is over.
    pub expired: bool,
}

/// `GET /workspaces/{id}/members`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MemberList {
    /// The owner first, then by age.
    pub members: Vec<Member>,
    /// Only for those who may invite.
    pub invites: Vec<Invitation>,
}

/// `PATCH /workspaces/{id}/members`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"memberId": "5f0c8a52-3a1e-4f7b-9a44-0c6c2a1d9b10", "role": "member"}))]
pub struct ChangeMember {
    /// Whom: a member's `id`.
    #[serde(rename = "memberId")]
    pub member_id: String,
    /// What they become.
    pub role: GivenRole,
}

/// `DELETE /workspaces/{id}/members`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"memberId": "5f0c8a52-3a1e-4f7b-9a44-0c6c2a1d9b10"}))]
pub struct RemoveMember {
    /// Whom: a member's `id`.
    #[serde(rename = "memberId")]
    pub member_id: String,
}

/// `POST /workspaces/{id}/invite`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"email": "ada@example.org", "permission": "member"}))]
pub struct Invite {
    /// Whom: the address that they sign in with, or will.
    #[schema(max_length = 254, example = "ada@example.org")]
    pub email: String,
    /// What they become.
    pub permission: GivenRole,
}

/// The answer to an invitation. The link is here and nowhere else: nothing is sent by mail.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Invited {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// The invitation.
    pub invite: Invitation,
    /// What to give to them: opened, it makes them a member.
    pub url: String,
    /// The secret part of it.
    pub token: String,
}

/// `DELETE /workspaces/{id}/invite`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"email": "ada@example.org"}))]
pub struct Uninvite {
    /// Whom.
    #[schema(max_length = 254, example = "ada@example.org")]
    pub email: String,
}
