//! Wire record of an element.

use crate::elements::bus::details::{Details, MAX_NAME};
use crate::elements::bus::object::{Area, Node, cut};
use hotdesk_wire::desktop::element::Element;

/// Kernel's name of a process, for a program that does not answer.
pub(super) fn process_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Ancestors of an element, as its record shows them.
pub(super) struct Ancestry {
    pub(super) parent: Option<String>,
    pub(super) window: String,
    pub(super) app: String,
    pub(super) pid: u32,
}

/// Builds the record of an element.
pub(super) fn record(
    id: String,
    node: &Node,
    area: Option<Area>,
    details: Details,
    around: Ancestry,
) -> Element {
    let area = area.unwrap_or_default();
    let description = cut(&node.description, MAX_NAME);
    Element {
        id,
        mark: None,
        role: node.role.name().to_owned(),
        name: cut(&node.name, MAX_NAME),
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
