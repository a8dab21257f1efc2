//! Supply chain (T30, docs/security.md): bill of materials, signed checksums, and packages that can be built again to the byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::floors::root;
use crate::harness::capability::Capability;
use crate::harness::program::program;
use crate::packages::succeed;

/// A fixed time of the sources: 2026-01-01.
const SOURCE_DATE: &str = "1767225600";

/// Checks a file against CycloneDX's schema with CycloneDX's own library.
const VALIDATE: &str = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(str(wrong) if wrong else 0)
";

/// The Python with the tools of the supply chain. Where there is none, prints the reason and returns `None`.
fn python() -> Option<PathBuf> {
    let cache = std::env::var("HOTDESK_CACHE").unwrap_or_else(|_| "/var/cache/hotdesk".to_owned());
    let python = Path::new(&cache).join("venv-supply/bin/python");
    if !python.exists() {
        Capability::Python
            .skip(format_args!("{} does not exist (packaging/dev/deps test)", python.display()));
        return None;
    }
    Some(python)
}

#[test]
fn t30_the_bill_of_materials_fits_the_schema_and_lists_what_is_compiled_in() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let bill = |name: &str| {
        let file = folder.path().join(name);
        let mut command = Command::new(&python);
        command.arg(root().join("packaging/sbom")).arg(&file).env("SOURCE_DATE_EPOCH", SOURCE_DATE);
        succeed(&mut command);
        fs::read_to_string(&file).expect("a bill")
    };
    let text = bill("first.json");
    succeed(Command::new(&python).args(["-c", VALIDATE]).arg(folder.path().join("first.json")));
    assert_eq!(text, bill("second.json"), "the same sources make the same bill");

    let bill: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(bill["metadata"]["timestamp"], "2026-01-01T00:00:00+00:00");
    assert_eq!(bill["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));
    let components = bill["components"].as_array().expect("components");
    let find = |name: &str| components.iter().find(|component| component["name"] == name);
    let lock: toml::Table =
        fs::read_to_string(root().join("Cargo.lock")).expect("a lock").parse().expect("TOML");
    let locked = lock["package"].as_array().expect("packages");
    for name in ["hyper", "ring", "libsqlite3-sys", "turbojpeg-sys"] {
        let found = find(name).unwrap_or_else(|| panic!("{name} is compiled in and must be listed"));
        assert_eq!(found["scope"], "required", "{found}");
        let checksum = found["hashes"][0]["content"].as_str().expect("a checksum");
        let is_locked = |package: &toml::Value| {
            package["name"].as_str() == Some(name)
                && package.get("checksum").and_then(toml::Value::as_str) == Some(checksum)
        };
        assert!(locked.iter().any(is_locked), "{found}");
    }
    assert_eq!(find("cc").expect("the C compiler's driver")["scope"], "excluded");
    assert_eq!(find("novnc").expect("the viewer's library")["group"], "@novnc");
    for name in ["proptest", "dudect-bencher"] {
        assert!(find(name).is_none(), "{name} is for tests and must not be listed");
    }
    for component in components {
        assert!(component["licenses"][0].is_object(), "a licence is missing: {component}");
    }
    let uses = bill["dependencies"].as_array().expect("dependencies");
    let of_controller =
        uses.iter().find(|it| it["ref"].as_str().is_some_and(|name| name.starts_with("hotdesk-controller@")));
    let used = of_controller.expect("the controller")["dependsOn"].to_string();
    assert!(used.contains("hotdesk-store@") && used.contains("@novnc/novnc@"), "{used}");
}

/// The commands of docs/operating.md: `$1` the public key.
const VERIFY: &str = r#"
echo "release $(cat "$1")" >allowed_signers
ssh-keygen -q -Y verify -f allowed_signers -I release -n hotdesk-release -s SHA256SUMS.sig <SHA256SUMS &&
    sha256sum --check --quiet --ignore-missing SHA256SUMS
"#;

#[test]
fn t30_a_signed_list_of_checksums_shows_every_changed_byte() {
    if Command::new("ssh-keygen").arg("-?").output().is_err() {
        return Capability::Ssh.skip("ssh-keygen is not installed");
    }
    let keys = tempfile::tempdir().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let release = |name: &str| folder.path().join(name);
    let key = |name: &str| {
        let path = keys.path().join(name);
        let mut make = Command::new("ssh-keygen");
        succeed(make.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(&path));
        path
    };
    let (own, other) = (key("own"), key("other"));
    for name in ["hotdesk_1_amd64.deb", "hotdesk-1-amd64.tar.gz", "hotdesk_1_amd64.cdx.json"] {
        fs::write(release(name), name).expect("a file");
    }
    let checksums = || {
        let mut command = Command::new(root().join("packaging/checksums"));
        command.arg(folder.path()).env_remove("SIGNING_KEY");
        command
    };
    let is_genuine = |key: &Path| {
        let mut verify = Command::new("bash");
        verify.args(["-c", VERIFY, "verify"]).arg(key.with_extension("pub")).current_dir(folder.path());
        verify.output().expect("bash runs").status.success()
    };
    succeed(checksums().env("SIGNING_KEY", &own));
    assert!(is_genuine(&own), "what was signed is genuine");
    assert!(!is_genuine(&other), "another key did not sign it");
    for name in ["hotdesk_1_amd64.deb", "hotdesk-1-amd64.tar.gz", "hotdesk_1_amd64.cdx.json", "SHA256SUMS"] {
        let before = fs::read(release(name)).expect("a file");
        let mut changed = before.clone();
        changed[0] ^= 1;
        fs::write(release(name), &changed).expect("a file");
        assert!(!is_genuine(&own), "a changed byte of {name} must be noticed");
        fs::write(release(name), &before).expect("a file");
        assert!(is_genuine(&own), "{name} is as it was");
    }
    succeed(&mut checksums());
    assert!(!release("SHA256SUMS.sig").exists(), "the signature of an earlier list must not stay");
}

/// Packages the program by a copy of the build scripts in `folder`; returns the lines of checksums.
fn package_in(folder: &Path, mask: &str) -> String {
    let out = folder.join("out");
    let script = format!(
        "umask {mask}; mkdir -p {0}/packaging && cp -r {1}/packaging/. {0}/packaging && cp {1}/CHANGELOG.md {0} && \
         {0}/packaging/tarball/build \"$({0}/packaging/deb/build {2} {3})\" && {0}/packaging/checksums {3}",
        folder.display(),
        root().display(),
        program(),
        out.display(),
    );
    let mut command = Command::new("bash");
    command.args(["-e", "-c", &script]).env("SOURCE_DATE_EPOCH", SOURCE_DATE).env_remove("SIGNING_KEY");
    // Small packages are not what is tested.
    command.envs([("DPKG_DEB_COMPRESSOR_TYPE", "gzip"), ("DPKG_DEB_COMPRESSOR_LEVEL", "1"), ("GZIP", "-1")]);
    succeed(&mut command);
    fs::read_to_string(out.join("SHA256SUMS")).expect("checksums")
}

#[test]
fn t30_the_same_program_is_packaged_to_the_same_bytes_in_any_folder_and_at_any_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = package_in(&folder.path().join("a"), "022");
    let second = package_in(&folder.path().join("another/and/deeper").join("b"), "077");
    assert_eq!(first.lines().count(), 3, "two packages and an archive: {first}");
    assert_eq!(first, second);
}
