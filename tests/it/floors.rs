//! Rules of the source tree that the compiler does not hold: who may use axum, SQL and X, how large a folder may grow, and that
//! modules of a crate do not import each other in circles.
//!
//! Which floor may use which is held by the crates' dependencies (ARCHITECTURE.md, "Floors").

use std::collections::{BTreeMap, BTreeSet};
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

fn crowded(folder: &Path, wrong: &mut Vec<String>) {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
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
    assert!(wrong.is_empty(), "folders to group:\n{}", wrong.join("\n"));
}

/// The top-level modules of a crate and which of them each imports through `crate::`.
fn imports(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let module = |path: &Path| -> Option<String> {
        let first = path.strip_prefix(folder).ok()?.components().next()?;
        Some(first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned())
    };
    let files: Vec<(String, PathBuf)> =
        rust_files(folder).into_iter().filter_map(|path| Some((module(&path)?, path))).collect();
    let names: BTreeSet<&String> = files.iter().map(|(name, _)| name).collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, path) in &files {
        let source = fs::read_to_string(path).expect("a readable source");
        let code: String = code(&source).collect::<Vec<_>>().join("\n");
        for rest in code.split("crate::").skip(1) {
            let used: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if used != *name && names.contains(&used) {
                graph.entry(name.clone()).or_default().insert(used);
            }
        }
    }
    graph
}

/// A circle of imports, if there is one: a module, what it imports, and so on back to it.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        graph: &BTreeMap<String, BTreeSet<String>>,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        let here = path.last()?.clone();
        for next in graph.get(&here).into_iter().flatten() {
            if let Some(at) = path.iter().position(|name| name == next) {
                return Some(path[at..].to_vec());
            }
            if !done.contains(next) {
                path.push(next.clone());
                if let Some(found) = walk(graph, path, done) {
                    return Some(found);
                }
                path.pop();
            }
        }
        done.insert(here);
        None
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|name| walk(graph, &mut vec![name.clone()], &mut done))
}

#[test]
fn the_walks_find_what_they_forbid() {
    assert!(names_crate("use axum::Json;", "axum"));
    assert!(!names_crate("use my_axum::Json;", "axum") && !names_crate("use hotdesk::axum::Json;", "axum"));
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    };
    assert_eq!(circle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])).expect("a circle"), ["b", "c"]);
    assert_eq!(circle(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
}
