//! Test harness: processes in temporary folders, and clients for them.

pub use hotdesk_capability as capability;

pub mod agent;
pub mod browser;
pub mod caller;
pub mod controller;
pub mod fake_agent;
pub mod host;
pub mod host_helper;
pub mod incus_cluster;
pub mod long_requests;
pub mod models;
pub mod name_server;
pub mod network;
pub mod oidc_provider;
pub mod picture;
pub mod port_program;
pub mod ports;
pub mod process;
pub mod program;
pub mod raw;
pub mod rtmp;
pub mod sampling;
pub mod simulation;
pub mod small_disk;
pub mod socket;
pub mod syscall_trace;
pub mod trusting_image;

/// Idle timeout of pooled connections. It is below the server's 10 s, so that no request meets a closing
/// connection.
const IDLE: std::time::Duration = std::time::Duration::from_secs(5);

/// A builder of HTTP clients. reqwest needs a TLS provider even though these tests use plain HTTP. Without certificate
/// authorities: each client would read and parse those of the host.
pub fn client_builder() -> reqwest::ClientBuilder {
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().tls_certs_only([]).pool_idle_timeout(IDLE)
}

pub fn client() -> reqwest::Client {
    client_builder().build().expect("a client")
}

/// Fails the test when a clean-up did not work. During a panic it only prints the reason: a second panic
/// would abort.
#[track_caller]
pub fn check_cleanup(done: bool, why: impl FnOnce() -> String) {
    if done {
        return;
    }
    if std::thread::panicking() {
        eprintln!("{}", why());
    } else {
        panic!("{}", why());
    }
}
