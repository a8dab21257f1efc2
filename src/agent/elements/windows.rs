//! Which accessible window is which X window, and which comes first? By program, title and place.

use super::object::{Area, Node};
use crate::display::{Top, Tops};

impl From<&Top> for Area {
    fn from(top: &Top) -> Self {
        Self { x: top.x, y: top.y, width: top.width, height: top.height }
    }
}

/// Place among the windows of the screen, the topmost being 0, of an accessible window.
pub(super) fn matching(tops: &Tops, pid: u32, window: &Node, area: Option<Area>) -> Option<usize> {
    let own = || tops.windows.iter().enumerate().filter(|(_, top)| top.pid == Some(pid));
    let overlap = |top: &Top| area.and_then(|area| area.common(top.into())).map_or(0, Area::pixels);
    let titled = own().filter(|(_, top)| !window.name.is_empty() && top.title == window.name);
    // Of several with the title the one in the same place.
    let best = titled.max_by_key(|(at, top)| (overlap(top), std::cmp::Reverse(*at)));
    let best =
        best.or_else(|| own().filter(|(_, top)| mostly_same(top, area)).max_by_key(|(_, top)| overlap(top)));
    best.map(|(at, _)| at)
}

/// Whether a window and an area are about the same, give or take frames and shadows.
fn mostly_same(top: &Top, area: Option<Area>) -> bool {
    let Some(area) = area else { return false };
    let common = area.common(top.into()).map_or(0, Area::pixels);
    common * 2 > area.pixels().max(Area::from(top).pixels())
}

/// What windows are sorted by, the smallest first: the focused program's before others, its focused window before its
/// others, then from the top down. What is not listed lies on top: menus and the like.
pub(super) fn rank(tops: &Tops, pid: u32, place: Option<usize>) -> (bool, bool, usize) {
    let active = tops.active.and_then(|id| tops.windows.iter().position(|top| top.window == id));
    // Where no window manager tells of a focus, the topmost window stands for it.
    let active = active.or_else(|| (!tops.windows.is_empty()).then_some(0));
    let focused = active.and_then(|at| tops.windows[at].pid) == Some(pid);
    (!focused, place.is_some() && place != active, place.unwrap_or(0))
}

/// Whether the X server shows nothing of a window, although its program may say that it is there: it is minimised, or
/// none of the program's windows is like it. Where X knows no window of the program, the program is believed.
pub(super) fn is_away(tops: &Tops, pid: u32, place: Option<usize>) -> bool {
    match place {
        Some(place) => tops.windows[place].minimised,
        None => tops.windows.iter().any(|top| top.pid == Some(pid)),
    }
}

/// Whether a program has anything on this screen, as far as its X server tells.
pub(super) fn is_here(tops: &Tops, pid: u32) -> bool {
    tops.clients.contains(&pid) || tops.windows.iter().any(|top| top.pid == Some(pid))
}

#[cfg(test)]
mod tests {
    use super::super::object::{Object, Offers};
    use super::*;
    use atspi::{Role, StateSet};

    fn top(window: u32, pid: u32, title: &str, x: i32) -> Top {
        let title = title.to_owned();
        Top { window, pid: Some(pid), title, x, y: 0, width: 100, height: 100, minimised: false }
    }

    fn window(name: &str) -> Node {
        Node {
            object: Object { name: String::new(), path: String::new() },
            role: Role::Frame,
            name: name.to_owned(),
            description: String::new(),
            states: StateSet::empty(),
            offers: Offers::default(),
            children: 0,
        }
    }

    fn desk(active: Option<u32>) -> Tops {
        let windows =
            vec![top(1, 10, "a", 0), top(2, 20, "b", 300), top(3, 10, "a", 600), top(4, 20, "Desktop", 0)];
        Tops { windows, active, clients: vec![10, 20, 30] }
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
            assert_eq!(matching(&desk(None), pid, &window(name), area), wanted, "{pid} {name} {area:?}");
        }
    }

    #[test]
    fn the_focused_program_is_first_then_what_is_on_top() {
        let order = |active| {
            let tops = desk(active);
            let mut all = vec![(20, Some(3)), (10, Some(2)), (20, Some(1)), (20, None), (10, Some(0))];
            all.sort_by_key(|(pid, place)| rank(&tops, *pid, *place));
            all
        };
        let first = vec![(20, None), (20, Some(1)), (20, Some(3)), (10, Some(0)), (10, Some(2))];
        assert_eq!(order(Some(2)), first);
        let third = vec![(10, Some(2)), (10, Some(0)), (20, None), (20, Some(1)), (20, Some(3))];
        assert_eq!(order(Some(3)), third);
        assert_eq!(order(None)[0], (10, Some(0)));
        assert!(is_here(&desk(None), 30) && !is_here(&desk(None), 40));
        assert_eq!(rank(&Tops::default(), 1, None), (true, false, 0));
        let mut tops = desk(None);
        tops.windows[1].minimised = true;
        for (pid, place, away) in [
            (10, Some(0), false),
            (20, Some(1), true),
            (20, Some(3), false),
            (20, None, true),
            (30, None, false),
        ] {
            assert_eq!(is_away(&tops, pid, place), away, "{pid} {place:?}");
        }
    }
}
