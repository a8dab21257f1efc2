//! Installations of the desktop on distributions as their makers pack them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::desktop::{INSTALL_TIMEOUT, check_computer, is_unreachable};
use super::{architecture, digest, gzip, import, write_layout};
use crate::harness::capability::Capability;
use crate::harness::controller::RunningController;
use crate::harness::sampling::is_full_run;
use crate::templates::builds::{build_within, controller};

/// Installs the desktop on a distribution as its makers pack it, without any part of the desktop. `options`
/// are those of mmdebstrap(1), and `sources` its package sources; none for its own.
async fn check_minimal(controller: &RunningController, suite: &str, options: &[&str], sources: Option<&str>) {
    let temp = tempfile::tempdir().expect("a folder");
    let (tar, source) = (temp.path().join("layer.tar"), temp.path().join("layout"));
    // A host behind a proxy that inspects TLS needs its authorities for PyPI.
    let authorities = "/etc/ssl/certs/ca-certificates.crt";
    let made = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=minbase", "--customize-hook=mkdir -p \"$1/opt/base\"; echo of the base >\"$1/opt/base/marker\""])
        .arg(format!("--customize-hook=cp {authorities} \"$1/opt/ca.crt\"; printf '[global]\\ncert = /opt/ca.crt\\n' >\"$1/etc/pip.conf\""))
        .args(["--customize-hook=sed -i 's/^PRETTY_NAME=.*/PRETTY_NAME=\"Debian of the test\"/' \"$1/usr/lib/os-release\"; rm -r \"$1/srv\""])
        .args(options)
        .arg(suite)
        .arg(&tar)
        .args(sources)
        .output()
        .expect("mmdebstrap");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    write_layout(&source, architecture(), &[gzip(&fs::read(&tar).expect("a layer"))]);
    import(&controller.data_dir(), suite, &source.to_string_lossy(), &[]);
    let base = format!("base: {suite}");
    let status = build_within(INSTALL_TIMEOUT, controller, "lab@1.0.0", &base).await;
    if is_unreachable(&status) {
        return;
    }
    assert_eq!(status["status"], "ready", "{status}");
    check_computer(controller, "lab@1.0.0").await;
}

/// A controller for an installation of the desktop, which takes minutes.
async fn controller_in_full_run() -> Option<RunningController> {
    if is_full_run() {
        return controller().await;
    }
    Capability::Registries.skip("an installation of the desktop: only with HOTDESK_PROOF=full");
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn the_desktop_is_installed_on_a_minimal_debian() {
    let Some(controller) = controller_in_full_run().await else { return };
    check_minimal(&controller, "bookworm", &[], None).await;
}

/// Package sources of Ubuntu for this architecture.
const UBUNTU: &str = if cfg!(target_arch = "aarch64") {
    "http://ports.ubuntu.com/ubuntu-ports"
} else {
    "http://archive.ubuntu.com/ubuntu"
};
/// The package with the keys of Ubuntu's archive, and its digest: Debian has none.
const UBUNTU_KEYS: &str = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb";
const UBUNTU_KEYS_DIGEST: &str = "sha256:36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8";

/// Links `/bin`, `/lib` and `/sbin` before the first package, as images of Ubuntu have them. mmdebstrap alone would leave
/// that to the conversion of a package.
const MERGED_USR: &str = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr";

#[tokio::test(flavor = "multi_thread")]
async fn the_desktop_is_installed_on_a_minimal_ubuntu() {
    let Some(controller) = controller_in_full_run().await else { return };
    let temp = tempfile::tempdir().expect("a folder");
    // The user of apt reads the keys.
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let (package, keys) = (temp.path().join("keys.deb"), temp.path().join("keys"));
    let url = format!("{UBUNTU}/{UBUNTU_KEYS}");
    let fetched =
        Command::new("curl").args(["-fsS", "--max-time", "60", "-o"]).arg(&package).arg(&url).output();
    let fetched = fetched.expect("curl");
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr).trim().to_owned();
        return Capability::Registries.skip(format_args!("the package sources of Ubuntu: {why}"));
    }
    assert_eq!(digest(&fs::read(&package).expect("a file")), UBUNTU_KEYS_DIGEST);
    let unpacked = Command::new("dpkg-deb").arg("-x").arg(&package).arg(&keys).status().expect("dpkg-deb");
    assert!(unpacked.success());
    let keyring = keys.join("usr/share/keyrings/ubuntu-archive-keyring.gpg");
    let option = format!("--keyring={}", keyring.display());
    // The desktop needs packages of `universe`, which images of Ubuntu permit.
    let sources = format!("deb {UBUNTU} noble main universe");
    check_minimal(&controller, "noble", &[option.as_str(), MERGED_USR], Some(&sources)).await;
}
