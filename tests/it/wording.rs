//! Rules of names and prose in the source tree (CONTRIBUTING.md, "Writing rules").

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::floors::{code, root, rust_files};

/// Question words and irregular participles that no type is called by: a type is a noun.
const NO_NOUNS: [&str; 73] = [
    "How",
    "Which",
    "What",
    "Who",
    "Where",
    "When",
    "Why",
    "Whose",
    "Whom",
    "Told",
    "Kept",
    "Said",
    "Held",
    "Made",
    "Left",
    "Sent",
    "Heard",
    "Meant",
    "Done",
    "Gone",
    "Begun",
    "Brought",
    "Written",
    "Shown",
    "Drawn",
    "Put",
    "Seen",
    "Found",
    "Known",
    "Taken",
    "Given",
    "Chosen",
    "Lost",
    "Spent",
    "Bound",
    "Sold",
    "Borne",
    "Fed",
    "Led",
    "Met",
    "Paid",
    "Hidden",
    "Broken",
    "Driven",
    "Frozen",
    "Got",
    "Caught",
    "Bought",
    "Felt",
    "Thrown",
    "Worn",
    "Woken",
    "Understood",
    "Come",
    "Become",
    "Grown",
    "Hung",
    "Laid",
    "Lent",
    "Meaning",
    "Noting",
    "Posted",
    "Shut",
    "Slept",
    "Sought",
    "Spoken",
    "Spun",
    "Stood",
    "Stuck",
    "Struck",
    "Swept",
    "Thought",
    "Won",
];
/// Nouns that end like a participle.
const NOUNS: [&str; 21] = [
    "Feed",
    "Seed",
    "Speed",
    "Recording",
    "Setting",
    "Listing",
    "Billing",
    "Timing",
    "Mapping",
    "Binding",
    "Encoding",
    "Padding",
    "Ping",
    "Ring",
    "Heading",
    "Warning",
    "String",
    "Finding",
    "Streaming",
    "Bed",
    "Spacing",
];
/// Public types of one role in each file that has them: fields of a command line, commands, rows of a table.
const ROLES: [&str; 3] = ["Command", "Options", "Row"];
/// Words with which a sentence or a clause begins, and no noun phrase.
const NO_PHRASES: [&str; 5] = ["What", "Who", "Which", "Whether", "Everything"];
/// Files outside of the repository that comments once cited: a reader cannot open them.
const OUTSIDE: [&str; 4] = ["wire.md", "threats.md", "interface.md", "access.md"];

/// Whether a type's name is a bare participle or question word.
fn is_bare(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(|c| c.is_ascii_lowercase());
    let like_a_participle = name.ends_with("ed") || name.ends_with("ing");
    is_one_word && (NO_NOUNS.contains(&name) || (like_a_participle && !NOUNS.contains(&name)))
}

/// The name that a line of code gives to a type or constant behind one of these words.
fn declared<'a>(line: &'a str, words: &[&str]) -> Option<&'a str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public.trim_start();
        if let Some(inside) = rest.strip_prefix('(') {
            rest = inside.split_once(')')?.1.trim_start();
        }
    }
    let (word, rest) = rest.split_once(' ')?;
    let name = rest.trim_start();
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    words.contains(&word).then_some(&name[..end])
}

/// Every file of the sources and tests with its text.
fn sources() -> Vec<(String, String)> {
    let folders = ["src", "tests", "benches"];
    let files = folders.iter().flat_map(|folder| rust_files(&root().join(folder)));
    files
        .map(|path| {
            let inside = path.strip_prefix(root()).expect("inside").display().to_string();
            (inside, fs::read_to_string(&path).expect("a readable source"))
        })
        .collect()
}

#[test]
fn types_are_nouns_and_no_constant_is_a_patience() {
    let mut wrong = Vec::new();
    for (file, source) in sources() {
        for line in code(&source) {
            if let Some(name) =
                declared(line, &["struct", "enum", "trait", "type"]).filter(|name| is_bare(name))
            {
                wrong.push(format!("{file}: type {name}"));
            }
            if let Some(name) = declared(line, &["const", "static"]).filter(|name| name.ends_with("PATIENCE"))
            {
                wrong.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "names that do not say what the thing is:\n{}", wrong.join("\n"));
}

#[test]
fn the_first_line_of_each_file_says_what_is_in_it() {
    let mut wrong = Vec::new();
    for (file, source) in sources() {
        let first = source.lines().next().unwrap_or_default();
        let text = first.strip_prefix("//! ").unwrap_or_default();
        // The first sentence may go on in the next line.
        let header: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).collect();
        let opening = header.split(|line| line.trim().is_empty()).next().unwrap_or_default().join("");
        let ends = opening.trim_end().ends_with(['.', ':']);
        // A `?` inside of a word begins the query of a path.
        let asks = opening.split_whitespace().any(|word| word.ends_with('?'));
        let is_clause = text.split_whitespace().next().is_some_and(|word| NO_PHRASES.contains(&word));
        if text.is_empty() || asks || is_clause || !ends {
            wrong.push(format!("{file}: {first}"));
        }
    }
    assert!(wrong.is_empty(), "first lines that are not a noun phrase:\n{}", wrong.join("\n"));
}

#[test]
fn no_crate_has_two_public_types_of_one_name() {
    let mut files = BTreeMap::<(String, String), BTreeSet<String>>::new();
    for (file, source) in sources() {
        let Some(name) = file.strip_prefix("src/").and_then(|rest| Some(rest.split_once('/')?.0)) else {
            continue;
        };
        let public = code(&source).filter(|line| line.trim_start().starts_with("pub "));
        let names = public.filter_map(|line| declared(line, &["struct", "enum", "trait", "type"]));
        // A macro's parameter is no name.
        for found in names.filter(|name| !name.is_empty()) {
            files.entry((name.to_owned(), found.to_owned())).or_default().insert(file.clone());
        }
    }
    files.retain(|(_, name), files| files.len() > 1 && !ROLES.contains(&name.as_str()));
    assert!(files.is_empty(), "public types of one name: {files:#?}");
}

#[test]
fn nothing_cites_files_outside_of_the_repository() {
    let own = "tests/it/wording.rs";
    let mut wrong = Vec::new();
    for (file, source) in sources().into_iter().filter(|(file, _)| file != own) {
        for (number, line) in source.lines().enumerate() {
            if OUTSIDE.iter().any(|outside| line.contains(outside)) {
                wrong.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "citations that a reader cannot follow:\n{}", wrong.join("\n"));
}

#[test]
fn the_rules_find_what_they_forbid() {
    for name in ["Told", "Kept", "Which", "Spooled", "Noting", "Beginning"] {
        assert!(is_bare(name), "{name}");
    }
    for name in ["Recording", "Speed", "SavedState", "Feed", "RequestLease", "Settings"] {
        assert!(!is_bare(name), "{name}");
    }
    let types = ["struct", "type"];
    assert_eq!(declared("    pub(in crate::display) struct Told<'a> {", &types), Some("Told"));
    assert_eq!(declared("pub type Kept = u8;", &types), Some("Kept"));
    assert_eq!(declared("let structure = 1;", &types), None);
}
