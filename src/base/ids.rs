//! How are things named inside? Newtype ids, parsed at the edge, so that one can never pass for another.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::hex::hex;

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A fresh random id (UUID version 4).
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )*};
}

uuid_ids! {
    /// An account: who owns workspaces and keys.
    AccountId,
    /// An API key (its record, never its secret).
    KeyId,
    /// A person's signed-in browser (its record, never its cookie).
    SessionId,
    /// What a person granted to an MCP client: one connection (its record, never its tokens).
    GrantId,
    /// A workspace.
    WorkspaceId,
    /// A computer; the stable handle (interface.md "Computer").
    ComputerId,
    /// A stored file.
    FileId,
    /// Somebody for whom an operator runs desktops.
    ClientId,
    /// A computer as it was at one moment.
    SnapshotId,
}

impl ComputerId {
    /// The guest's host name: never a text of the user's.
    pub fn hostname(self) -> String {
        let short: String = self.0.simple().to_string().chars().take(8).collect();
        format!("hotdesk-{short}")
    }
}

/// The handle of a computer's current host instance: 8 lower-case hex digits (wire.md 4.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstanceId(String);

impl InstanceId {
    /// A fresh random handle.
    pub fn random() -> Self {
        Self(hex(&rand::random::<[u8; 4]>()))
    }

    /// The handle's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for InstanceId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() == 8 && hex { Ok(Self(text.to_owned())) } else { Err(()) }
    }
}

/// What a path's `{id}` may hold for a computer: its UUID or an instance handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComputerRef {
    /// The stable UUID.
    Id(ComputerId),
    /// The handle of the current (or an earlier) instance.
    Instance(InstanceId),
}

impl FromStr for ComputerRef {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        text.parse().map(Self::Instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computer_is_named_by_uuid_or_instance_and_nothing_else() {
        assert!(matches!("0a1b2c3d".parse(), Ok(ComputerRef::Instance(_))));
        assert!(matches!(ComputerId::random().to_string().parse(), Ok(ComputerRef::Id(_))));
        for bad in ["", "0A1B2C3D", "0a1b2c3", "0a1b2c3d4", "../../etc", "a b c d ", "０a1b2c3"] {
            assert!(bad.parse::<ComputerRef>().is_err(), "{bad:?}");
        }
    }
}
