//! How much may an account keep here beside its computers? Rows and bytes that no computer's size bounds: a loop that makes
//! them must end at its own account's bound, not at the host's disk (threats.md T20, T23).

use super::counted::counted;
use super::error::{Error, Result};

/// Bytes of a GB, as everywhere here.
const GB: u64 = 1 << 30;

/// What a plan lets an account keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Workspaces that it owns; those of its clients count as clients.
    pub workspaces: u32,
    /// Clients for whom it runs desktops.
    pub clients: u32,
    /// Members and invitations of each of its workspaces together.
    pub people: u32,
    /// Accounts that come into being by invitations into its workspaces, and into those of whoever came so.
    pub brought_accounts: u32,
    /// Stored files of its workspaces.
    pub files: u32,
    /// GB that those take.
    pub files_gb: u32,
}

/// What is counted one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Workspaces of the account.
    Workspaces,
    /// Its clients.
    Clients,
    /// Members and invitations of one workspace.
    People,
    /// Accounts that came by its invitations.
    BroughtAccounts,
}

/// The files that an account's workspaces hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Quota {
    /// May an account that has `held` of a thing have one more?
    ///
    /// # Errors
    /// `Forbidden`: `PLAN_LIMIT` (wire.md 2), or `UPGRADE_REQUIRED` where the plan gives none at all.
    pub fn admit(&self, what: Kept, held: u64) -> Result<()> {
        let (most, [one, many], field) = self.of(what);
        if held < u64::from(most) {
            return Ok(());
        }
        let code = if most == 0 { "UPGRADE_REQUIRED" } else { "PLAN_LIMIT" };
        let (words, are) = (if most == 1 { one } else { many }, if held == 1 { "is" } else { "are" });
        let message = format!("This plan gives at most {most} {words}, and there {are} {held}");
        Err(Error::forbidden(message).code(code).number(field, i64::from(most)))
    }

    /// May an account that holds these files store one more of so many bytes?
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub fn admit_file(&self, held: &Files, bytes: u64) -> Result<()> {
        if held.count >= u64::from(self.files) {
            let (most, count) = (self.files, held.count);
            let (room, are) = (counted(most, "stored file"), if count == 1 { "is" } else { "are" });
            let message = format!("This plan gives room for {room}, and there {are} {count}");
            let code = if most == 0 { "UPGRADE_REQUIRED" } else { "PLAN_LIMIT" };
            return Err(Error::forbidden(message).code(code).number("max_files", i64::from(most)));
        }
        if bytes <= self.bytes_left(held) {
            return Ok(());
        }
        Err(self.full(held))
    }

    /// Bytes of files that an account which holds these may still store.
    pub fn bytes_left(&self, held: &Files) -> u64 {
        (u64::from(self.files_gb) * GB).saturating_sub(held.bytes)
    }

    /// The refusal of more bytes than are left.
    pub fn full(&self, held: &Files) -> Error {
        let (most, left) = (self.files_gb, self.bytes_left(held));
        let message = format!("This plan gives {most} GB for stored files, of which {left} bytes are left");
        Error::forbidden(message).code("PLAN_LIMIT").number("max_files_gb", i64::from(most))
    }

    /// The bound on a thing, its words for one and for several, and the field that tells it.
    fn of(&self, what: Kept) -> (u32, [&'static str; 2], &'static str) {
        match what {
            Kept::Workspaces => (self.workspaces, ["workspace", "workspaces"], "max_workspaces"),
            Kept::Clients => (self.clients, ["client", "clients"], "max_clients"),
            Kept::People => {
                let words = ["member or invitation of a workspace", "members and invitations of a workspace"];
                (self.people, words, "max_people")
            }
            Kept::BroughtAccounts => {
                let words = ["account that came by invitation", "accounts that came by invitation"];
                (self.brought_accounts, words, "max_brought_accounts")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Kind;
    use super::*;

    const QUOTA: Quota =
        Quota { workspaces: 2, clients: 0, people: 3, brought_accounts: 1, files: 2, files_gb: 1 };

    #[test]
    fn each_bound_is_held_up_to_its_last_one() {
        for (what, held, code) in [
            (Kept::Workspaces, 0, None),
            (Kept::Workspaces, 1, None),
            (Kept::Workspaces, 2, Some("PLAN_LIMIT")),
            // A plan that became smaller than what is there.
            (Kept::Workspaces, 9, Some("PLAN_LIMIT")),
            (Kept::Clients, 0, Some("UPGRADE_REQUIRED")),
            (Kept::People, 2, None),
            (Kept::People, 3, Some("PLAN_LIMIT")),
            (Kept::BroughtAccounts, 0, None),
            (Kept::BroughtAccounts, 1, Some("PLAN_LIMIT")),
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
            (QUOTA, 0, 0, GB + 1, Some("PLAN_LIMIT")),
            (QUOTA, 1, GB - 1, 1, None),
            (QUOTA, 1, GB - 1, 2, Some("PLAN_LIMIT")),
            // An empty file takes no bytes, but it is one.
            (QUOTA, 1, GB, 0, None),
            (QUOTA, 2, 0, 0, Some("PLAN_LIMIT")),
            (QUOTA, 1, GB + 1, 1, Some("PLAN_LIMIT")),
            (QUOTA, 1, u64::MAX, u64::MAX, Some("PLAN_LIMIT")),
            (none, 0, 0, 0, Some("UPGRADE_REQUIRED")),
        ] {
            let held = Files { count, bytes: held };
            let got = quota.admit_file(&held, bytes).err().and_then(|error| error.code);
            assert_eq!(got, code, "{bytes} bytes beside {held:?}");
        }
    }
}
