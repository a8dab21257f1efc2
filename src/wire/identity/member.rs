//! Members and invitations of a workspace (docs/api/workspaces.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use hotdesk_domain::identity::access::Role;

/// Role that can be assigned in a workspace; ownership cannot be assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = GivenRole)]
pub enum AssignableRole {
    /// Reads, and changes nothing.
    Viewer,
    /// Uses and changes the computers.
    Member,
    /// Also manages members and invitations.
    Admin,
}

impl From<AssignableRole> for Role {
    fn from(given: AssignableRole) -> Self {
        match given {
            AssignableRole::Viewer => Self::Viewer,
            AssignableRole::Member => Self::Member,
            AssignableRole::Admin => Self::Admin,
        }
    }
}

/// A member of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// UUID of the account; `memberId` in a change.
    pub id: String,
    /// `owner`, `admin`, `member` or `viewer`.
    pub role: String,
    /// E-mail address for sign-in.
    pub email: String,
    /// Whether a link that was mailed to the address was opened.
    pub email_verified: bool,
    /// Full name; it may be empty.
    pub full_name: String,
    /// Time of joining, ISO 8601.
    pub created_at: String,
}

/// An invitation that was not accepted yet.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    /// E-mail address of the invited person.
    pub email: String,
    /// Role after acceptance: `admin`, `member` or `viewer`.
    pub role: String,
    /// `pending` or `expired`.
    pub status: String,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of expiry, ISO 8601.
    pub expires_at: String,
    /// Whether the invitation has expired.
    pub expired: bool,
}

/// `GET /workspaces/{id}/members`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MemberList {
    /// Members: the owner first, then by time of joining.
    pub members: Vec<Member>,
    /// Open invitations; empty for callers that cannot invite.
    pub invites: Vec<Invitation>,
}

/// `PATCH /workspaces/{id}/members`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"memberId": "5f0c8a52-3a1e-4f7b-9a44-0c6c2a1d9b10", "role": "member"}))]
#[serde(deny_unknown_fields)]
pub struct ChangeMember {
    /// `id` of the member.
    #[serde(rename = "memberId")]
    pub member_id: String,
    /// New role of the member.
    pub role: AssignableRole,
}

/// `DELETE /workspaces/{id}/members`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"memberId": "5f0c8a52-3a1e-4f7b-9a44-0c6c2a1d9b10"}))]
#[serde(deny_unknown_fields)]
pub struct RemoveMember {
    /// `id` of the member.
    #[serde(rename = "memberId")]
    pub member_id: String,
}

/// `POST /workspaces/{id}/invite`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"email": "ada@example.org", "permission": "member"}))]
#[serde(deny_unknown_fields)]
pub struct Invite {
    /// E-mail address with which the person signs in.
    #[schema(
        pattern = r#"^\s*[^@<>",;\s\u0000-\u001f\u007f-\u009f]+@[^@<>",;\s\u0000-\u001f\u007f-\u009f]+\s*$"#,
        max_length = 254,
        example = "ada@example.org"
    )]
    pub email: String,
    /// Role that the invited person gets.
    pub permission: AssignableRole,
}

/// The answer to an invitation. The link is only in this answer: the server does not mail it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Invited)]
pub struct InvitationCreated {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// The new invitation.
    pub invite: Invitation,
    /// Link for the invited person, who becomes a member by opening it.
    pub url: String,
    /// Secret token of the link.
    pub token: String,
}

/// `DELETE /workspaces/{id}/invite`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"email": "ada@example.org"}))]
#[serde(deny_unknown_fields)]
pub struct Uninvite {
    /// E-mail address of the invited person.
    #[schema(
        pattern = r#"^\s*[^@<>",;\s\u0000-\u001f\u007f-\u009f]+@[^@<>",;\s\u0000-\u001f\u007f-\u009f]+\s*$"#,
        max_length = 254,
        example = "ada@example.org"
    )]
    pub email: String,
}
