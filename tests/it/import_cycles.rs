//! Check for import cycles between the modules of a folder.
//!
//! The compiler keeps cycles out between crates, not inside of one. A module stands for its whole folder, and
//! uses between a module and its own submodules do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::floors::{code, root, rust_files};

/// Names of a module and its ancestors below the crate, the outermost first; empty for the crate itself.
type ModulePath = Vec<String>;

/// For each folder, the modules of the folder that each of its modules uses.
type Uses = BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>>;

/// The modules of a crate and their source. Test modules are left out: they may use anything.
fn modules(folder: &Path) -> BTreeMap<ModulePath, String> {
    let mut all = BTreeMap::new();
    for file in rust_files(folder) {
        let inside = file.strip_prefix(folder).expect("inside the crate").with_extension("");
        let mut path: ModulePath = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if path.last().is_some_and(|name| name == "tests") {
            continue;
        }
        path.pop_if(|name| ["lib", "mod"].contains(&name.as_str()));
        all.insert(path, fs::read_to_string(&file).expect("a readable source"));
    }
    all
}

/// Reads the path or use tree at the beginning of a text, adds its paths to `found`, and returns the rest.
fn read_tree<'a>(text: &'a str, prefix: &[String], found: &mut Vec<ModulePath>) -> &'a str {
    let (mut path, mut rest) = (prefix.to_vec(), text.trim_start());
    loop {
        if let Some(mut list) = rest.strip_prefix('{') {
            loop {
                list = read_tree(list, &path, found);
                // What remains before the separator is a renaming (`as`).
                let Some(end) = list.find([',', '}']) else { return "" };
                let is_last = list[end..].starts_with('}');
                list = &list[end + 1..];
                if is_last {
                    return list;
                }
            }
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        path.extend((end > 0).then(|| rest[..end].to_owned()));
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) if end > 0 => rest = next.trim_start(),
            Some(_) | None => {
                found.push(path);
                return rest;
            }
        }
    }
}

/// The paths in a source that begin with `crate`, `super` or `self`, in imports and elsewhere.
fn paths(source: &str) -> Vec<ModulePath> {
    let end = source.find("#[cfg(test)]\nmod tests").unwrap_or(source.len());
    let text = code(&source[..end]).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            if !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                read_tree(&text[at..], &[], &mut found);
            }
        }
    }
    found
}

/// The absolute form of a path that occurs in a module.
fn absolute(path: &[String], module: &[String]) -> ModulePath {
    let mut base = if path.first().is_some_and(|name| name == "crate") { &[] } else { module };
    let mut rest = path;
    while let Some((name, next)) =
        rest.split_first().filter(|(name, _)| ["crate", "super", "self"].contains(&name.as_str()))
    {
        if name == "super" {
            base = base.split_last().map_or(&[], |(_, parent)| parent);
        }
        rest = next;
    }
    [base, rest].concat()
}

fn uses(modules: &BTreeMap<ModulePath, String>) -> Uses {
    let mut all = Uses::new();
    for (module, source) in modules {
        for path in paths(source) {
            let mut used = absolute(&path, module);
            while !used.is_empty() && !modules.contains_key(&used) {
                used.pop();
            }
            let common = module.iter().zip(&used).take_while(|(one, other)| one == other).count();
            if let (Some(user), Some(used)) = (module.get(common), used.get(common)) {
                let folder = all.entry(module[..common].to_vec()).or_default();
                folder.entry(user.clone()).or_default().insert(used.clone());
            }
        }
    }
    all
}

/// The modules that a module uses, directly or through others.
fn reachable(from: &str, uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let (mut all, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        open.extend(
            uses.get(&module).into_iter().flatten().filter(|used| all.insert((*used).clone())).cloned(),
        );
    }
    all
}

/// The cycles of a crate in a folder of this name, one line each: the folder and the modules that reach each
/// other.
fn cycles(name: &str, modules: &BTreeMap<ModulePath, String>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (folder, uses) in uses(modules) {
        for module in uses.keys() {
            let reached = reachable(module, &uses);
            if reached.contains(module) {
                let back = reached.into_iter().filter(|other| reachable(other, &uses).contains(module));
                let place = [&[name.to_owned()], folder.as_slice()].concat().join("/");
                all.insert(format!("{place}: {}", back.collect::<Vec<_>>().join(" ")));
            }
        }
    }
    all
}

#[test]
fn the_modules_of_a_folder_have_no_import_cycle() {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(root().join("src")).expect("a source folder").flatten() {
        if entry.path().join("Cargo.toml").is_file() {
            let name = format!("src/{}", entry.file_name().display());
            wrong.extend(cycles(&name, &modules(&entry.path())));
        }
    }
    assert!(wrong.is_empty(), "import cycles:\n{}", wrong.join("\n"));
}

#[test]
fn the_walk_finds_a_cycle_through_every_form_of_use() {
    let found = |sources: &[(&str, &str)]| {
        let module =
            |path: &str| path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        cycles("x", &sources.iter().map(|(path, source)| (module(path), (*source).to_owned())).collect())
    };
    let tree = ("a", "use crate::{\n    b::{self as other, Thing},\n    d,\n};");
    for back in
        ["use super::a::Other;", "fn f() { crate::a::g(); }", "use crate::a::{self};", "use super::{c, a};"]
    {
        assert_eq!(
            found(&[("", ""), tree, ("b", back), ("c", ""), ("d", "")]),
            [String::from("x: a b")].into()
        );
    }
    // Through a third module, from below one of them.
    let below =
        [("", ""), ("a", "use super::b;"), ("b", ""), ("b/x", "use crate::c::C;"), ("c", "use crate::a::A;")];
    assert_eq!(found(&below), [String::from("x: a b c")].into());
    let deep = [("", ""), ("a", ""), ("a/x", "use super::y;"), ("a/y", "use crate::a::x;")];
    assert_eq!(found(&deep), [String::from("x/a: x y")].into());
    for back in [
        "// use super::a::Other;",
        "#[cfg(test)]\nmod tests {\n    use crate::a;\n}",
        "use hotdesk_a::crate::a;",
        "",
    ] {
        assert!(found(&[("", ""), tree, ("b", back), ("d", "")]).is_empty(), "{back}");
    }
    let child = [("", "use a::x;"), ("a", "use self::x::X;"), ("a/x", "use super::Y; use crate::a::Z;")];
    assert!(found(&child).is_empty(), "a module and its own submodule");
}
