//! Loader of a document: it makes a tree of the parser's events, and counts what the tree costs.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Tag, options};
use hotdesk_domain::computer::template::bounds::{MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_ENTRIES, MAX_NODES};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, quoted};

use super::scalar::{is_printable, resolve};
use super::{Node, NodeEntry, NodeValue, entry_path, field_path};
use crate::template::answer::{ErrorList, Position, TemplateError};

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
