//! Does every module import only lower floors? Inside one crate the compiler does not hold this, so this test reads
//! the source text.

use std::fs;
use std::path::{Path, PathBuf};

/// The floors of `src/lib.rs`; `main.rs` stands above them all.
const FLOORS: [(&str, u8); 11] = [
    ("base", 0),
    ("domain", 1),
    ("wire", 2),
    ("http", 3),
    ("engine", 4),
    ("store", 4),
    ("guest", 4),
    ("objects", 4),
    ("agent", 5),
    ("controller", 6),
    ("cli", 7),
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("source folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

/// Whether a module on one floor may use another module.
fn may_use(user: &str, used: &str) -> bool {
    let (Some(from), Some(to)) = (floor(user), floor(used)) else { return true };
    user == used || (to < from && !(user == "controller" && used == "agent"))
}

/// The modules that a file names behind `crate::`, also in a braced list.
fn used_modules(source: &str) -> Vec<String> {
    let code: String = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut used = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let names = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default().split(',').collect(),
            None => vec![rest],
        };
        for name in names {
            let word = name
                .trim_start()
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            used.push(word.to_owned());
        }
    }
    used
}

#[test]
fn every_module_imports_only_lower_floors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    assert!(files.len() > 20, "the walk found only {} files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).expect("inside src");
        let user =
            inside.components().next().expect("a first part").as_os_str().to_string_lossy().into_owned();
        if floor(&user).is_none() {
            assert!(["lib.rs", "main.rs"].contains(&user.as_str()), "{user} has no floor");
            continue;
        }
        let source = fs::read_to_string(&file).expect("readable source");
        for used in used_modules(&source).iter().filter(|used| !may_use(&user, used)) {
            wrong.push(format!("{} uses {used}", inside.display()));
        }
    }
    assert!(wrong.is_empty(), "imports that climb or cross:\n{}", wrong.join("\n"));
}

#[test]
fn the_walk_sees_braced_imports_and_forbids_what_it_should() {
    assert_eq!(
        used_modules("use crate::{base::ids, store::Store};\ncrate::wire::x();"),
        ["base", "store", "wire"]
    );
    for (user, used) in
        [("agent", "controller"), ("controller", "agent"), ("engine", "store"), ("base", "domain")]
    {
        assert!(!may_use(user, used), "{user} -> {used}");
    }
    assert!(may_use("controller", "store") && may_use("cli", "agent"));
}
