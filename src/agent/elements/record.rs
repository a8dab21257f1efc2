//! How does what is known of an element become its record?

use super::details::{Details, MOST_NAME};
use super::object::{Area, Node, cut};
use hotdesk_wire::element::Element;

/// What the kernel calls a process: one that does not answer cannot tell its name.
pub(super) fn process_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// What is around an element.
pub(super) struct Around {
    pub(super) parent: Option<String>,
    pub(super) window: String,
    pub(super) app: String,
    pub(super) pid: u32,
}

/// An element's record.
pub(super) fn record(
    id: String,
    node: &Node,
    area: Option<Area>,
    details: Details,
    around: Around,
) -> Element {
    let area = area.unwrap_or_default();
    let description = cut(&node.description, MOST_NAME);
    Element {
        id,
        mark: None,
        role: node.role.name().to_owned(),
        name: cut(&node.name, MOST_NAME),
        description: Some(description).filter(|text| !text.is_empty()),
        value: details.value,
        text: details.text,
        x: area.x,
        y: area.y,
        width: area.width,
        height: area.height,
        states: node.states.iter().map(|state| state.to_static_str().to_owned()).collect(),
        actions: details.actions,
        parent: around.parent,
        window: around.window,
        app: around.app,
        pid: around.pid,
    }
}
