//! What do tests boot, and how do they ask? Real processes in temporary folders.

pub mod agent;
pub mod browser;
pub mod caller;
pub mod controller;
pub mod host;
pub mod impostor;
pub mod picture;
pub mod process;
pub mod raw;
pub mod rtmp;
pub mod simulation;
pub mod small_disk;
pub mod socket;
pub mod steps;
pub mod underway;
pub mod world;

/// How long a client keeps a connection that it does not use: a server closes it after 10 s, perhaps while it is asked.
const IDLE: std::time::Duration = std::time::Duration::from_secs(5);

/// A builder of HTTP clients. TLS is never spoken here, but reqwest wants to know by whom.
pub fn client_builder() -> reqwest::ClientBuilder {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().pool_idle_timeout(IDLE)
}

pub fn client() -> reqwest::Client {
    client_builder().build().expect("a client")
}

/// Fails the test when a clean-up did not work; a test that fails already only tells.
#[track_caller]
pub fn insist(done: bool, why: impl FnOnce() -> String) {
    if done {
        return;
    }
    if std::thread::panicking() {
        eprintln!("{}", why());
    } else {
        panic!("{}", why());
    }
}
