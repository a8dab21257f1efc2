//! Databases that can hold a store, the embedded SQLite and PostgreSQL, and all that differs between them.

mod address;
mod connections;
mod copy;
mod disk_reserve;
mod errors;
#[cfg(test)]
pub(crate) mod fixture;
mod lease;
mod lease_client;
#[cfg(test)]
mod postgres_suite;
mod schema;
mod tables;

pub use address::PostgresAddress;
pub use connections::{Access, Database};
pub use copy::{CopiedTable, copy};
pub use lease::{Epoch, Leader, LeaseAnswer};
pub use lease_client::{LeaseClient, LeaseWatch, SharedValue};

pub(crate) use connections::Connections;
pub(crate) use errors::{FailureKind, classify, is_duplicate};
pub(crate) use schema::migrate;
