//! What do tests boot, and how do they ask? Real processes in temporary folders.

pub mod agent;
pub mod controller;
pub mod impostor;
pub mod picture;
pub mod raw;
pub mod simulation;

/// An HTTP client. TLS is never spoken here, but reqwest wants to know by whom.
pub fn client() -> reqwest::Client {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}
