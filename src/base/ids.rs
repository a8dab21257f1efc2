//! Newtype ids, parsed at the edge, so that the compiler rejects one kind in place of another.

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
    /// An account; it owns workspaces and keys.
    AccountId,
    /// An API key (its record, never its secret).
    KeyId,
    /// A public key of an account for SSH.
    SshKeyId,
    /// A signed-in browser of a person (its record, never its cookie).
    SessionId,
    /// A grant of a person to an MCP client: one connection (its record, never its tokens).
    GrantId,
    /// A workspace.
    WorkspaceId,
    /// A computer; the stable handle (docs/api/computers.md).
    ComputerId,
    /// A stored file.
    FileId,
    /// A client of an operator, with desktops of its own (docs/api/accounts.md).
    ClientId,
    /// A snapshot of a computer.
    SnapshotId,
    /// A read-only disk layer that computers share.
    LayerId,
    /// A secret of an account or a workspace (its record, never its value).
    SecretId,
}

impl ComputerId {
    /// The guest's host name, `hotdesk-` with 8 digits of the id; it contains no text of the user.
    pub fn hostname(self) -> String {
        let short: String = self.0.simple().to_string().chars().take(8).collect();
        format!("hotdesk-{short}")
    }
}

/// A chat thread: `thr_` and 32 lower-case hex digits (docs/api/chat.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(Uuid);

impl ThreadId {
    const PREFIX: &str = "thr_";

    /// A fresh random id.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0.simple())
    }
}

impl FromStr for ThreadId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.strip_prefix(Self::PREFIX).ok_or(())?;
        let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits.len() != 32 || !lower {
            return Err(());
        }
        digits.parse().map(Self).map_err(|_| ())
    }
}

/// The handle of a computer's current host instance: 8 lower-case hex digits (docs/api/computers.md).
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

/// A computer in a path's `{id}`: its UUID or an instance handle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
