//! Choice of one item of a list by its id or name.

use crate::failure::{Failure, Outcome};
use hotdesk_domain::name::fold;

/// An item that a person can name.
pub trait Selectable {
    /// Kind of the item for error texts, and the command that lists them.
    const KIND: (&'static str, &'static str);

    /// Unique id. Also a unique beginning of it of at least [`MIN_PREFIX`] characters selects the item.
    fn id(&self) -> &str;

    /// Whether a name selects the item; `folded` is in the form of [`fold`].
    fn is_named(&self, folded: &str) -> bool;

    /// Text that distinguishes the item in an error.
    fn label(&self) -> String;
}

/// Fewest characters of the beginning of an id. Shorter ones would often match more than one item.
const MIN_PREFIX: usize = 4;

/// Returns the item with the id `wanted`, else the only one with a name or a beginning of the id like it.
///
/// # Errors
/// When no item or more than one matches.
pub fn select<'a, T: Selectable>(items: &'a [T], wanted: &str) -> Outcome<&'a T> {
    let (kind, list) = T::KIND;
    if let Some(item) = items.iter().find(|item| item.id() == wanted) {
        return Ok(item);
    }
    let folded = fold(wanted);
    let begins = |item: &T| wanted.len() >= MIN_PREFIX && item.id().starts_with(wanted);
    let found: Vec<&T> = items.iter().filter(|item| begins(item) || item.is_named(&folded)).collect();
    match found.as_slice() {
        [] => Err(Failure::Failed(format!("there is no {kind} {wanted:?}: list them with `hotdesk {list}`"))),
        [item] => Ok(item),
        several => {
            let labels: Vec<String> = several.iter().map(|item| item.label()).collect();
            let labels = labels.join(", ");
            Err(Failure::Failed(format!("{kind} {wanted:?} is ambiguous, it matches {labels}: use the id")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Item(&'static str, &'static str);

    impl Selectable for Item {
        const KIND: (&'static str, &'static str) = ("item", "items list");

        fn id(&self) -> &str {
            self.0
        }

        fn is_named(&self, folded: &str) -> bool {
            fold(self.1) == folded
        }

        fn label(&self) -> String {
            format!("{} ({})", self.1, self.0)
        }
    }

    #[test]
    fn one_item_is_selected_by_id_beginning_or_name() {
        let items = [Item("abcd1", "one"), Item("abcd2", "two"), Item("efgh3", "TWO"), Item("two", "four")];
        let id =
            |wanted: &str| select(&items, wanted).map(|item| item.0).map_err(|error| format!("{error:?}"));
        for (wanted, expected) in [("abcd1", "abcd1"), ("ONE", "abcd1"), ("efgh", "efgh3"), ("two", "two")] {
            assert_eq!(id(wanted).as_deref(), Ok(expected), "{wanted}");
        }
        for (wanted, parts) in [
            ("abcd", ["ambiguous", "one (abcd1), two (abcd2)"]),
            ("TWO", ["ambiguous", "two (abcd2), TWO (efgh3)"]),
            ("efg", ["there is no item", "hotdesk items list"]),
            ("", ["there is no item", "hotdesk items list"]),
        ] {
            let error = id(wanted).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{wanted}: {error}");
        }
    }
}
