//! Columns with sealed values. Each is listed in [`ALL`], so that values of earlier versions are sealed and a
//! rotation includes it. None is compared or copied in SQL.

use std::fmt::Display;

/// A column whose values are sealed, each for its row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its table.
    pub(super) table: &'static str,
    /// The column that identifies the row, and never changes.
    pub(super) key: &'static str,
    /// Its name.
    pub(super) name: &'static str,
}

impl Column {
    const fn new(table: &'static str, key: &'static str, name: &'static str) -> Self {
        Self { table, key, name }
    }

    /// The place for which the value of a row is sealed.
    pub(super) fn place(&self, row: impl Display) -> String {
        format!("{}.{} of {row}", self.table, self.name)
    }
}

/// Token of a computer's agent.
pub(crate) static AGENT_TOKEN: Column = Column::new("computers", "id", "agent_token");
/// Token in a computer's saved memory.
pub(crate) static SAVED_TOKEN: Column = Column::new("computers", "id", "saved_token");
/// Password of a computer's screens and sockets.
pub(crate) static VNC_PASSWORD: Column = Column::new("computers", "id", "vnc_password");
/// Token in a snapshot's memory.
pub(crate) static SNAPSHOT_TOKEN: Column = Column::new("snapshots", "id", "agent_token");
/// Token in the memory of a copy in object storage.
pub(crate) static COPY_TOKEN: Column = Column::new("saved_copies", "operation", "token");
/// Stream key of an RTMP server.
pub(crate) static STREAM_KEY: Column = Column::new("stream_connections", "id", "stream_key");
/// A stored answer, which may contain a computer's password.
pub(crate) static ANSWER: Column = Column::new("idempotent_requests", "digest", "body");
/// A secret of the installation, such as the one that signs links.
pub(crate) static INSTALLATION_SECRET: Column = Column::new("installation_secrets", "name", "value");
/// Secret of a person's authenticator app.
pub(crate) static TOTP_SECRET: Column = Column::new("second_factors", "account_id", "secret");
/// Token in the memory of a boot snapshot.
pub(crate) static BOOT_TOKEN: Column = Column::new("boot_snapshots", "machine_id", "agent_token");
/// Token of the agent of a machine in the pool.
pub(crate) static POOL_TOKEN: Column = Column::new("pooled_machines", "machine_id", "agent_token");
/// Key of a workspace.
pub(crate) static WORKSPACE_KEY: Column = Column::new("workspace_keys", "workspace_id", "sealing_key");
/// A secret of an account or a workspace.
pub(crate) static SECRET_VALUE: Column = Column::new("secrets", "id", "value");

/// All of them.
pub(super) static ALL: [&Column; 13] = [
    &AGENT_TOKEN,
    &SAVED_TOKEN,
    &VNC_PASSWORD,
    &SNAPSHOT_TOKEN,
    &COPY_TOKEN,
    &STREAM_KEY,
    &ANSWER,
    &INSTALLATION_SECRET,
    &TOTP_SECRET,
    &BOOT_TOKEN,
    &POOL_TOKEN,
    &WORKSPACE_KEY,
    &SECRET_VALUE,
];
