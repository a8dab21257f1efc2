//! Who may do what? One pure decision over a caller and a workspace (interface.md "Key scopes").

use super::error::{Error, Result};
use crate::base::ids::{AccountId, KeyId, WorkspaceId};

/// Who is asking, once the credential was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The key that was shown.
    pub key: KeyId,
    /// The account that the key belongs to.
    pub account: AccountId,
    /// The only workspace the key reaches, with its name; `None` for an account-wide key.
    pub scope: Option<(WorkspaceId, String)>,
}

/// The workspace that a request is about.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: &'a str,
    /// The account that owns it.
    pub owner: AccountId,
}

/// May the caller act in this workspace?
///
/// # Errors
/// `Forbidden`: `workspace_scope_mismatch` naming both workspaces, or "Access denied" for another account's.
pub fn check(caller: &Caller, target: &Target<'_>) -> Result<()> {
    if caller.account != target.owner {
        return Err(Error::forbidden("Access denied"));
    }
    match &caller.scope {
        Some((id, name)) if *id != target.id => Err(Error::forbidden(format!(
            "This API key is scoped to workspace \"{name}\" and cannot access workspace \"{}\"",
            target.name
        ))
        .code("workspace_scope_mismatch")
        .text("key_workspace_id", id.to_string())
        .text("target_workspace_id", target.id.to_string())),
        _ => Ok(()),
    }
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

    #[test]
    fn the_access_table() {
        let (mine, other) = (AccountId::random(), AccountId::random());
        let (home, away) = (WorkspaceId::random(), WorkspaceId::random());
        let caller = |scope: Option<WorkspaceId>| Caller {
            key: KeyId::random(),
            account: mine,
            scope: scope.map(|id| (id, "home".to_owned())),
        };
        let target = |id, owner| Target { id, name: "away", owner };
        assert!(check(&caller(None), &target(away, mine)).is_ok());
        assert!(check(&caller(Some(home)), &target(home, mine)).is_ok());
        assert_eq!(check(&caller(None), &target(away, other)).unwrap_err().message, "Access denied");
        let refused = check(&caller(Some(home)), &target(away, mine)).unwrap_err();
        assert_eq!(refused.code, Some("workspace_scope_mismatch"));
        assert!(refused.message.contains("\"home\"") && refused.message.contains("\"away\""));
        assert_eq!(refused.fields.len(), 2);
        assert!(check_create_workspace(&caller(None)).is_ok());
        assert!(check_create_workspace(&caller(Some(home))).is_err());
    }
}
