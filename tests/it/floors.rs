//! Rules of the source tree that the compiler does not hold: which folders use axum, SQL and X, how large a folder may
//! grow, and that skips of tests are counted.
//!
//! Which floor may use which is held by the crates' dependencies (ARCHITECTURE.md, "Floors").

use std::fs;
use std::path::{Path, PathBuf};

/// Most entries of a folder: more cannot be taken in at a glance.
const MAX_ENTRIES: usize = 15;

/// Libraries that only some folders may name, and those folders.
const LIBRARIES: [(&str, &[&str]); 3] = [
    (
        "axum",
        &[
            "src/http",
            "src/controller",
            "src/agent/routes",
            "src/agent/lib.rs",
            "src/guest",
            "src/engine/simulated",
        ],
    ),
    ("sqlx", &["src/store"]),
    ("x11rb", &["src/agent/display"]),
];

/// The folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below a folder, sorted.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a source folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A file's lines that are not comments.
pub fn code(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Whether a line of code names a crate: `axum::x`, but not `my_axum::x`.
fn names_crate(line: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(&format!("{name}::"))
        .any(|(at, _)| !line[..at].ends_with(|c: char| is_word(c) || c == ':'))
}

#[test]
fn only_the_named_folders_use_axum_sql_and_x() {
    let files = rust_files(&root().join("src"));
    assert!(files.len() > 500, "the walk found only {} files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let source = fs::read_to_string(&file).expect("a readable source");
        let inside = file.strip_prefix(root()).expect("inside the repository");
        for (library, folders) in LIBRARIES {
            let allowed = folders.iter().any(|folder| inside.starts_with(folder));
            if !allowed && code(&source).any(|line| names_crate(line, library)) {
                wrong.push(format!("{} names {library}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "libraries outside of their folders:\n{}", wrong.join("\n"));
}

/// The folder of libraries in other languages, which is no floor and does not count as an entry of `src`.
const CLIENTS: &str = "src/clients";
/// Folders that the build of the console makes.
const BUILT: [&str; 2] = ["node_modules", "dist"];

fn crowded(folder: &Path, wrong: &mut Vec<String>) {
    let below = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let is_source = |path: &PathBuf| !BUILT.iter().any(|built| path.ends_with(built));
    let entries: Vec<PathBuf> =
        below.filter(|path| *path != root().join(CLIENTS) && is_source(path)).collect();
    // A migration is never edited or moved, so their number only grows.
    if entries.len() > MAX_ENTRIES && !folder.ends_with("migrations") {
        wrong.push(format!("{}: {} entries", folder.display(), entries.len()));
    }
    entries.iter().filter(|path| path.is_dir()).for_each(|path| crowded(path, wrong));
}

#[test]
fn no_folder_of_the_source_has_more_entries_than_one_takes_in() {
    let mut wrong = Vec::new();
    crowded(&root().join("src"), &mut wrong);
    crowded(&root().join(CLIENTS), &mut wrong);
    assert!(wrong.is_empty(), "folders to group:\n{}", wrong.join("\n"));
}

#[test]
fn skips_are_counted() {
    let folders = ["src", "tests"].map(|folder| rust_files(&root().join(folder))).concat();
    let own = ["tests/capability/lib.rs", "tests/it/floors.rs"].map(|file| root().join(file));
    let others = folders.into_iter().filter(|file| !own.contains(file));
    let wrong: Vec<PathBuf> = others
        .filter(|file| fs::read_to_string(file).expect("a readable source").contains("println!(\"skipped"))
        .collect();
    assert!(wrong.is_empty(), "skips that no run counts (`Capability::skip`): {wrong:?}");
}

#[test]
fn the_walk_finds_what_it_forbids() {
    assert!(names_crate("use axum::Json;", "axum"));
    assert!(!names_crate("use my_axum::Json;", "axum") && !names_crate("use hotdesk::axum::Json;", "axum"));
}
