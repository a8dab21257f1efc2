//! YAML documents as trees with positions, within bounds. JSON is read by the same parser: it is YAML
//! (YAML 1.2.2, section 1.3).

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Tag, options};
use hotdesk_domain::computer::template::bounds::{MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_ENTRIES, MAX_NODES};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, quoted};
use hotdesk_domain::computer::template::name::MAX_NAME;

use super::answer::{ErrorList, Position, TemplateError};

/// A value with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub position: Position,
    /// The value.
    pub value: NodeValue,
}

/// A value of a document, as the core schema of YAML resolves it (YAML 1.2.2, section 10.3).
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue {
    /// No value.
    Null,
    /// A truth value, with its text.
    Flag(bool, String),
    /// A number, as its text.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the document; no key is there twice.
    Map(Vec<NodeEntry>),
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeEntry {
    /// The key's text.
    pub key: String,
    /// Where the key begins.
    pub position: Position,
    /// The value.
    pub node: Node,
}

/// Longest name that a path has in full, in bytes: the longest valid name. A key of a document may be as long as the
/// document, and each of its errors has a path.
const MAX_PLAIN_NAME: usize = MAX_NAME;

/// The path of a field of an object.
pub fn field_path(object: &str, name: &str) -> String {
    let is_plain = (1..=MAX_PLAIN_NAME).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    match (is_plain, object.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{object}.{name}"),
        (false, _) => format!("{object}[{}]", quoted(name)),
    }
}

/// The path of an entry of a list.
pub fn entry_path(list: &str, index: usize) -> String {
    format!("{list}[{index}]")
}

/// Reads a document. The second value has the errors that do not end the reading: keys that are there twice,
/// and control characters.
///
/// # Errors
/// The error that ends the reading: `Syntax` for what is no YAML or no single document, `TooLarge` beyond a bound,
/// `Unsupported` for tags.
pub fn read(text: &str) -> Result<(Node, ErrorList), TemplateError> {
    let limits = options! {
        emit_comments: false,
        // Nesting that the loader below refuses by its depth.
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    };
    let mut loader = Loader::default();
    for event in Parser::new_from_str_with_options(text, limits) {
        let (event, span) = event.map_err(|error| loader.scan_error(&error))?;
        loader.take(event, position_of(&span.start))?;
    }
    match loader.root {
        Some(root) => Ok((root, loader.errors)),
        None => Err(TemplateError::new(
            "",
            Position::START,
            Fault::new(FaultCode::Syntax, "the document is empty"),
        )),
    }
}

fn position_of(marker: &Marker) -> Position {
    // A document is much shorter than the largest number.
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Position { line: number(marker.line().max(1)), column: number(marker.col() + 1) }
}

/// A list or a map whose end has not been read.
struct OpenNode {
    position: Position,
    anchor: usize,
    content: OpenContent,
}

enum OpenContent {
    List(Vec<Node>),
    /// With the key whose value is next.
    Map(Vec<NodeEntry>, Option<(String, Position)>),
}

/// What a node costs, with all nodes inside.
#[derive(Clone, Copy, Default)]
struct Cost {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

#[derive(Default)]
struct Loader {
    open: Vec<OpenNode>,
    anchors: HashMap<usize, (Node, Cost)>,
    root: Option<Node>,
    nodes: usize,
    bytes: usize,
    errors: ErrorList,
}

impl Loader {
    fn take(&mut self, event: Event<'_>, position: Position) -> Result<(), TemplateError> {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(self.refusal(position, Fault::new(FaultCode::Syntax, "there is more than one document")))
            }
            Event::DocumentStart(..) => Ok(()),
            Event::Scalar(text, style, anchor, tag) => {
                let as_text = self.check_tag(tag.as_deref(), true, position)?;
                self.spend(Cost { nodes: 1, bytes: text.len(), depth: 1 }, position)?;
                if !text.chars().all(is_printable) {
                    let message = "must not have control characters other than tabs and line breaks";
                    self.errors
                        .add(|| TemplateError::new(path_of(&self.open), position, Fault::invalid(message)));
                }
                let is_plain = style == ScalarStyle::Plain && !as_text;
                let value = if is_plain { resolve(&text) } else { NodeValue::Text(text.into_owned()) };
                self.complete(Node { position, value }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), false, position)?;
                self.enter(OpenNode { position, anchor, content: OpenContent::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), false, position)?;
                self.enter(OpenNode { position, anchor, content: OpenContent::Map(Vec::new(), None) })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                // The parser balances starts and ends.
                let Some(OpenNode { position, anchor, content }) = self.open.pop() else { return Ok(()) };
                let value = match content {
                    OpenContent::List(nodes) => NodeValue::List(nodes),
                    OpenContent::Map(entries, _) => NodeValue::Map(entries),
                };
                self.complete(Node { position, value }, anchor)
            }
            Event::Alias(anchor) => {
                let Some((node, cost)) = self.anchors.get(&anchor) else {
                    let fault =
                        Fault::new(FaultCode::Syntax, "an alias refers to the value that contains it");
                    return Err(self.refusal(position, fault));
                };
                let (node, cost) = (node.clone(), *cost);
                self.spend(cost, position)?;
                self.complete(node, 0)
            }
            // The options ask for none of these; a later version of the parser may have other events.
            Event::Anchor(..) | Event::UnresolvedAlias(_) | _ => {
                let fault = Fault::new(FaultCode::Unsupported, "has YAML that is not supported");
                Err(self.refusal(position, fault))
            }
        }
    }

    /// Whether the tag makes a scalar a text. Other tags have no meaning here.
    fn check_tag(
        &self,
        tag: Option<&Tag>,
        is_scalar: bool,
        position: Position,
    ) -> Result<bool, TemplateError> {
        match tag {
            None => Ok(false),
            Some(tag) if is_scalar && tag.core_suffix() == Some("str") => Ok(true),
            Some(tag) => {
                // Escapes in a tag are decoded, so it may have any characters.
                let tag = quoted(&format!("{}{}", tag.original_handle(), tag.suffix()));
                let message = format!("has the tag {tag}, and tags are not supported");
                Err(self.refusal(position, Fault::new(FaultCode::Unsupported, message).hint("remove it")))
            }
        }
    }

    fn enter(&mut self, node: OpenNode) -> Result<(), TemplateError> {
        self.spend(Cost { nodes: 1, bytes: 0, depth: 1 }, node.position)?;
        self.open.push(node);
        Ok(())
    }

    /// Counts a node, before it is made.
    fn spend(&mut self, cost: Cost, position: Position) -> Result<(), TemplateError> {
        self.nodes += cost.nodes;
        self.bytes += cost.bytes;
        let message = if self.open.len() + cost.depth > MAX_DEPTH {
            format!("a value is nested deeper than {MAX_DEPTH} levels")
        } else if self.nodes > MAX_NODES {
            format!("the document has more than {MAX_NODES} values, counting what aliases repeat")
        } else if self.bytes > MAX_DOCUMENT_BYTES {
            format!(
                "the document has more than {MAX_DOCUMENT_BYTES} bytes of text, counting what aliases repeat"
            )
        } else {
            return Ok(());
        };
        Err(self.refusal(position, Fault::new(FaultCode::TooLarge, message)))
    }

    /// Adds a complete node to what contains it.
    fn complete(&mut self, node: Node, anchor: usize) -> Result<(), TemplateError> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), cost_of(&node)));
        }
        let position = node.position;
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut parent.content {
            OpenContent::List(nodes) => nodes.push(node),
            OpenContent::Map(entries, _) if entries.len() >= MAX_ENTRIES => {
                // Each key is compared with those before it.
                let message = format!("a map has more than {MAX_ENTRIES} entries");
                return Err(self.refusal(position, Fault::new(FaultCode::TooLarge, message)));
            }
            OpenContent::Map(entries, pending) => match pending.take() {
                Some((key, position)) if entries.iter().any(|entry| entry.key == key) => {
                    self.errors.add(|| {
                        let path = field_path(&path_of(&self.open), &key);
                        let fault = Fault::new(FaultCode::Duplicate, "is there twice in one map");
                        TemplateError::new(path, position, fault)
                    });
                }
                Some((key, position)) => entries.push(NodeEntry { key, position, node }),
                None => {
                    let Some(key) = scalar_text(node.value) else {
                        let fault =
                            Fault::new(FaultCode::Syntax, "a key must be a text, not a list or a map");
                        return Err(self.refusal(position, fault));
                    };
                    *pending = Some((key, position));
                }
            },
        }
        Ok(())
    }

    fn refusal(&self, position: Position, fault: Fault) -> TemplateError {
        TemplateError::new(path_of(&self.open), position, fault)
    }

    fn scan_error(&self, error: &ScanError) -> TemplateError {
        let position = position_of(error.marker());
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            let message = format!("a value is nested deeper than {MAX_DEPTH} levels");
            return self.refusal(position, Fault::new(FaultCode::TooLarge, message));
        }
        let message = format!("the document is no YAML: {}", error.kind());
        TemplateError::new("", position, Fault::new(FaultCode::Syntax, message))
    }
}

/// The path of the value that is read next.
fn path_of(open: &[OpenNode]) -> String {
    open.iter().fold(String::new(), |path, node| match &node.content {
        OpenContent::List(nodes) => entry_path(&path, nodes.len()),
        OpenContent::Map(_, Some((key, _))) => field_path(&path, key),
        OpenContent::Map(_, None) => path,
    })
}

/// The cost of a node. Its recursion ends at the depth that the loader allows.
fn cost_of(node: &Node) -> Cost {
    let inside = |costs: &mut dyn Iterator<Item = Cost>, keys: usize| {
        costs.fold(Cost { nodes: 1, bytes: keys, depth: 1 }, |sum, cost| Cost {
            nodes: sum.nodes + cost.nodes,
            bytes: sum.bytes + cost.bytes,
            depth: sum.depth.max(cost.depth + 1),
        })
    };
    match &node.value {
        NodeValue::Null => Cost { nodes: 1, bytes: 0, depth: 1 },
        NodeValue::Flag(_, text) | NodeValue::Number(text) | NodeValue::Text(text) => {
            Cost { nodes: 1, bytes: text.len(), depth: 1 }
        }
        NodeValue::List(nodes) => inside(&mut nodes.iter().map(cost_of), 0),
        NodeValue::Map(entries) => {
            let keys = entries.iter().map(|entry| entry.key.len()).sum();
            let mut cost = inside(&mut entries.iter().map(|entry| cost_of(&entry.node)), keys);
            cost.nodes += entries.len();
            cost
        }
    }
}

/// The text of a scalar as it is written; `None` for a list or a map.
fn scalar_text(value: NodeValue) -> Option<String> {
    match value {
        NodeValue::Null => Some(String::new()),
        NodeValue::Flag(_, text) | NodeValue::Number(text) | NodeValue::Text(text) => Some(text),
        NodeValue::List(_) | NodeValue::Map(_) => None,
    }
}

/// Resolves a plain scalar (YAML 1.2.2, section 10.3.2): `no` is a text, and `0644` is the number 644.
fn resolve(text: &str) -> NodeValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeValue::Null,
        "true" | "True" | "TRUE" => NodeValue::Flag(true, text.to_owned()),
        "false" | "False" | "FALSE" => NodeValue::Flag(false, text.to_owned()),
        _ if is_number(text) => NodeValue::Number(text.to_owned()),
        _ => NodeValue::Text(text.to_owned()),
    }
}

/// Whether a document can have a character without an escape (YAML 1.2.2, section 5.1). Others are no part of scripts and
/// names, and the normalised document could not be read again.
fn is_printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

fn is_number(text: &str) -> bool {
    let all = |digits: &str, accept: fn(&u8) -> bool| {
        !digits.is_empty() && digits.bytes().all(|byte| accept(&byte))
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return all(digits, u8::is_ascii_hexdigit);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return all(digits, |byte| (b'0'..=b'7').contains(byte));
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    // `inf` and `nan` parse as well, and begin with a letter.
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && unsigned.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use hotdesk_domain::computer::template::bounds::MAX_ERRORS;

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
        for text in
            ["no", "yes", "on", "1.2.3", "1_000", "inf", ".", "+", "0o8", "0x", "1e", "12:30", "\"1\""]
        {
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
            let expected =
                if text.starts_with('!') { NodeValue::Text("null".into()) } else { NodeValue::Null };
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
}
