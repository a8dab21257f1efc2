//! Hosts of computers that are gone, and replicas.

pub mod replicas;
