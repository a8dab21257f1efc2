//! Debian package and archive: Debian's check, installation, upgrade and removal in a root folder of their own.

mod system;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::capability::Capability;
use crate::harness::controller;
use crate::harness::program::{last_change, made_once};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging");
const CHANGELOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/CHANGELOG.md");

/// Runs a command; fails the test with its output unless it succeeds.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed:\n{}", text_of(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// The folder of the packages and the archive of the program under test, which is large.
fn built() -> PathBuf {
    let inputs = [Path::new(env!("CARGO_BIN_EXE_hotdesk")), Path::new(PACKAGING), Path::new(CHANGELOG)];
    made_once("packages", inputs.into_iter().map(last_change).max().expect("inputs"), build)
}

/// The Debian package of the program under test.
fn package() -> PathBuf {
    built().join(format!("hotdesk_{}_amd64.deb", env!("CARGO_PKG_VERSION")))
}

/// Builds into `folder`.
fn build(folder: &Path) {
    // The symbols of unoptimized code are hundreds of megabytes, which would be compressed here and read by lintian. Lines
    // stay, so that the package of debug symbols has some.
    let program = folder.join("hotdesk");
    let mut reduce = Command::new("objcopy");
    reduce.args(["--discard-all", "--keep-section=.debug_line"]);
    succeed(reduce.arg(env!("CARGO_BIN_EXE_hotdesk")).arg(&program));
    let mut deb = Command::new(format!("{PACKAGING}/deb/build"));
    deb.arg(&program).arg(folder);
    // Small packages are not what is tested.
    deb.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip").env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    let package = succeed(&mut deb);
    std::fs::remove_file(program).expect("removed");
    succeed(Command::new(format!("{PACKAGING}/tarball/build")).arg(package.trim()).env("GZIP", "-1"));
    succeed(Command::new(format!("{PACKAGING}/checksums")).arg(folder).env_remove("SIGNING_KEY"));
}

#[test]
fn debian_s_check_of_the_packages_finds_no_error() {
    if Command::new("lintian").arg("--version").output().is_err() {
        return Capability::Lintian.skip("lintian is not installed");
    }
    let packages = std::fs::read_dir(built()).expect("packages").map(|entry| entry.expect("a file").path());
    let packages: Vec<_> = packages.filter(|path| path.extension().is_some_and(|it| it == "deb")).collect();
    assert_eq!(packages.len(), 2, "{packages:?}");
    // The spelling of all texts in the programs takes long, and is never an error.
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--dont-check-part", "binaries/spelling"]);
    let found = text_of(&lintian.args(&packages).output().expect("lintian runs"));
    assert!(!found.lines().any(|line| line.starts_with("E:")), "{found}");
}

/// Runs in a mount namespace of its own: `$1` the image, `$2` a folder of which all may be used, `$3` the package.
const LIFE_OF_A_PACKAGE: &str = r#"
set -eux
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
cp "$3" "$2/root/hotdesk.deb"
cat >"$2/root/life" <<'INSIDE'
set -eux
# The image lacks some of the programs that the package depends on; the maintainer scripts do not call them.
echo hotdesk:x:870:870::/nonexistent:/usr/sbin/nologin >>/etc/passwd
echo hotdesk:x:870: >>/etc/group
dpkg --force-depends --install /hotdesk.deb
[ "$(stat -c '%a %U' /var/lib/hotdesk)" = '711 root' ]
[ "$(stat -c '%a %U' /var/lib/hotdesk/store)" = '700 hotdesk' ]
[ -e /etc/systemd/system/multi-user.target.wants/hotdesk.service ]
[ -e /etc/systemd/system/sockets.target.wants/hotdesk-host.socket ]
[ -x /usr/share/hotdesk/image/build ] && [ -x /usr/share/hotdesk/vm/build ]
[ -e /usr/share/hotdesk/plans.toml ]
hotdesk --version
hotdesk config --config /etc/hotdesk/hotdesk.toml >/dev/null

echo mine >/var/lib/hotdesk/mine
echo '# mine' >>/etc/hotdesk/hotdesk.toml
# An upgrade from a controller that ran as root: its secrets become readable for the new user.
touch /var/lib/hotdesk/hotdesk.db
(umask 077 && echo 0123456789012345678901234567890123456789 >/etc/hotdesk/metrics.key)
sed -i 's|^metrics_key_file = .*|metrics_key_file = "/etc/hotdesk/metrics.key"|' /etc/hotdesk/hotdesk.toml
dpkg --force-depends --install /hotdesk.deb
[ "$(stat -c '%a %U' /etc/hotdesk/metrics.key)" = '600 hotdesk' ]
rm /etc/hotdesk/metrics.key
[ "$(cat /var/lib/hotdesk/mine)" = mine ]
grep -q '# mine' /etc/hotdesk/hotdesk.toml

dpkg --remove hotdesk
[ ! -e /usr/bin/hotdesk ] && [ -e /var/lib/hotdesk/mine ]
mkdir /var/lib/hotdesk/disk && mount -t tmpfs tmpfs /var/lib/hotdesk/disk
dpkg --force-depends --install /hotdesk.deb
dpkg --purge hotdesk
[ -e /var/lib/hotdesk/mine ]
umount /var/lib/hotdesk/disk
dpkg --force-depends --install /hotdesk.deb
dpkg --purge hotdesk
[ ! -e /var/lib/hotdesk ] && [ ! -e /etc/hotdesk ]
INSIDE
chroot "$2/root" sh /life
"#;

#[test]
fn a_package_is_installed_upgraded_removed_and_purged() {
    if let Some(skip) = controller::skip_reason() {
        return skip.report();
    }
    let root = tempfile::tempdir().expect("a folder");
    let mut life = Command::new("unshare");
    life.args(["--mount", "sh", "-c", LIFE_OF_A_PACKAGE, "life"]);
    succeed(life.arg(controller::image().join("rootfs")).arg(root.path()).arg(package()));
}

#[test]
fn an_archive_is_installed_and_finds_the_image_that_the_tree_has_built() {
    if let Some(skip) = controller::skip_reason() {
        return skip.report();
    }
    let (built, folder) = (built(), tempfile::tempdir().expect("a folder"));
    succeed(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&built));
    let name = format!("hotdesk-{}-amd64", env!("CARGO_PKG_VERSION"));
    let archive = built.join(format!("{name}.tar.gz"));
    succeed(Command::new("tar").arg("-xf").arg(archive).current_dir(folder.path()));
    let root = folder.path().join("root");
    let install = || {
        succeed(Command::new(folder.path().join(&name).join("install")).arg("--root").arg(&root));
    };
    install();
    let configuration = root.join("etc/hotdesk/hotdesk.toml");
    std::fs::write(&configuration, "log = \"debug\"\n").expect("writes");
    install();
    assert_eq!(std::fs::read_to_string(&configuration).expect("reads"), "log = \"debug\"\n");

    let images = controller::image();
    let images = images.parent().expect("the folder of the images");
    let mut build = Command::new(root.join("usr/bin/hotdesk"));
    let built = succeed(build.args(["image", "build", "--variant", "small", "--cache"]).arg(images));
    assert_eq!(
        Path::new(built.trim()).canonicalize().expect("the image"),
        controller::image().canonicalize().expect("the image"),
        "the installed build has other inputs than the source tree"
    );
}

/// Overall exposure of a unit, from 0 (safe) to 10, as systemd rates it without running.
fn exposure(unit: &str) -> f64 {
    let mut rating = Command::new("systemd-analyze");
    rating.args(["security", "--offline=true", "--no-pager"]).arg(format!("{PACKAGING}/systemd/{unit}"));
    exposure_in(&succeed(&mut rating))
}

/// Overall exposure in the output of `systemd-analyze security`.
fn exposure_in(text: &str) -> f64 {
    let overall = text.lines().rev().find_map(|line| line.split("exposure level for ").nth(1));
    let overall = overall.unwrap_or_else(|| panic!("no rating: {text}"));
    overall.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[test]
fn d15_the_controller_s_unit_is_hardened() {
    let unit = std::fs::read_to_string(format!("{PACKAGING}/systemd/hotdesk.service")).expect("a unit");
    for setting in ["User=hotdesk", "CapabilityBoundingSet=", "NoNewPrivileges=yes", "ProtectSystem=strict"] {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return Capability::Host.skip("systemd-analyze is not installed");
    }
    let (controller, helper) = (exposure("hotdesk.service"), exposure("hotdesk-host.service"));
    assert!(controller < 3.0, "{controller}");
    println!("exposure: controller {controller}, helper {helper}");
}
