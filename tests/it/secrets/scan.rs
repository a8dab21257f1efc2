//! Scan of all tracked files with `detect-secrets`; every finding must have been reviewed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use hotdesk::controller::identity::auth::keys;
use serde_json::Value;

use crate::clients::python;
use crate::harness::capability::Capability;

/// Reviewed findings: the file, the SHA-1 of the text, and the reason. The scanner's own baseline has no
/// place for reasons, and has line numbers, which change with every edit.
const REVIEWED: &str = include_str!("reviewed.txt");

/// The scanner's findings in the tracked files of a folder: `FILE SHA-1`, and the line and the kind for
/// people.
///
/// The scan includes lines with an allowlist comment, and contacts no service (`--no-verify`).
fn hits(python: &Path, root: &Path) -> BTreeSet<(String, String)> {
    let listed = Command::new("git")
        // Another user may own the tree.
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(root)
        .output()
        .expect("git is installed");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).expect("names in UTF-8");
    let files: Vec<&str> = listed.split_terminator('\0').collect();
    assert!(!files.is_empty(), "git tracks nothing in {}", root.display());
    let ran = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/scan_secrets.py"))
        .args([
            "scan",
            "--no-verify",
            "--disable-filter",
            "detect_secrets.filters.allowlist.is_line_allowlisted",
        ])
        .args(files)
        .current_dir(root)
        .env("PYTHONUTF8", "1")
        .output()
        .expect("the scanner");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    let report: Value = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error} in {output}"));
    let found = report["results"].as_object().expect("results");
    let all = found
        .iter()
        .flat_map(|(file, hits)| hits.as_array().into_iter().flatten().map(move |hit| (file, hit)));
    all.map(|(file, hit)| {
        let hash = hit["hashed_secret"].as_str().expect("a hash");
        (format!("{file} {hash}"), format!("line {}, {}", hit["line_number"], hit["type"]))
    })
    .collect()
}

/// The Python of the tests, if it has the scanner.
fn python_with_scanner() -> Option<std::path::PathBuf> {
    let found = python().filter(|python| python.with_file_name("detect-secrets").exists());
    if found.is_none() {
        Capability::Python.skip("no detect-secrets (make deps-test)");
    }
    found
}

#[test]
fn t24_no_tracked_file_holds_a_secret_that_was_not_reviewed() {
    let Some(python) = python_with_scanner() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join(".git").exists() {
        return Capability::Host.skip("not a git checkout");
    }
    let hits = hits(&python, root);
    let lines = REVIEWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let reviewed: BTreeSet<String> = lines
        .map(|line| match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            [file, hash, reason] if !reason.trim().is_empty() => format!("{file} {hash}"),
            _ => panic!("no file, hash and reason in {line:?}"),
        })
        .collect();
    let new: Vec<_> = hits.iter().filter(|(hit, _)| !reviewed.contains(hit)).collect();
    assert!(new.is_empty(), "review these findings, and add the reasons to reviewed.txt: {new:#?}");
    let stale: Vec<_> = reviewed.iter().filter(|entry| !hits.iter().any(|(hit, _)| hit == *entry)).collect();
    assert!(stale.is_empty(), "reviewed but no longer found: {stale:#?}");
}

#[test]
fn t24_a_key_that_somebody_adds_is_found() {
    let Some(python) = python_with_scanner() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let git = |arguments: &[&str]| {
        let ran = Command::new("git").args(arguments).current_dir(folder.path()).output().expect("git");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    git(&["init", "--quiet"]);
    write("harmless.rs", "const GREETING: &str = \"hello\";\n");
    git(&["add", "--all"]);
    assert!(hits(&python, folder.path()).is_empty());
    // Typical places of leaked keys. They are assembled here, because the scan would find them in this file
    // otherwise.
    let key = keys::generate();
    let header = ["-----BEGIN RSA PRIVATE", "KEY-----"].join(" ");
    write("notes.md", &format!("Use {} for the demo.\n", key.reveal()));
    write("main.rs", &format!("const KEY: &str = \"{}\"; // pragma: allowlist secret\n", key.reveal()));
    write("deploy.env", &format!("AWS_ACCESS_KEY_ID=AKIA{}\n", "Q3EGXJ7Z5N2WV4TB"));
    write("server.pem", &format!("{header}\nMIIE\n"));
    git(&["add", "--all"]);
    // The scan skips untracked files.
    write("untracked.md", &format!("{}\n", key.reveal()));
    let found: BTreeSet<String> = hits(&python, folder.path())
        .into_iter()
        .map(|(hit, _)| hit.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(found, ["deploy.env", "main.rs", "notes.md", "server.pem"].map(str::to_owned).into());
}
