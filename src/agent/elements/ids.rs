//! Which object does an id mean? A bounded table, so that an id of an earlier list can be acted on.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::object::Object;
use hotdesk_base::hex::hex;

/// Most objects that are remembered: four of the longest lists. About 200 bytes each.
const MOST: usize = 20_000;
/// Hexadecimal digits of an id: with a full table one in a million tables has two objects on one id, and then the
/// second gets another.
const DIGITS: usize = 12;

/// A remembered object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) object: Object,
    pub(super) pid: u32,
    /// The screen that it was seen on.
    pub(super) screen: String,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    known: HashMap<String, (Known, u64)>,
    /// Counts the lists, so that the oldest can be forgotten first.
    lists: u64,
}

impl Table {
    /// Begins another list.
    pub(super) fn next_list(&mut self) {
        self.lists += 1;
    }

    /// The id of an object; the same one for the same object, for as long as it is remembered.
    pub(super) fn id(&mut self, known: Known) -> String {
        let mut salt = 0_u32;
        loop {
            let id = digest(&known, salt);
            match self.known.get_mut(&id) {
                Some((there, _)) if there.object != known.object || there.pid != known.pid => salt += 1,
                Some((there, seen)) => {
                    *there = known;
                    *seen = self.lists;
                    return id;
                }
                None => {
                    if self.known.len() >= MOST {
                        self.forget();
                    }
                    self.known.insert(id.clone(), (known, self.lists));
                    return id;
                }
            }
        }
    }

    /// The object of an id.
    pub(super) fn find(&self, id: &str) -> Option<Known> {
        self.known.get(id).map(|(known, _)| known.clone())
    }

    /// Makes room: a quarter of the table, those that were listed longest ago.
    fn forget(&mut self) {
        let mut oldest: Vec<(u64, String)> =
            self.known.iter().map(|(id, (_, seen))| (*seen, id.clone())).collect();
        oldest.sort_unstable();
        for (_, id) in oldest.into_iter().take(MOST / 4) {
            self.known.remove(&id);
        }
    }
}

fn digest(known: &Known, salt: u32) -> String {
    let Object { name, path } = &known.object;
    // Neither a bus name nor a path has a space.
    let sum = Sha256::digest(format!("{} {name} {path} {salt}", known.pid));
    format!("e-{}", &hex(&sum)[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(number: usize) -> Known {
        let object =
            Object { name: String::from(":1.7"), path: format!("/org/a11y/atspi/accessible/{number}") };
        Known { object, pid: 42, screen: String::from("default") }
    }

    #[test]
    fn the_same_object_has_the_same_id_and_another_has_another() {
        let mut table = Table::default();
        let id = table.id(known(1));
        assert_eq!(id.len(), 2 + DIGITS);
        table.next_list();
        assert_eq!(table.id(known(1)), id);
        for other in [
            known(2),
            Known { pid: 43, ..known(1) },
            Known { object: Object { name: String::from(":1.8"), ..known(1).object }, ..known(1) },
        ] {
            assert_ne!(table.id(other.clone()), id, "{other:?}");
        }
        assert_eq!(table.find(&id), Some(known(1)));
        assert_eq!(table.find("e-000000000000"), None);
        // The same element on another screen is the same element.
        assert_eq!(table.id(Known { screen: String::from("screen-100"), ..known(1) }), id);
        assert_eq!(table.find(&id).map(|it| it.screen).as_deref(), Some("screen-100"));
        // It does not depend on what the table held before: another agent gives the same.
        assert_eq!(Table::default().id(known(1)), id);
    }

    #[test]
    fn two_objects_never_share_an_id() {
        let mut table = Table::default();
        let id = table.id(known(1));
        // As if another object's digest were the same.
        table.known.insert(id.clone(), (known(2), 0));
        let second = table.id(known(1));
        assert_ne!(second, id);
        assert_eq!(table.find(&id), Some(known(2)));
        assert_eq!(table.find(&second), Some(known(1)));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_oldest_list_first() {
        let mut table = Table::default();
        for number in 0..MOST {
            if number % 1000 == 0 {
                table.next_list();
            }
            table.id(known(number));
        }
        table.next_list();
        let first = table.id(known(0));
        for number in MOST..MOST + 10_000 {
            table.id(known(number));
            assert!(table.known.len() <= MOST);
        }
        assert!(table.find(&first).is_some(), "listed lately");
        let old = digest(&known(1), 0);
        assert!(table.find(&old).is_none(), "listed long ago");
    }
}
