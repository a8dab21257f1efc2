//! Match of accessible windows with X windows by program, title and area, and their order.

use crate::display::{ToplevelWindow, ToplevelWindows};
use crate::elements::bus::object::{Area, Node};

impl From<&ToplevelWindow> for Area {
    fn from(top: &ToplevelWindow) -> Self {
        Self { x: top.x, y: top.y, width: top.width, height: top.height }
    }
}

/// Returns the index of the matching X window in the screen's stacking order (0 is the topmost).
pub(super) fn matching(
    toplevels: &ToplevelWindows,
    pid: u32,
    window: &Node,
    area: Option<Area>,
) -> Option<usize> {
    let own = || toplevels.windows.iter().enumerate().filter(|(_, top)| top.pid == Some(pid));
    let overlap =
        |top: &ToplevelWindow| area.and_then(|area| area.intersection(top.into())).map_or(0, Area::pixels);
    let titled = own().filter(|(_, top)| !window.name.is_empty() && top.title == window.name);
    // Of several windows with this title, the one with the largest overlap.
    let best = titled.max_by_key(|(at, top)| (overlap(top), std::cmp::Reverse(*at)));
    let best =
        best.or_else(|| own().filter(|(_, top)| mostly_same(top, area)).max_by_key(|(_, top)| overlap(top)));
    best.map(|(at, _)| at)
}

/// Whether a window and an area are about the same, apart from frames and shadows.
fn mostly_same(top: &ToplevelWindow, area: Option<Area>) -> bool {
    let Some(area) = area else { return false };
    let intersection = area.intersection(top.into()).map_or(0, Area::pixels);
    intersection * 2 > area.pixels().max(Area::from(top).pixels())
}

/// Sort key of windows, the smallest first: the focused program, its focused window, then from the topmost
/// down. A window that X does not list (a menu, for example) counts as topmost.
pub(super) fn rank(toplevels: &ToplevelWindows, pid: u32, place: Option<usize>) -> (bool, bool, usize) {
    let active = toplevels.active.and_then(|id| toplevels.windows.iter().position(|top| top.window == id));
    // Without a window manager that reports the focus, the topmost window counts as focused.
    let active = active.or_else(|| (!toplevels.windows.is_empty()).then_some(0));
    let focused = active.and_then(|at| toplevels.windows[at].pid) == Some(pid);
    (!focused, place.is_some() && place != active, place.unwrap_or(0))
}

/// Whether the X server shows nothing of a window, even if its program reports it as shown: it is minimised,
/// or none of the program's X windows matches. When X lists no window of the program, the program is trusted.
pub(super) fn is_concealed(toplevels: &ToplevelWindows, pid: u32, place: Option<usize>) -> bool {
    match place {
        Some(place) => toplevels.windows[place].minimised,
        None => toplevels.windows.iter().any(|top| top.pid == Some(pid)),
    }
}

/// Whether a program has a window or a connection on this screen, as far as its X server reports.
pub(super) fn is_on_screen(toplevels: &ToplevelWindows, pid: u32) -> bool {
    toplevels.clients.contains(&pid) || toplevels.windows.iter().any(|top| top.pid == Some(pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::bus::object::{Interfaces, Object};
    use atspi::{Role, StateSet};

    fn top(window: u32, pid: u32, title: &str, x: i32) -> ToplevelWindow {
        let title = title.to_owned();
        ToplevelWindow { window, pid: Some(pid), title, x, y: 0, width: 100, height: 100, minimised: false }
    }

    fn window(name: &str) -> Node {
        Node {
            object: Object { name: String::new(), path: String::new() },
            role: Role::Frame,
            name: name.to_owned(),
            description: String::new(),
            states: StateSet::empty(),
            interfaces: Interfaces::default(),
            children: 0,
        }
    }

    fn sample_windows(active: Option<u32>) -> ToplevelWindows {
        let windows =
            vec![top(1, 10, "a", 0), top(2, 20, "b", 300), top(3, 10, "a", 600), top(4, 20, "Desktop", 0)];
        ToplevelWindows { windows, active, clients: vec![10, 20, 30] }
    }

    #[test]
    fn windows_match_by_program_then_title_then_place() {
        let at = |x| Some(Area { x, y: -20, width: 102, height: 121 });
        for (pid, name, area, wanted) in [
            (10, "a", at(0), Some(0)),
            (10, "a", at(601), Some(2)),
            (10, "a", None, Some(0)),
            (20, "b", None, Some(1)),
            (20, "renamed", at(299), Some(1)),
            // A menu of the same program over its window is not that window.
            (20, "", Some(Area { x: 310, y: 10, width: 40, height: 60 }), None),
            (30, "b", at(300), None),
        ] {
            assert_eq!(
                matching(&sample_windows(None), pid, &window(name), area),
                wanted,
                "{pid} {name} {area:?}"
            );
        }
    }

    #[test]
    fn the_focused_program_is_first_then_what_is_on_top() {
        let order = |active| {
            let toplevels = sample_windows(active);
            let mut all = vec![(20, Some(3)), (10, Some(2)), (20, Some(1)), (20, None), (10, Some(0))];
            all.sort_by_key(|(pid, place)| rank(&toplevels, *pid, *place));
            all
        };
        let first = vec![(20, None), (20, Some(1)), (20, Some(3)), (10, Some(0)), (10, Some(2))];
        assert_eq!(order(Some(2)), first);
        let third = vec![(10, Some(2)), (10, Some(0)), (20, None), (20, Some(1)), (20, Some(3))];
        assert_eq!(order(Some(3)), third);
        assert_eq!(order(None)[0], (10, Some(0)));
        assert!(is_on_screen(&sample_windows(None), 30) && !is_on_screen(&sample_windows(None), 40));
        assert_eq!(rank(&ToplevelWindows::default(), 1, None), (true, false, 0));
        let mut toplevels = sample_windows(None);
        toplevels.windows[1].minimised = true;
        for (pid, place, concealed) in [
            (10, Some(0), false),
            (20, Some(1), true),
            (20, Some(3), false),
            (20, None, true),
            (30, None, false),
        ] {
            assert_eq!(is_concealed(&toplevels, pid, place), concealed, "{pid} {place:?}");
        }
    }
}
