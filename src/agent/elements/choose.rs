//! Which of the nodes that were seen are listed, and in which order? Visible before hidden, what takes input before
//! what has a name before the rest; the list itself keeps the walk's order.

use atspi::{Role, State};

use super::object::{Area, Node};
use super::walk::Found;

/// What is wanted of the nodes that were seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    /// Most elements.
    pub(super) most: usize,
    /// Only of this role, in lower case.
    pub(super) role: Option<String>,
    /// Only with this in the name, in lower case.
    pub(super) name: Option<String>,
    /// Also what is not visible.
    pub(super) hidden: bool,
    /// Only what takes input.
    pub(super) inputs: bool,
}

/// A node that was seen, and whether it can be seen on the screen.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) found: Found,
    pub(super) visible: bool,
    /// Place of its window among the windows.
    pub(super) window: usize,
}

/// How much a node is worth in a list, the smaller the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Input,
    Named,
    Rest,
}

/// The chosen candidates' places, in the order of the list, and whether some that were wanted had no room.
pub(super) fn choose(candidates: &[Candidate], wish: &Wish) -> (Vec<usize>, bool) {
    let wanted = |candidate: &Candidate| {
        let node = &candidate.found.node;
        (candidate.visible || wish.hidden)
            && wish.role.as_deref().is_none_or(|role| is_role(node.role, role))
            && wish.name.as_deref().is_none_or(|name| node.name.to_lowercase().contains(name))
            && (!wish.inputs || takes_input(node))
    };
    let mut chosen: Vec<usize> = (0..candidates.len()).filter(|at| wanted(&candidates[*at])).collect();
    let short = chosen.len() > wish.most;
    chosen.sort_by_key(|at| (!candidates[*at].visible, worth(&candidates[*at].found.node), *at));
    chosen.truncate(wish.most);
    chosen.sort_by_key(|at| (!candidates[*at].visible, *at));
    (chosen, short)
}

/// The nearest node around one that is in the list as well.
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

/// Whether something of a node can be seen: its program shows it, and it lies on the screen and in its window, which
/// is not away.
pub(super) fn is_visible(found: &Found, screen: Area, window: Option<Area>, away: bool) -> bool {
    let on_screen = found.area.and_then(|area| area.common(screen));
    let in_window = on_screen.and_then(|area| window.map_or(Some(area), |window| area.common(window)));
    found.node.is_showing() && in_window.is_some() && !away
}

/// A role by AT-SPI's name, or by the name that it had until 2023.
fn is_role(role: Role, name: &str) -> bool {
    role.name() == name || (role == Role::Button && name == "push button")
}

fn worth(node: &Node) -> Worth {
    if takes_input(node) {
        Worth::Input
    } else if !node.name.trim().is_empty() {
        Worth::Named
    } else {
        Worth::Rest
    }
}

/// Whether a person could do something with it.
pub(super) fn takes_input(node: &Node) -> bool {
    #[allow(clippy::wildcard_enum_match_arm)] // 130 roles, of which these are for people's hands
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
        // These hold what a person works with, and may have the focus themselves.
        Role::Frame
        | Role::Window
        | Role::Dialog
        | Role::Application
        | Role::DocumentWeb
        | Role::DocumentFrame
        | Role::ScrollPane
        | Role::Panel
        | Role::Filler => false,
        // A list's items on a page are only text, those of a program can be selected.
        _ => node.states.intersects(State::Focusable | State::Editable | State::Selectable),
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::{Object, Offers};
    use super::*;
    use atspi::StateSet;

    fn candidate(role: Role, name: &str, visible: bool, parent: Option<usize>) -> Candidate {
        let node = Node {
            object: Object { name: String::new(), path: String::new() },
            role,
            name: name.to_owned(),
            description: String::new(),
            states: StateSet::empty(),
            offers: Offers::default(),
            children: 0,
        };
        let found = Found { node: std::sync::Arc::new(node), parent, area: None };
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
    fn visible_is_before_hidden_and_input_before_names_before_the_rest() {
        for (most, hidden, wanted) in [
            (9, true, vec![0, 1, 3, 4, 5, 2]),
            (9, false, vec![0, 1, 3, 4, 5]),
            (1, false, vec![4]),
            (2, true, vec![4, 5]),
            (3, true, vec![0, 4, 5]),
            (4, true, vec![0, 3, 4, 5]),
            (0, true, vec![]),
        ] {
            let wish = Wish { most, hidden, ..Wish::default() };
            let (chosen, short) = choose(&sample(), &wish);
            assert_eq!(chosen, wanted, "{most} {hidden}");
            assert_eq!(short, most < if hidden { 6 } else { 5 }, "{most} {hidden}");
        }
    }

    #[test]
    fn roles_and_names_are_filtered_before_they_are_counted() {
        let text = |word: &str| Some(word.to_owned());
        for (role, name, inputs, wanted) in [
            (text("button"), None, false, vec![5, 2]),
            (text("push button"), None, false, vec![5, 2]),
            (None, text("s"), false, vec![3, 5]),
            (None, None, true, vec![4, 5, 2]),
            (text("slider"), None, false, vec![]),
        ] {
            let wish = Wish { most: 3, role, name, hidden: true, inputs };
            assert_eq!(choose(&sample(), &wish), (wanted, false), "{wish:?}");
        }
    }

    #[test]
    fn a_parent_is_the_nearest_that_is_listed() {
        let all = sample();
        for (at, listed, wanted) in
            [(5, vec![0, 5], Some(0)), (5, vec![0, 1, 5], Some(1)), (5, vec![5], None), (0, vec![0], None)]
        {
            assert_eq!(parent(&all, at, |other| listed.contains(&other)), wanted, "{at} in {listed:?}");
        }
    }

    #[test]
    fn visible_is_what_is_shown_on_the_screen_inside_its_window() {
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
