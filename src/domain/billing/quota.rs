//! Quotas for stored objects that are not computers: workspaces, clients, members and files (T20, T23,
//! docs/security.md).

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::plural::plural;

/// Bytes in a GB.
const GB: u64 = 1 << 30;

/// Quotas that a plan gives an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Number of workspaces that it owns, without those of its clients.
    pub workspaces: u32,
    /// Number of clients.
    pub clients: u32,
    /// Number of members and invitations together, per workspace.
    pub people: u32,
    /// Number of accounts that are created by its invitations, and by invitations of these accounts.
    pub brought_accounts: u32,
    /// Number of stored files in its workspaces.
    pub files: u32,
    /// Size of these files, in GB.
    pub files_gb: u32,
}

/// A kind of object that a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedResource {
    /// Workspaces of the account.
    Workspaces,
    /// Its clients.
    Clients,
    /// Members and invitations of one workspace.
    People,
    /// Accounts that its invitations created.
    BroughtAccounts,
}

/// Stored files of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredFiles {
    /// Number of files.
    pub count: u64,
    /// Their size, in bytes.
    pub bytes: u64,
}

impl Quota {
    /// Checks whether an account with `held` objects of a kind can have one more.
    ///
    /// # Errors
    /// `Forbidden` with the code `PLAN_LIMIT`, or `UPGRADE_REQUIRED` when the plan gives none.
    pub fn admit(&self, what: CountedResource, held: u64) -> Result<()> {
        let (most, [one, many], field) = self.of(what);
        if held < u64::from(most) {
            return Ok(());
        }
        let code = if most == 0 { ErrorCode::UpgradeRequired } else { ErrorCode::PlanLimit };
        let (noun, are) = (if most == 1 { one } else { many }, if held == 1 { "is" } else { "are" });
        let message = format!("This plan gives at most {most} {noun}, and there {are} {held}");
        Err(Error::forbidden(message).code(code).number(field, i64::from(most)))
    }

    /// Checks whether an account with these files can store one more of `bytes` bytes.
    ///
    /// # Errors
    /// Those of [`Self::admit`].
    pub fn admit_file(&self, held: &StoredFiles, bytes: u64) -> Result<()> {
        if held.count >= u64::from(self.files) {
            let (most, count) = (self.files, held.count);
            let (room, are) = (plural(most, "stored file"), if count == 1 { "is" } else { "are" });
            let message = format!("This plan gives at most {room}, and there {are} {count}");
            let code = if most == 0 { ErrorCode::UpgradeRequired } else { ErrorCode::PlanLimit };
            return Err(Error::forbidden(message).code(code).number("max_files", i64::from(most)));
        }
        if bytes <= self.bytes_left(held) {
            return Ok(());
        }
        Err(self.full(held))
    }

    /// Returns the number of bytes that an account with these files can still store.
    pub fn bytes_left(&self, held: &StoredFiles) -> u64 {
        (u64::from(self.files_gb) * GB).saturating_sub(held.bytes)
    }

    /// Returns the error for a file that is larger than the bytes left.
    pub fn full(&self, held: &StoredFiles) -> Error {
        let (most, left) = (self.files_gb, self.bytes_left(held));
        let message = format!("This plan gives {most} GB for stored files, of which {left} bytes are left");
        Error::forbidden(message).code(ErrorCode::PlanLimit).number("max_files_gb", i64::from(most))
    }

    /// Returns the quota of a kind, its singular and plural, and the field of the error.
    fn of(&self, what: CountedResource) -> (u32, [&'static str; 2], &'static str) {
        match what {
            CountedResource::Workspaces => (self.workspaces, ["workspace", "workspaces"], "max_workspaces"),
            CountedResource::Clients => (self.clients, ["client", "clients"], "max_clients"),
            CountedResource::People => {
                let nouns = ["member or invitation of a workspace", "members and invitations of a workspace"];
                (self.people, nouns, "max_people")
            }
            CountedResource::BroughtAccounts => {
                let nouns = ["account created by invitation", "accounts created by invitation"];
                (self.brought_accounts, nouns, "max_brought_accounts")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    const QUOTA: Quota =
        Quota { workspaces: 2, clients: 0, people: 3, brought_accounts: 1, files: 2, files_gb: 1 };

    #[test]
    fn each_quota_is_enforced_exactly() {
        for (what, held, code) in [
            (CountedResource::Workspaces, 0, None),
            (CountedResource::Workspaces, 1, None),
            (CountedResource::Workspaces, 2, Some(ErrorCode::PlanLimit)),
            // A plan that became smaller than what is there.
            (CountedResource::Workspaces, 9, Some(ErrorCode::PlanLimit)),
            (CountedResource::Clients, 0, Some(ErrorCode::UpgradeRequired)),
            (CountedResource::People, 2, None),
            (CountedResource::People, 3, Some(ErrorCode::PlanLimit)),
            (CountedResource::BroughtAccounts, 0, None),
            (CountedResource::BroughtAccounts, 1, Some(ErrorCode::PlanLimit)),
        ] {
            let got = QUOTA.admit(what, held).err().map(|error| (error.kind, error.code));
            assert_eq!(got, code.map(|code| (Kind::Forbidden, Some(code))), "{what:?} {held}");
        }
    }

    #[test]
    fn files_are_bounded_in_number_and_in_bytes() {
        let none = Quota { files: 0, ..QUOTA };
        for (quota, count, held, bytes, code) in [
            (QUOTA, 0, 0, GB, None),
            (QUOTA, 0, 0, GB + 1, Some(ErrorCode::PlanLimit)),
            (QUOTA, 1, GB - 1, 1, None),
            (QUOTA, 1, GB - 1, 2, Some(ErrorCode::PlanLimit)),
            // An empty file takes no bytes, but it is one.
            (QUOTA, 1, GB, 0, None),
            (QUOTA, 2, 0, 0, Some(ErrorCode::PlanLimit)),
            (QUOTA, 1, GB + 1, 1, Some(ErrorCode::PlanLimit)),
            (QUOTA, 1, u64::MAX, u64::MAX, Some(ErrorCode::PlanLimit)),
            (none, 0, 0, 0, Some(ErrorCode::UpgradeRequired)),
        ] {
            let held = StoredFiles { count, bytes: held };
            let got = quota.admit_file(&held, bytes).err().and_then(|error| error.code);
            assert_eq!(got, code, "{bytes} bytes beside {held:?}");
        }
    }
}
