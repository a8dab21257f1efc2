//! Authorization: one pure decision over a caller and a workspace (docs/api/authentication.md).

pub mod actor;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use hotdesk_base::ids::{AccountId, GrantId, KeyId, SessionId, WorkspaceId};

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The credential of the request.
    pub credential: Credential,
    /// The account that it belongs to.
    pub account: AccountId,
    /// The only workspace that the credential can access, with its name; `None` for all workspaces of the
    /// account.
    pub scope: Option<(WorkspaceId, String)>,
    /// Whether the request reads or changes.
    pub intent: Intent,
}

impl Caller {
    /// Returns the caller with the intent to change, for a read that returns a secret.
    pub fn for_change(&self) -> Self {
        Self { intent: Intent::Change, ..self.clone() }
    }

    /// Returns the caller with the intent to read, for a POST that changes nothing for others.
    pub fn for_read(&self) -> Self {
        Self { intent: Intent::Read, ..self.clone() }
    }
}

/// Id of a credential, never its text. Rate limits, audit and revocation use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Credential {
    /// An API key.
    Key(KeyId),
    /// A signed-in browser.
    Session(SessionId),
    /// A token of an MCP client's connection.
    Grant(GrantId),
}

impl Credential {
    /// Returns the kind of the credential for a message.
    fn name(self) -> &'static str {
        match self {
            Self::Key(_) => "API key",
            Self::Session(_) => "sign-in",
            Self::Grant(_) => "connection",
        }
    }
}

/// Whether a request reads or changes, by its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The request only reads.
    Read,
    /// The request changes something or returns a secret.
    Change,
}

/// Role of an account in a workspace, in ascending order of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads, and changes nothing.
    Viewer,
    /// Uses and changes the computers.
    Member,
    /// Also manages members, invitations and keys of the workspace.
    Admin,
    /// Owns the workspace, whose resources count against its plan. Each workspace has exactly one owner.
    Owner,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Member, Self::Admin, Self::Owner];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    /// Returns the role with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The workspace of a request.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: &'a str,
    /// Role of the caller's account; `None` when it is not a member.
    pub role: Option<Role>,
}

/// Checks whether the caller can access a workspace with its intent, and returns its role there.
///
/// # Errors
/// `Forbidden`: "Access denied" when the account is not a member; `workspace_scope_mismatch` with both
/// workspaces when the credential is scoped to another one; `workspace_read_only` for a change by a viewer.
pub fn check(caller: &Caller, target: &Target<'_>) -> Result<Role> {
    let role = target.role.ok_or_else(|| Error::forbidden("Access denied"))?;
    if let Some((id, name)) = caller.scope.as_ref().filter(|(id, _)| *id != target.id) {
        return Err(Error::forbidden(format!(
            "This {} is scoped to workspace \"{name}\" and cannot access workspace \"{}\"",
            caller.credential.name(),
            target.name
        ))
        .code(ErrorCode::WorkspaceScopeMismatch)
        .text("key_workspace_id", id.to_string())
        .text("target_workspace_id", target.id.to_string()));
    }
    if role == Role::Viewer && caller.intent == Intent::Change {
        return Err(Error::forbidden(format!("The workspace \"{}\" is view-only for you", target.name))
            .code(ErrorCode::WorkspaceReadOnly));
    }
    Ok(role)
}

/// Checks that `role` has at least the permissions of `least`.
///
/// # Errors
/// `Forbidden`; the message names the required role.
pub fn check_role(role: Role, least: Role) -> Result<()> {
    if role >= least {
        return Ok(());
    }
    let least = match least {
        Role::Owner => "its owner",
        Role::Admin => "an admin or its owner",
        Role::Member | Role::Viewer => "a member",
    };
    Err(Error::forbidden(format!("Access denied: only {least} may do that in this workspace")))
}

/// Checks whether a role may read the files of a workspace's computers. Files hold what is not shown on a screen, so
/// viewers need the workspace's permission.
///
/// # Errors
/// `Forbidden`; the message names the setting.
pub fn check_files(role: Role, viewers_read_files: bool) -> Result<()> {
    if role > Role::Viewer || viewers_read_files {
        return Ok(());
    }
    Err(Error::forbidden(
        "Access denied: files are for members. An admin of the workspace can let viewers read them (viewers_read_files)",
    ))
}

/// Checks whether the caller can create a workspace.
///
/// # Errors
/// `Forbidden` for a scoped key.
pub fn check_create_workspace(caller: &Caller) -> Result<()> {
    check_account_wide(caller, "create workspaces")
}

/// Checks whether the caller can do something that concerns the whole account. `what` completes "cannot ...".
///
/// # Errors
/// `Forbidden` for a scoped key.
pub fn check_account_wide(caller: &Caller, what: &str) -> Result<()> {
    match &caller.scope {
        None => Ok(()),
        Some((id, name)) => {
            Err(Error::forbidden(format!("This API key is scoped to workspace \"{name}\" and cannot {what}"))
                .code(ErrorCode::WorkspaceScopeMismatch)
                .text("key_workspace_id", id.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(scope: Option<WorkspaceId>, intent: Intent) -> Caller {
        Caller {
            credential: Credential::Key(KeyId::random()),
            account: AccountId::random(),
            scope: scope.map(|id| (id, "home".to_owned())),
            intent,
        }
    }

    #[test]
    fn the_access_table() {
        let (home, away) = (WorkspaceId::random(), WorkspaceId::random());
        let wide = |intent| caller(None, intent);
        let scoped = |intent| caller(Some(home), intent);
        let refusal = |who: &Caller, id, role| {
            check(who, &Target { id, name: "away", role })
                .err()
                .map(|error| error.code.map_or("none", ErrorCode::as_str))
        };
        for intent in [Intent::Read, Intent::Change] {
            for role in [Role::Member, Role::Admin, Role::Owner] {
                assert_eq!(refusal(&wide(intent), away, Some(role)), None);
                assert_eq!(refusal(&scoped(intent), home, Some(role)), None);
                assert_eq!(refusal(&scoped(intent), away, Some(role)), Some("workspace_scope_mismatch"));
            }
            assert_eq!(refusal(&wide(intent), away, None), Some("none"));
            assert_eq!(refusal(&scoped(intent), away, None), Some("none"), "a stranger learns no more");
        }
        assert_eq!(refusal(&wide(Intent::Read), away, Some(Role::Viewer)), None);
        assert_eq!(refusal(&wide(Intent::Change), away, Some(Role::Viewer)), Some("workspace_read_only"));
        let refused =
            check(&scoped(Intent::Read), &Target { id: away, name: "away", role: Some(Role::Owner) });
        let refused = refused.unwrap_err();
        assert!(refused.message.contains("\"home\"") && refused.message.contains("\"away\""));
        assert_eq!(refused.fields.len(), 2);
        assert!(check_create_workspace(&wide(Intent::Change)).is_ok());
        assert!(check_create_workspace(&scoped(Intent::Change)).is_err());
    }

    #[test]
    fn roles_have_an_order_and_a_name() {
        for (at, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(Role::from_name(role.name()), Some(role));
            for (least, other) in Role::ALL.into_iter().enumerate() {
                assert_eq!(check_role(role, other).is_ok(), at >= least, "{role:?} for {other:?}");
            }
        }
        assert_eq!(Role::from_name("king"), None);
    }
}
