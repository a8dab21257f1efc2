//! Capabilities that a test needs and a machine may lack: counted skips, or failures where the run requires them.
//!
//! A crate of its own, so that the unit tests of every floor reach it. Only tests depend on it.

use std::fmt;
use std::io::Write;

pub mod postgres;

/// What tests need beyond a Rust toolchain. The names are those of `HOTDESK_REQUIRE` (docs/testing.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Root, the guest image and the OCI runtime `runc`: computers in containers.
    Runc,
    /// The OCI runtime `runsc`.
    Gvisor,
    /// QEMU and a kernel for its guests.
    Qemu,
    /// Root, and Incus with what its pools and bridges need.
    Incus,
    /// An X server, and the X programs that tests drive.
    X11,
    /// Python bindings of GTK and Qt.
    Toolkits,
    /// Chromium.
    Browser,
    /// A sound server, and sox.
    Audio,
    /// ffmpeg, and nginx with its RTMP and stream modules.
    Rtmp,
    /// The S3 server of the Python environment.
    S3,
    /// The Python environment with other people's clients.
    Python,
    /// The conformance suite of the Model Context Protocol.
    Conformance,
    /// A provider of OpenID Connect, and its Node.
    Oidc,
    /// Generators of clients from the OpenAPI document.
    Generators,
    /// The guest image with all programs.
    FullImage,
    /// lintian, Debian's check of packages.
    Lintian,
    /// Root, and a root file system in which systemd runs.
    Systemd,
    /// Root, with namespaces and file systems that this kernel lets it make.
    Root,
    /// Programs of OpenSSH, and rsync.
    Ssh,
    /// A PostgreSQL server.
    Postgres,
    /// Package registries that guests reach.
    Registries,
    /// What only some machines can have; never required: a kernel that can cut the power of a disk, a git checkout.
    Host,
}

impl Capability {
    const fn name(self) -> &'static str {
        match self {
            Self::Runc => "runc",
            Self::Gvisor => "gvisor",
            Self::Qemu => "qemu",
            Self::Incus => "incus",
            Self::X11 => "x11",
            Self::Toolkits => "toolkits",
            Self::Browser => "browser",
            Self::Audio => "audio",
            Self::Rtmp => "rtmp",
            Self::S3 => "s3",
            Self::Python => "python",
            Self::Conformance => "conformance",
            Self::Oidc => "oidc",
            Self::Generators => "generators",
            Self::FullImage => "full-image",
            Self::Lintian => "lintian",
            Self::Systemd => "systemd",
            Self::Root => "root",
            Self::Ssh => "ssh",
            Self::Postgres => "postgres",
            Self::Registries => "registries",
            Self::Host => "host",
        }
    }

    /// Skips the running test, which returns after this call. The skip is printed, and added to the file that
    /// `HOTDESK_SKIPS` names, from which the runner counts.
    ///
    /// # Panics
    /// When `HOTDESK_REQUIRE` lists this capability, or the skip cannot be recorded.
    #[track_caller]
    pub fn skip(self, reason: impl fmt::Display) {
        let required = std::env::var("HOTDESK_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|name| name.trim() == self.name());
        assert!(!is_required, "HOTDESK_REQUIRE lists {}, but it is missing here: {reason}", self.name());
        println!("skipped: {} ({reason})", self.name());
        let Some(path) = std::env::var_os("HOTDESK_SKIPS") else { return };
        let thread = std::thread::current();
        let test = std::env::var("NEXTEST_TEST_NAME").ok();
        let test = test.as_deref().or(thread.name()).unwrap_or("unknown").to_owned();
        // The runner reads one line for each.
        let reason = reason.to_string().replace('\n', " ");
        let line = format!("{}\t{test}\t{reason}\n", self.name());
        // One write to a file opened for appending: lines of tests that run side by side do not mix.
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the skip is recorded");
    }
}

/// A skip that is not reported yet: some tests first ask whether they can run.
#[derive(Debug)]
pub struct Skip {
    capability: Capability,
    reason: String,
}

impl Skip {
    /// A skip for this reason.
    pub fn new(capability: Capability, reason: impl Into<String>) -> Self {
        Self { capability, reason: reason.into() }
    }

    /// Skips the running test ([`Capability::skip`]).
    ///
    /// # Panics
    /// When `HOTDESK_REQUIRE` lists the capability.
    #[track_caller]
    pub fn report(self) {
        self.capability.skip(self.reason);
    }
}
