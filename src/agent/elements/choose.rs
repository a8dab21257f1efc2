//! Selection of the nodes that are listed.
//!
//! Visible nodes have priority over hidden ones, inputs over named nodes, and these over all others. The list
//! is in the order of the walk, visible nodes first.

use atspi::{Role, State};

use crate::elements::bus::object::{Area, Node};
use crate::elements::walk::WalkedNode;

/// Filter of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct ElementFilter {
    /// Most elements in the list.
    pub(super) most: usize,
    /// Only elements of this role, in lower case.
    pub(super) role: Option<String>,
    /// Only elements whose name contains this text, in lower case.
    pub(super) name: Option<String>,
    /// Also elements that are not visible.
    pub(super) hidden: bool,
    /// Only elements that take input.
    pub(super) inputs: bool,
}

/// A node of a walk.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) found: WalkedNode,
    pub(super) visible: bool,
    /// Index of its window.
    pub(super) window: usize,
}

/// Priority of a node; smaller values come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    Input,
    Named,
    Other,
}

/// Returns the indices of the chosen candidates, in the order of the list, and whether some that match did
/// not fit.
pub(super) fn choose(candidates: &[Candidate], filter: &ElementFilter) -> (Vec<usize>, bool) {
    let wanted = |candidate: &Candidate| {
        let node = &candidate.found.node;
        (candidate.visible || filter.hidden)
            && filter.role.as_deref().is_none_or(|role| is_role(node.role, role))
            && filter.name.as_deref().is_none_or(|name| node.name.to_lowercase().contains(name))
            && (!filter.inputs || takes_input(node))
    };
    let mut chosen: Vec<usize> = (0..candidates.len()).filter(|at| wanted(&candidates[*at])).collect();
    let short = chosen.len() > filter.most;
    chosen.sort_by_key(|at| (!candidates[*at].visible, priority(&candidates[*at].found.node), *at));
    chosen.truncate(filter.most);
    chosen.sort_by_key(|at| (!candidates[*at].visible, *at));
    (chosen, short)
}

/// Returns the nearest ancestor that is listed.
pub(super) fn parent(
    candidates: &[Candidate],
    at: usize,
    is_listed: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut next = candidates[at].found.parent;
    while let Some(parent) = next {
        if is_listed(parent) {
            return Some(parent);
        }
        next = candidates[parent].found.parent;
    }
    None
}

/// Whether a part of a node is visible: its program shows it, and it overlaps the screen and its window,
/// which is not concealed.
pub(super) fn is_visible(found: &WalkedNode, screen: Area, window: Option<Area>, concealed: bool) -> bool {
    let on_screen = found.area.and_then(|area| area.intersection(screen));
    let in_window = on_screen.and_then(|area| window.map_or(Some(area), |window| area.intersection(window)));
    found.node.is_showing() && in_window.is_some() && !concealed
}

/// Whether a role has this AT-SPI name, or had it until 2023.
fn is_role(role: Role, name: &str) -> bool {
    role.name() == name || (role == Role::Button && name == "push button")
}

fn priority(node: &Node) -> Priority {
    if takes_input(node) {
        Priority::Input
    } else if !node.name.trim().is_empty() {
        Priority::Named
    } else {
        Priority::Other
    }
}

/// Whether a user can interact with the node.
pub(super) fn takes_input(node: &Node) -> bool {
    #[allow(clippy::wildcard_enum_match_arm)] // 130 roles, of which these take input
    match node.role {
        Role::CheckBox
        | Role::CheckMenuItem
        | Role::ColumnHeader
        | Role::ComboBox
        | Role::DesktopIcon
        | Role::Dial
        | Role::Autocomplete
        | Role::Editbar
        | Role::Entry
        | Role::Link
        | Role::Menu
        | Role::MenuItem
        | Role::PageTab
        | Role::PasswordText
        | Role::Button
        | Role::PushButtonMenu
        | Role::RadioButton
        | Role::RadioMenuItem
        | Role::Slider
        | Role::SpinButton
        | Role::TableColumnHeader
        | Role::Terminal
        | Role::ToggleButton
        | Role::TreeItem => true,
        // Containers, which may have the focus themselves.
        Role::Frame
        | Role::Window
        | Role::Dialog
        | Role::Application
        | Role::DocumentWeb
        | Role::DocumentFrame
        | Role::ScrollPane
        | Role::Panel
        | Role::Filler => false,
        // List items of a web page are only text; those of a program can be selected.
        _ => node.states.intersects(State::Focusable | State::Editable | State::Selectable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::bus::object::{Interfaces, Object};
    use atspi::StateSet;

    fn candidate(role: Role, name: &str, visible: bool, parent: Option<usize>) -> Candidate {
        let node = Node {
            object: Object { name: String::new(), path: String::new() },
            role,
            name: name.to_owned(),
            description: String::new(),
            states: StateSet::empty(),
            interfaces: Interfaces::default(),
            children: 0,
        };
        let found = WalkedNode { node: std::sync::Arc::new(node), parent, area: None };
        Candidate { found, visible, window: 0 }
    }

    fn sample() -> Vec<Candidate> {
        vec![
            candidate(Role::Frame, "Editor", true, None),
            candidate(Role::Filler, "", true, Some(0)),
            candidate(Role::Button, "Hidden", false, Some(1)),
            candidate(Role::Label, "Size:", true, Some(1)),
            candidate(Role::Entry, "", true, Some(1)),
            candidate(Role::Button, "Save", true, Some(1)),
        ]
    }

    #[test]
    fn visible_nodes_come_first_then_inputs_then_names() {
        for (most, hidden, wanted) in [
            (9, true, vec![0, 1, 3, 4, 5, 2]),
            (9, false, vec![0, 1, 3, 4, 5]),
            (1, false, vec![4]),
            (2, true, vec![4, 5]),
            (3, true, vec![0, 4, 5]),
            (4, true, vec![0, 3, 4, 5]),
            (0, true, vec![]),
        ] {
            let filter = ElementFilter { most, hidden, ..ElementFilter::default() };
            let (chosen, short) = choose(&sample(), &filter);
            assert_eq!(chosen, wanted, "{most} {hidden}");
            assert_eq!(short, most < if hidden { 6 } else { 5 }, "{most} {hidden}");
        }
    }

    #[test]
    fn filters_apply_before_the_limit() {
        let text = |word: &str| Some(word.to_owned());
        for (role, name, inputs, wanted) in [
            (text("button"), None, false, vec![5, 2]),
            (text("push button"), None, false, vec![5, 2]),
            (None, text("s"), false, vec![3, 5]),
            (None, None, true, vec![4, 5, 2]),
            (text("slider"), None, false, vec![]),
        ] {
            let filter = ElementFilter { most: 3, role, name, hidden: true, inputs };
            assert_eq!(choose(&sample(), &filter), (wanted, false), "{filter:?}");
        }
    }

    #[test]
    fn a_parent_is_the_nearest_listed_ancestor() {
        let all = sample();
        for (at, listed, wanted) in
            [(5, vec![0, 5], Some(0)), (5, vec![0, 1, 5], Some(1)), (5, vec![5], None), (0, vec![0], None)]
        {
            assert_eq!(parent(&all, at, |other| listed.contains(&other)), wanted, "{at} in {listed:?}");
        }
    }

    #[test]
    fn a_visible_node_overlaps_the_screen_and_its_window() {
        let area = |x, y, width, height| Area { x, y, width, height };
        let screen = area(0, 0, 800, 600);
        let window = Some(area(100, 100, 200, 200));
        for (showing, place, within, minimised, wanted) in [
            (true, Some(area(110, 110, 10, 10)), window, false, true),
            (true, Some(area(110, 110, 10, 10)), None, false, true),
            (false, Some(area(110, 110, 10, 10)), window, false, false),
            (true, None, window, false, false),
            (true, Some(area(300, 110, 10, 10)), window, false, false),
            (true, Some(area(900, 110, 10, 10)), None, false, false),
            (true, Some(area(110, 110, 10, 10)), window, true, false),
        ] {
            let mut found = candidate(Role::Button, "", true, None).found;
            found.area = place;
            let states = if showing { State::Showing.into() } else { StateSet::empty() };
            found.node = std::sync::Arc::new(Node { states, ..(*found.node).clone() });
            assert_eq!(is_visible(&found, screen, within, minimised), wanted, "{showing} {place:?}");
        }
    }
}
