//! OCI images that an operator imports, and templates that are built on them (docs/templates.md, "base").

mod desktop;
mod extraction;
mod layouts;
mod minimal;
mod refusals;
mod registry;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::capability::Capability;
use crate::harness::controller::remove_test_variables;
pub(super) use layouts::{OS_RELEASE, architecture, debian, digest, file, gzip, layer, link, write_layout};
pub(super) use registry::Registry;

/// Runs `hotdesk image` on a data folder.
fn hotdesk_image(data: &Path, arguments: &[&str]) -> Output {
    // Neither modes of files nor deep folders depend on what the caller has set.
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; ulimit -n 256; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hotdesk")]);
    command.args(["--json", "image"]).args(&arguments[..1]).arg("--data-dir").arg(data).args(&arguments[1..]);
    remove_test_variables(&mut command);
    command.output().expect("the program")
}

/// Asserts that an import works; returns the root folder of the image.
#[track_caller]
pub(super) fn import(data: &Path, name: &str, source: &str, more: &[&str]) -> PathBuf {
    let done = hotdesk_image(data, &[&["import", name, source], more].concat());
    assert!(done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stderr));
    data.join("bases").join(name).join("rootfs")
}

/// The error of an import that is refused. Nothing stays of it.
#[track_caller]
pub(super) fn refusal(data: &Path, source: &str, more: &[&str]) -> String {
    let done = hotdesk_image(data, &[&["import", "bad", source], more].concat());
    assert!(!done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stdout));
    let left: Vec<_> = fs::read_dir(data.join("bases")).map(|entries| entries.collect()).unwrap_or_default();
    assert!(left.is_empty(), "{source}: {left:?}");
    let error = String::from_utf8_lossy(&done.stderr).trim_end().to_owned();
    assert!(!error.contains(char::is_control), "{error:?}");
    error
}

pub(super) fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        Capability::Root.skip("the files of an image have several owners");
    }
    is_root
}
