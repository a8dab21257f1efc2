//! YAML documents as trees with positions, within bounds. JSON is read by the same parser: it is YAML
//! (YAML 1.2.2, section 1.3).

use hotdesk_domain::computer::template::fault::quoted;
use hotdesk_domain::computer::template::name::MAX_NAME;

use super::answer::Position;

mod loader;
mod scalar;
#[cfg(test)]
mod tests;

pub use loader::read;

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
