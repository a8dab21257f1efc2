//! Templates that are built on an imported image, with the desktop above it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::layouts::File;
use super::{OS_RELEASE, architecture, file, hotdesk_image, import, layer, write_layout};
use crate::harness::caller::id_of;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, image};
use crate::templates::builds::{build_within, controller, launch, layers, log};

/// Longest build with an installation of the desktop from Debian's packages.
pub(super) const INSTALL_TIMEOUT: Duration = Duration::from_secs(900);

/// Writes a layout with the small guest image, without a folder of its root, and a layer with files of the test and more.
fn layout_of_guest_image(temp: &Path, more: &[File<'_>]) -> PathBuf {
    let (tar, source) = (temp.join("layer.tar"), temp.join("layout"));
    let rootfs = image().join("rootfs");
    let packed = Command::new("tar")
        .arg("-cf")
        .arg(&tar)
        .arg("--exclude=./srv")
        .arg("-C")
        .arg(rootfs)
        .arg(".")
        .status();
    assert!(packed.expect("tar").success());
    let above = layer(&[
        file("opt/base/marker", b"of the base\n"),
        file("usr/lib/os-release", OS_RELEASE.as_bytes()),
    ]);
    write_layout(&source, architecture(), &[fs::read(&tar).expect("a layer"), above, layer(more)]);
    fs::remove_file(&tar).expect("a file");
    source
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_built_on_an_imported_image_with_the_desktop_above_it() {
    let Some(controller) = controller().await else { return };
    let status = build_within(INSTALL_TIMEOUT, &controller, "none@1.0.0", "base: tested").await;
    let error = status["error"].as_str().unwrap_or_default();
    assert!(error.contains("there is no imported image tested"), "{status}");

    let temp = tempfile::tempdir().expect("a folder");
    let apt = File { mode: 0o755, ..file("usr/bin/apt-get", b"#!/bin/sh\necho no sources >&2\nexit 1\n") };
    let source = layout_of_guest_image(temp.path(), &[apt]);
    import(&controller.data_dir(), "tested", &source.to_string_lossy(), &[]);
    let status = build_within(INSTALL_TIMEOUT, &controller, "broken@1.0.0", "base: tested").await;
    assert_eq!(status["status"], "failed", "{status}");
    let opened = controller.post("/templates/default/broken/1.0.0/debug", json!({})).await;
    assert_eq!(opened.status, 409, "{}", opened.body);
    assert!(opened.body.to_string().contains("before its base had a desktop"), "{}", opened.body);

    let source = layout_of_guest_image(temp.path(), &[]);
    import(&controller.data_dir(), "tested", &source.to_string_lossy(), &[]);
    // A program of the image leaves a package for later builds, as apt would.
    let more = "base: tested\nbuild: {run: ['cat /opt/base/marker; mkdir -p /var/tmp/hotdesk-downloads/apt; \
                echo x >/var/tmp/hotdesk-downloads/apt/planted_1_all.deb']}";
    let status = build_within(INSTALL_TIMEOUT, &controller, "lab@1.0.0", more).await;
    let lines = log(&controller, "lab@1.0.0").await;
    if is_unreachable(&status) {
        return;
    }
    assert_eq!(status["status"], "ready", "{status} {lines:#?}");
    assert!(lines.iter().any(|entry| entry["line"] == "of the base"), "{lines:#?}");
    // One is of the first image.
    assert_eq!(layers(&controller).len(), 4);
    check_computer(&controller, "lab@1.0.0").await;
    let downloads = controller.data_dir().join("downloads");
    let kept: Vec<_> = fs::read_dir(downloads).expect("a folder").collect();
    assert!(kept.is_empty(), "no build on another image gets what this one left: {kept:?}");

    // Templates share the layers of the image, also when it is imported again or gone.
    import(&controller.data_dir(), "tested", &source.to_string_lossy(), &[]);
    let status = build_within(INSTALL_TIMEOUT, &controller, "lab@1.0.1", "base: tested").await;
    assert_eq!(status["status"], "ready", "{status}");
    assert_eq!(layers(&controller).len(), 4);
    assert!(hotdesk_image(&controller.data_dir(), &["remove", "tested"]).status.success());
    check_computer(&controller, "lab@1.0.1").await;
}

/// Launches a template, and looks at the base and the desktop.
pub(super) async fn check_computer(controller: &RunningController, template: &str) {
    let workspace = controller.workspace(&template.replace(['@', '.'], "-")).await;
    let launched = launch(controller, &workspace, "one", template).await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    let seen = controller.bash(&id, "cat /opt/base/marker; . /etc/os-release; echo $PRETTY_NAME; ls -d /srv 2>&1; wmctrl -m | head -n1").await;
    assert_eq!(
        seen,
        "of the base\nDebian of the test\nls: cannot access '/srv': No such file or directory\nName: Openbox\n"
    );
}

/// Whether a build could not reach the registries. The test is skipped then.
pub(super) fn is_unreachable(status: &Value) -> bool {
    let error = status["error"].as_str().unwrap_or_default();
    let signs = ["Could not resolve", "Temporary failure", "Unable to fetch", "Failed to fetch"];
    let is_unreachable = signs.iter().any(|sign| error.contains(sign));
    if is_unreachable {
        Capability::Registries.skip(format_args!("a build cannot download packages: {error}"));
    }
    is_unreachable
}
