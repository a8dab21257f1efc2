//! Bounded table of element ids, so that an element of an earlier list can be used.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::elements::bus::object::Object;
use hotdesk_base::hex::hex;

/// Most objects in the table: four lists of the largest size. About 200 bytes each.
const MAX_OBJECTS: usize = 20_000;
/// Hexadecimal digits of an id. In one of a million full tables two objects have the same digest; the second
/// one then gets another id.
const DIGITS: usize = 12;

/// Object of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElementKey {
    pub(super) object: Object,
    pub(super) pid: u32,
    /// Screen on which it was listed.
    pub(super) screen: String,
}

/// Table of ids.
#[derive(Debug, Default)]
pub(super) struct ElementTable {
    objects: HashMap<String, (ElementKey, u64)>,
    /// Number of lists so far, so that objects of the oldest list are removed first.
    lists: u64,
}

impl ElementTable {
    /// Begins a new list.
    pub(super) fn next_list(&mut self) {
        self.lists += 1;
    }

    /// Returns the id of an object; the same id for the same object, also in another agent.
    pub(super) fn id(&mut self, key: ElementKey) -> String {
        let mut salt = 0_u32;
        loop {
            let id = digest(&key, salt);
            match self.objects.get_mut(&id) {
                Some((there, _)) if there.object != key.object || there.pid != key.pid => salt += 1,
                Some((there, seen)) => {
                    *there = key;
                    *seen = self.lists;
                    return id;
                }
                None => {
                    if self.objects.len() >= MAX_OBJECTS {
                        self.remove_oldest();
                    }
                    self.objects.insert(id.clone(), (key, self.lists));
                    return id;
                }
            }
        }
    }

    /// Returns the object of an id.
    pub(super) fn find(&self, id: &str) -> Option<ElementKey> {
        self.objects.get(id).map(|(key, _)| key.clone())
    }

    /// Removes a quarter of the table: the objects that were listed longest ago.
    fn remove_oldest(&mut self) {
        let mut oldest: Vec<(u64, String)> =
            self.objects.iter().map(|(id, (_, seen))| (*seen, id.clone())).collect();
        oldest.sort_unstable();
        for (_, id) in oldest.into_iter().take(MAX_OBJECTS / 4) {
            self.objects.remove(&id);
        }
    }
}

fn digest(key: &ElementKey, salt: u32) -> String {
    let Object { name, path } = &key.object;
    // Bus names and paths contain no space.
    let sum = Sha256::digest(format!("{} {name} {path} {salt}", key.pid));
    format!("e-{}", &hex(&sum)[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ElementKey {
        let object =
            Object { name: String::from(":1.7"), path: format!("/org/a11y/atspi/accessible/{number}") };
        ElementKey { object, pid: 42, screen: String::from("default") }
    }

    #[test]
    fn ids_are_stable_and_differ_between_objects() {
        let mut table = ElementTable::default();
        let id = table.id(key(1));
        assert_eq!(id.len(), 2 + DIGITS);
        table.next_list();
        assert_eq!(table.id(key(1)), id);
        for other in [
            key(2),
            ElementKey { pid: 43, ..key(1) },
            ElementKey { object: Object { name: String::from(":1.8"), ..key(1).object }, ..key(1) },
        ] {
            assert_ne!(table.id(other.clone()), id, "{other:?}");
        }
        assert_eq!(table.find(&id), Some(key(1)));
        assert_eq!(table.find("e-000000000000"), None);
        // The same element on another screen is the same element.
        assert_eq!(table.id(ElementKey { screen: String::from("screen-100"), ..key(1) }), id);
        assert_eq!(table.find(&id).map(|it| it.screen).as_deref(), Some("screen-100"));
        // The id does not depend on the table's content.
        assert_eq!(ElementTable::default().id(key(1)), id);
    }

    #[test]
    fn two_objects_never_share_an_id() {
        let mut table = ElementTable::default();
        let id = table.id(key(1));
        // As if another object's digest were the same.
        table.objects.insert(id.clone(), (key(2), 0));
        let second = table.id(key(1));
        assert_ne!(second, id);
        assert_eq!(table.find(&id), Some(key(2)));
        assert_eq!(table.find(&second), Some(key(1)));
    }

    #[test]
    fn the_table_is_bounded_and_removes_the_oldest_list_first() {
        let mut table = ElementTable::default();
        for number in 0..MAX_OBJECTS {
            if number % 1000 == 0 {
                table.next_list();
            }
            table.id(key(number));
        }
        table.next_list();
        let first = table.id(key(0));
        for number in MAX_OBJECTS..MAX_OBJECTS + 10_000 {
            table.id(key(number));
            assert!(table.objects.len() <= MAX_OBJECTS);
        }
        assert!(table.find(&first).is_some(), "listed lately");
        let old = digest(&key(1), 0);
        assert!(table.find(&old).is_none(), "listed long ago");
    }
}
