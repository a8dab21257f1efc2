//! What is known of one object on the accessibility bus? Plain data, and how the wire's forms become it.

use atspi::{Role, State, StateSet};
use zbus::zvariant::OwnedObjectPath;

/// A reference as AT-SPI sends it: unique bus name, object path.
pub(super) type Reference = (String, OwnedObjectPath);

/// Path of the object that stands for "none".
const NULL_PATH: &str = "/org/a11y/atspi/null";
/// Every state that has a name here; a program may set bits of a later version.
const KNOWN_STATES: u64 = (1 << (State::ReadOnly as u64).trailing_zeros() << 1) - 1;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Object {
    /// Unique name of its program's connection, for example `:1.7`.
    pub(super) name: String,
    /// Its path there.
    pub(super) path: String,
}

impl Object {
    /// The object that a reference means, if it means one.
    pub(super) fn of((name, path): Reference) -> Option<Self> {
        let null = name.is_empty() || path.as_str() == NULL_PATH;
        (!null).then(|| Self { name, path: path.as_str().to_owned() })
    }
}

/// Which of the interfaces that matter here an object has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offers {
    pub(super) component: bool,
    pub(super) action: bool,
    pub(super) text: bool,
    pub(super) editable: bool,
    pub(super) value: bool,
}

impl Offers {
    pub(super) fn of(interfaces: &[impl AsRef<str>]) -> Self {
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

/// An object's place on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Area {
    /// What programs answer for "nowhere" becomes `None`.
    pub(super) fn of((x, y, width, height): (i32, i32, i32, i32)) -> Option<Self> {
        let somewhere = width > 0 && height > 0 && x > i32::MIN / 2 && y > i32::MIN / 2;
        let ends = x.checked_add(width).is_some() && y.checked_add(height).is_some();
        (somewhere && ends).then_some(Self { x, y, width, height })
    }

    /// What two areas have in common.
    pub(super) fn common(self, other: Self) -> Option<Self> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let right = (self.x + self.width).min(other.x + other.width);
        let bottom = (self.y + self.height).min(other.y + other.height);
        (right > x && bottom > y).then(|| Self { x, y, width: right - x, height: bottom - y })
    }

    /// Its pixels.
    pub(super) fn pixels(self) -> i64 {
        i64::from(self.width) * i64::from(self.height)
    }
}

/// An object as the walk sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) object: Object,
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) states: StateSet,
    pub(super) offers: Offers,
    /// How many children it says it has; below 0 when it does not say.
    pub(super) children: i32,
}

impl Node {
    /// Whether the program shows it now, as far as the program knows.
    pub(super) fn is_showing(&self) -> bool {
        self.states.contains(State::Showing)
    }
}

/// The role of a number; a number of a later version is `unknown`.
pub(super) fn role(number: u32) -> Role {
    Role::try_from(number).unwrap_or(Role::Unknown)
}

/// The states in the two words that AT-SPI sends; those of a later version are left out.
pub(super) fn states(words: &[u32]) -> StateSet {
    let low = words.first().copied().unwrap_or_default();
    let high = words.get(1).copied().unwrap_or_default();
    let bits = (u64::from(high) << 32 | u64::from(low)) & KNOWN_STATES;
    StateSet::from_bits(bits).unwrap_or_default()
}

/// A text of at most `most` characters; what is cut ends in `…`.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_that_are_nowhere_are_none_and_common_parts_are_exact() {
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
            assert_eq!(given.common(screen), wanted, "{given:?}");
        }
    }

    #[test]
    fn what_a_later_version_sends_does_not_hide_what_is_known() {
        assert_eq!(role(43).name(), "button");
        assert_eq!(role(100_000), Role::Unknown);
        let seen = states(&[1 << 25, u32::MAX]);
        assert!(seen.contains(State::Showing) && seen.contains(State::ReadOnly));
        assert!(states(&[]).is_empty());
        assert!(Offers::of(&["org.a11y.atspi.Text", "org.new.Thing"]).text);
    }

    #[test]
    fn long_texts_are_cut_at_characters() {
        for (text, cut_to) in [("", ""), ("abc", "abc"), ("abcd", "ab…"), ("äöüß", "äö…")] {
            assert_eq!(cut(text, 3), cut_to);
        }
    }
}
