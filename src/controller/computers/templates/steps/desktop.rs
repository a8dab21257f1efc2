//! Script that installs the desktop of the guest image on an imported image (`packaging/image`).

use std::path::Path;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use include_dir::{Dir, include_dir};

/// Settings of the programs, by their path in a computer.
static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../packaging/image/files");
const PACKAGES: &str = include_str!("../../../../../packaging/image/packages.small");
const EXCLUDES: &str = include_str!("../../../../../packaging/image/dpkg-excludes");
/// Files that the steps of the guest image need in their folder.
const PARTS: [(&str, &str); 4] = [
    ("setup", include_str!("../../../../../packaging/image/setup")),
    ("python.txt", include_str!("../../../../../packaging/image/python.txt")),
    ("wallpaper.svg", include_str!("../../../../../packaging/image/wallpaper.svg")),
    ("dpkg-excludes", EXCLUDES),
];
/// Packages that the guest image has through `python3-pip`: they build those of `python.txt`.
const PYTHON_BUILD: [&str; 2] = ["python3-setuptools", "python3-wheel"];
/// Folder of files that are programs.
const PROGRAMS: &str = "usr/local/bin";
/// Files that an image keeps: its package sources, and the host names, which are of each computer.
const KEPT: [&str; 2] = ["etc/apt/sources.list.d", "etc/hosts"];

/// The script. It needs `apt-get` with the image's own package sources.
pub(in super::super) static DESKTOP: LazyLock<String> = LazyLock::new(script);

fn script() -> String {
    let mut script = String::from(
        "command -v apt-get >/dev/null || { echo 'the image has no apt-get' >&2; exit 1; }\n\
         mkdir -p /tmp/hotdesk-build /etc/dpkg/dpkg.cfg.d\n",
    );
    for (name, text) in PARTS {
        write(&mut script, &format!("/tmp/hotdesk-build/{name}"), text.as_bytes());
    }
    script.push_str("grep -v '^#' /tmp/hotdesk-build/dpkg-excludes >/etc/dpkg/dpkg.cfg.d/hotdesk-slim\n");
    script.push_str(&format!(
        "export DEBIAN_FRONTEND=noninteractive\n\
         apt-get -q update\n\
         found=()\n\
         for package in {}; do\n\
         if apt-cache show --no-all-versions $package >/dev/null 2>&1; then found+=($package)\n\
         else echo \"$package is not in this distribution and is left out\"; fi\n\
         done\n\
         apt-get -qy -o Dpkg::Options::=--force-confold install --no-install-recommends -- \"${{found[@]}}\"\n\
         for program in Xvnc openbox python3; do\n\
         command -v $program >/dev/null || {{ echo \"$program cannot be installed from the package sources of the image\" >&2; exit 1; }}\n\
         done\n",
        packages().join(" ")
    ));
    write_files(&mut script, &FILES);
    // Other distributions have other installers of Python, whose byte code need not be removed.
    script.push_str(
        "sed -i '/^find .*dist-packages/s/$/ || true/' /tmp/hotdesk-build/setup\n\
         HOTDESK_VARIANT=small bash /tmp/hotdesk-build/setup\n",
    );
    script
}

/// The packages of the small guest image.
fn packages() -> Vec<&'static str> {
    let lines = PACKAGES.lines().filter_map(|line| line.split('#').next());
    lines.flat_map(str::split_whitespace).chain(PYTHON_BUILD).collect()
}

fn write_files(script: &mut String, folder: &Dir<'_>) {
    for file in folder.files() {
        if !KEPT.iter().any(|kept| file.path().starts_with(kept)) {
            let path = Path::new("/").join(file.path()).display().to_string();
            write(script, &path, file.contents());
            if file.path().starts_with(PROGRAMS) {
                script.push_str(&format!("chmod 755 '{path}'\n"));
            }
        }
    }
    folder.dirs().for_each(|inner| write_files(script, inner));
}

/// Adds the lines that write a file. The names are those of the source tree.
fn write(script: &mut String, path: &str, content: &[u8]) {
    let folder = Path::new(path).parent().unwrap_or(Path::new("/")).display();
    let content = STANDARD.encode(content);
    script.push_str(&format!("mkdir -p '{folder}'\nbase64 -d >'{path}' <<'END'\n{content}\nEND\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_the_packages_and_the_settings_of_the_guest_image() {
        for package in ["tigervnc-standalone-server", "openbox", "s6"] {
            assert!(packages().contains(&package), "{package}");
        }
        assert!(packages().iter().all(|package| !package.contains(['#', '\'', '$', ';'])));
        for path in ["/usr/local/bin/mousepad", "/etc/xdg/libfm/libfm.conf", "/tmp/hotdesk-build/setup"] {
            assert!(DESKTOP.contains(&format!(">'{path}' <<")), "{path}");
        }
        for kept in KEPT {
            assert!(FILES.contains(kept), "{kept}");
            assert!(!DESKTOP.contains(kept), "{kept}");
        }
    }
}
