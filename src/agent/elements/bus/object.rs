//! Data of one object on the accessibility bus, and its conversion from AT-SPI.

use atspi::{Role, State, StateSet};
use zbus::zvariant::OwnedObjectPath;

/// A reference as AT-SPI sends it: unique bus name, object path.
pub(in crate::elements) type Reference = (String, OwnedObjectPath);

/// Path of the null object.
const NULL_PATH: &str = "/org/a11y/atspi/null";
/// Mask of the known states; a program may set bits of a later version.
const KNOWN_STATES: u64 = (1 << (State::ReadOnly as u64).trailing_zeros() << 1) - 1;

/// Address of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::elements) struct Object {
    /// Unique name of its program's connection, for example `:1.7`.
    pub(in crate::elements) name: String,
    /// Object path.
    pub(in crate::elements) path: String,
}

impl Object {
    /// The object of a reference; `None` for the null object.
    pub(in crate::elements) fn of((name, path): Reference) -> Option<Self> {
        let null = name.is_empty() || path.as_str() == NULL_PATH;
        (!null).then(|| Self { name, path: path.as_str().to_owned() })
    }
}

/// Relevant interfaces of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::elements) struct Interfaces {
    pub(in crate::elements) component: bool,
    pub(in crate::elements) action: bool,
    pub(in crate::elements) text: bool,
    pub(in crate::elements) editable: bool,
    pub(in crate::elements) value: bool,
}

impl Interfaces {
    pub(in crate::elements) fn of(interfaces: &[impl AsRef<str>]) -> Self {
        let has = |name: &str| {
            let short = |full: &str| full.strip_prefix("org.a11y.atspi.").is_some_and(|it| it == name);
            interfaces.iter().any(|full| short(full.as_ref()))
        };
        Self {
            component: has("Component"),
            action: has("Action"),
            text: has("Text"),
            editable: has("EditableText"),
            value: has("Value"),
        }
    }
}

/// Rectangle on the screen, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::elements) struct Area {
    pub(in crate::elements) x: i32,
    pub(in crate::elements) y: i32,
    pub(in crate::elements) width: i32,
    pub(in crate::elements) height: i32,
}

impl Area {
    /// `None` for the answers with which programs say that an object has no place.
    pub(in crate::elements) fn of((x, y, width, height): (i32, i32, i32, i32)) -> Option<Self> {
        let somewhere = width > 0 && height > 0 && x > i32::MIN / 2 && y > i32::MIN / 2;
        let ends = x.checked_add(width).is_some() && y.checked_add(height).is_some();
        (somewhere && ends).then_some(Self { x, y, width, height })
    }

    /// Intersection of two areas.
    pub(in crate::elements) fn intersection(self, other: Self) -> Option<Self> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let right = (self.x + self.width).min(other.x + other.width);
        let bottom = (self.y + self.height).min(other.y + other.height);
        (right > x && bottom > y).then(|| Self { x, y, width: right - x, height: bottom - y })
    }

    /// Number of pixels.
    pub(in crate::elements) fn pixels(self) -> i64 {
        i64::from(self.width) * i64::from(self.height)
    }
}

/// An object of a walk.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::elements) struct Node {
    pub(in crate::elements) object: Object,
    pub(in crate::elements) role: Role,
    pub(in crate::elements) name: String,
    pub(in crate::elements) description: String,
    pub(in crate::elements) states: StateSet,
    pub(in crate::elements) interfaces: Interfaces,
    /// Number of children; below 0 when the program does not report it.
    pub(in crate::elements) children: i32,
}

impl Node {
    /// Whether the program reports that it shows the object now.
    pub(in crate::elements) fn is_showing(&self) -> bool {
        self.states.contains(State::Showing)
    }
}

/// Role of an AT-SPI number; `Unknown` for one of a later version.
pub(in crate::elements) fn role(number: u32) -> Role {
    Role::try_from(number).unwrap_or(Role::Unknown)
}

/// States of the two 32-bit words of AT-SPI; states of a later version are dropped.
pub(in crate::elements) fn states(words: &[u32]) -> StateSet {
    let low = words.first().copied().unwrap_or_default();
    let high = words.get(1).copied().unwrap_or_default();
    let bits = (u64::from(high) << 32 | u64::from(low)) & KNOWN_STATES;
    StateSet::from_bits(bits).unwrap_or_default()
}

/// Cuts a text to at most `most` characters; a cut text ends in `…`.
pub(in crate::elements) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_areas_are_none_and_intersections_are_exact() {
        let area = |x, y, width, height| Area { x, y, width, height };
        for nowhere in
            [(0, 0, 0, 5), (0, 0, 5, -1), (i32::MIN, i32::MIN, 5, 5), (i32::MAX, 0, 5, 5), (-1, -1, -1, -1)]
        {
            assert_eq!(Area::of(nowhere), None, "{nowhere:?}");
        }
        assert_eq!(Area::of((-5, 3, 10, 10)), Some(area(-5, 3, 10, 10)));
        let screen = area(0, 0, 100, 50);
        for (given, wanted) in [
            (area(-5, 40, 10, 20), Some(area(0, 40, 5, 10))),
            (area(10, 10, 5, 5), Some(area(10, 10, 5, 5))),
            (area(100, 0, 5, 5), None),
            (area(-5, 0, 5, 5), None),
        ] {
            assert_eq!(given.intersection(screen), wanted, "{given:?}");
        }
    }

    #[test]
    fn values_of_a_later_version_are_ignored() {
        assert_eq!(role(43).name(), "button");
        assert_eq!(role(100_000), Role::Unknown);
        let seen = states(&[1 << 25, u32::MAX]);
        assert!(seen.contains(State::Showing) && seen.contains(State::ReadOnly));
        assert!(states(&[]).is_empty());
        assert!(Interfaces::of(&["org.a11y.atspi.Text", "org.new.Thing"]).text);
    }

    #[test]
    fn long_texts_are_cut_at_characters() {
        for (text, cut_to) in [("", ""), ("abc", "abc"), ("abcd", "ab…"), ("äöüß", "äö…")] {
            assert_eq!(cut(text, 3), cut_to);
        }
    }
}
