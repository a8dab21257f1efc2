//! Who may do what? One pure decision over a caller and a workspace (interface.md "Key scopes").

use super::error::{Error, Result};
use hotdesk_base::ids::{AccountId, GrantId, KeyId, SessionId, WorkspaceId};

/// Who is asking, once the credential was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What was shown.
    pub credential: Credential,
    /// The account that it belongs to.
    pub account: AccountId,
    /// The only workspace that it reaches, with its name; `None` for all of the account's.
    pub scope: Option<(WorkspaceId, String)>,
    /// What the request is going to do.
    pub intent: Intent,
}

impl Caller {
    /// The same one about to change something, for a read that hands out what can.
    pub fn changing(&self) -> Self {
        Self { intent: Intent::Change, ..self.clone() }
    }

    /// The same one only looking, for a POST that changes nothing for others.
    pub fn looking(&self) -> Self {
        Self { intent: Intent::Read, ..self.clone() }
    }
}

/// The record of a credential, never its text: what limits, audit and revocation go by.
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
    /// What its holder knows it as.
    fn name(self) -> &'static str {
        match self {
            Self::Key(_) => "API key",
            Self::Session(_) => "sign-in",
            Self::Grant(_) => "connection",
        }
    }
}

/// Whether a request may change something, by its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It looks.
    Read,
    /// It changes something, or hands out what can.
    Change,
}

/// What an account is in a workspace, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks, and changes nothing.
    Viewer,
    /// Works with the computers.
    Member,
    /// Also manages members, invitations and the workspace's keys.
    Admin,
    /// Whose plan it is; one per workspace.
    Owner,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Member, Self::Admin, Self::Owner];

    /// Its word on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The workspace that a request is about.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: &'a str,
    /// What the caller's account is in it; `None` for a stranger.
    pub role: Option<Role>,
}

/// May the caller do what it is about to do in this workspace? Says what it is there.
///
/// # Errors
/// `Forbidden`: "Access denied" for a stranger; `workspace_scope_mismatch` naming both workspaces; `workspace_read_only`
/// for a change by a viewer (interface.md "Suspend", errors).
pub fn check(caller: &Caller, target: &Target<'_>) -> Result<Role> {
    let role = target.role.ok_or_else(|| Error::forbidden("Access denied"))?;
    if let Some((id, name)) = caller.scope.as_ref().filter(|(id, _)| *id != target.id) {
        return Err(Error::forbidden(format!(
            "This {} is scoped to workspace \"{name}\" and cannot access workspace \"{}\"",
            caller.credential.name(),
            target.name
        ))
        .code("workspace_scope_mismatch")
        .text("key_workspace_id", id.to_string())
        .text("target_workspace_id", target.id.to_string()));
    }
    if role == Role::Viewer && caller.intent == Intent::Change {
        return Err(Error::forbidden(format!("The workspace \"{}\" is view-only for you", target.name))
            .code("workspace_read_only"));
    }
    Ok(role)
}

/// Is a role enough for what asks for another?
///
/// # Errors
/// `Forbidden`, saying which role it takes.
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

/// May the caller make a workspace? A scoped key may not (interface.md "Key scopes").
///
/// # Errors
/// `Forbidden` for a scoped key.
pub fn check_create_workspace(caller: &Caller) -> Result<()> {
    check_account_wide(caller, "create workspaces")
}

/// May the caller do what concerns the account and no workspace?
///
/// # Errors
/// `Forbidden` for a scoped key, saying what it cannot.
pub fn check_account_wide(caller: &Caller, what: &str) -> Result<()> {
    match &caller.scope {
        None => Ok(()),
        Some((id, name)) => {
            Err(Error::forbidden(format!("This API key is scoped to workspace \"{name}\" and cannot {what}"))
                .code("workspace_scope_mismatch")
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
            check(who, &Target { id, name: "away", role }).err().map(|error| error.code.unwrap_or("none"))
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
            assert_eq!(Role::named(role.name()), Some(role));
            for (least, other) in Role::ALL.into_iter().enumerate() {
                assert_eq!(check_role(role, other).is_ok(), at >= least, "{role:?} for {other:?}");
            }
        }
        assert_eq!(Role::named("king"), None);
    }
}
