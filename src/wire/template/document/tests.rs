//! Documents that are read, and those that are refused where they are wrong.

use hotdesk_domain::computer::template::bounds::{
    MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_ENTRIES, MAX_ERRORS, MAX_NODES,
};

use super::*;

fn root(text: &str) -> NodeValue {
    let (node, errors) = read(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert_eq!(errors.finish(), []);
    node.value
}

fn refused(text: &str) -> (String, u32, u32) {
    let error = read(text).expect_err(text);
    (error.code, error.line, error.column)
}

#[test]
fn scalars_are_those_of_the_core_schema() {
    for text in ["no", "yes", "on", "1.2.3", "1_000", "inf", ".", "+", "0o8", "0x", "1e", "12:30", "\"1\""] {
        let found = root(&format!("[{text}]"));
        let NodeValue::List(nodes) = found else { panic!("{found:?}") };
        assert!(matches!(nodes[0].value, NodeValue::Text(_)), "{text}: {nodes:?}");
    }
    for text in ["1", "-1", "+1", "1.5", ".5", "1.", "1e3", "0x1f", "0o17", "0644"] {
        assert_eq!(root(text), NodeValue::Number(text.into()));
    }
    for (text, value) in [("true", true), ("False", false)] {
        assert_eq!(root(text), NodeValue::Flag(value, text.into()));
    }
    for text in ["~", "null", "!!str null"] {
        let expected = if text.starts_with('!') { NodeValue::Text("null".into()) } else { NodeValue::Null };
        assert_eq!(root(text), expected);
    }
}

#[test]
fn json_is_read_as_json() {
    for text in [
        "{\"a\": [1, true, null, \"x\"], \"b\": {\"c\": \"\\ud83d\\ude00 \\/ \\u00e4\\n\"}}",
        "{\n\t\"a\": [\n\t\t1,\n\t\ttrue,\n\t\tnull,\n\t\t\"x\"\n\t],\n\t\"b\": {\"c\":\"😀 / ä\\n\"}\n}",
        "{\"a\":[1,true,null,\"x\"],\"b\":{\"c\":\"😀 / ä\\n\"}}",
    ] {
        let NodeValue::Map(entries) = root(text) else { panic!("{text}") };
        let NodeValue::List(list) = &entries[0].node.value else { panic!("{text}") };
        let values: Vec<&NodeValue> = list.iter().map(|node| &node.value).collect();
        assert_eq!(
            values,
            [
                &NodeValue::Number("1".into()),
                &NodeValue::Flag(true, "true".into()),
                &NodeValue::Null,
                &NodeValue::Text("x".into())
            ]
        );
        let NodeValue::Map(inner) = &entries[1].node.value else { panic!("{text}") };
        assert_eq!(inner[0].node.value, NodeValue::Text("😀 / ä\n".into()));
    }
}

#[test]
fn positions_are_those_of_the_text() {
    let (node, _) = read("a: 1\nb:\n  - ä: x\n").unwrap();
    let NodeValue::Map(entries) = &node.value else { panic!("{node:?}") };
    let NodeValue::List(list) = &entries[1].node.value else { panic!("{node:?}") };
    let NodeValue::Map(inner) = &list[0].value else { panic!("{node:?}") };
    assert_eq!(entries[1].position, Position { line: 2, column: 1 });
    assert_eq!(inner[0].position, Position { line: 3, column: 5 });
    assert_eq!(inner[0].node.position, Position { line: 3, column: 8 });
}

#[test]
fn wrong_documents_are_refused_where_they_are_wrong() {
    for (text, code, line) in [
        ("", "syntax", 1),
        ("# only a comment\n", "syntax", 1),
        ("a: [1\n", "syntax", 1),
        ("a: 1\n---\nb: 2\n", "syntax", 2),
        ("a: *b\n", "syntax", 1),
        ("a: &b [*b]\n", "syntax", 1),
        ("? [a]\n: b\n", "syntax", 1),
        ("a: !secret b\n", "unsupported", 1),
        ("a: !!binary b\n", "unsupported", 1),
        ("a: !!str {b: c}\n", "unsupported", 1),
        ("a: !!str [b]\n", "unsupported", 1),
        ("a:\n\tb: 1\n", "syntax", 2),
    ] {
        let (found, at, _) = refused(text);
        assert_eq!((&*found, at), (code, line), "{text:?}");
    }
}

#[test]
fn tags_are_shown_escaped_and_in_part() {
    for tag in ["!%1b%5b31m".to_owned(), format!("!{}", "x".repeat(100_000))] {
        let message = read(&format!("a: {tag} b\n")).expect_err(&tag).message;
        assert!(message.len() < 200 && !message.contains(char::is_control), "{message}");
    }
}

#[test]
fn errors_are_small_whatever_the_keys_are() {
    let key = "k".repeat(MAX_DOCUMENT_BYTES * 3 / 4);
    // Errors of control characters, and of keys that are there twice.
    let items = ["\"\\a\",".repeat(20_000), "{a: 1, a: 2},".repeat(9_000)];
    for items in items {
        let (_, errors) = read(&format!("? {key}\n: [{items}]\n")).expect("a document");
        let errors = errors.finish();
        assert_eq!(errors.len(), MAX_ERRORS + 1);
        let longest = errors.iter().map(|error| error.sentence().len()).max();
        assert!(longest < Some(500), "{longest:?}");
    }
}

#[test]
fn a_key_that_is_there_twice_is_an_error_and_the_first_counts() {
    let (node, errors) = read("a:\n  - b: 1\n    b: 2\n").unwrap();
    let NodeValue::Map(entries) = node.value else { panic!() };
    assert_eq!(entries.len(), 1);
    let errors = errors.finish();
    let found: Vec<_> = errors.iter().map(|e| (&*e.field, &*e.code, e.line, e.column)).collect();
    assert_eq!(found, [("a[0].b", "duplicate", 3, 5)]);
}

#[test]
fn aliases_repeat_values_within_bounds() {
    let NodeValue::List(nodes) = root("[&a 1, *a]") else { panic!("a list") };
    assert_eq!(nodes[0], nodes[1], "with the position of the original");
    let mut laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (from, to) in ["ab", "bc", "cd", "de", "ef", "fg", "gh", "hi"].map(|pair| pair.split_at(1)) {
        laughs += &format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 9].join(","));
    }
    assert_eq!(refused(&laughs).0, "too_large");
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(MAX_DOCUMENT_BYTES / 4), "*a,*a,*a,*a");
    assert_eq!(refused(&long).0, "too_large");
    // Each alias adds a level, though the text stays flat.
    let mut chain = "a0: &a0 x\n".to_owned();
    (1..=MAX_DEPTH).for_each(|n| chain += &format!("a{n}: &a{n} [*a{}]\n", n - 1));
    assert_eq!(refused(&chain).0, "too_large");
}

#[test]
fn deep_and_wide_documents_are_refused() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert!(read(&nested(MAX_DEPTH - 1)).is_ok());
        assert_eq!(refused(&nested(MAX_DEPTH)).0, "too_large");
        assert_eq!(refused(&nested(10_000)).0, "too_large");
    }
    assert_eq!(refused(&"- ".repeat(10_000)).0, "too_large");
    assert_eq!(refused(&format!("[{}]", "1,".repeat(MAX_NODES))).0, "too_large");
    let map = |count: usize| (0..count).map(|n| format!("k{n}: 1\n")).collect::<String>();
    assert!(read(&map(MAX_ENTRIES)).is_ok());
    assert_eq!(refused(&map(MAX_ENTRIES + 1)).0, "too_large");
}
