//! Ledger of stored pictures of one kind: which of them must go when another one comes.

use std::collections::{HashMap, HashSet, VecDeque};

use uuid::Uuid;

use hotdesk_base::ids::AccountId;

/// Most bytes of all pictures of one kind: some thousand of 0.1 to 1 MB each.
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Part of the disk that they may take, if that is less.
const DISK_PART: u64 = 10;
/// Part of the room that one account may take.
const ACCOUNT_PART: u64 = 4;
/// Most pictures of one kind: each costs some memory here and an entry of the folder.
pub(super) const MAX_COUNT: usize = 5000;
/// The same for small pictures, of which a kind has many: those of ten thousand actions. The sweep lists the
/// folder.
pub(super) const MAX_SMALL_COUNT: usize = 20_000;

/// Pictures by owner, each queue from the oldest to the newest. Screenshots of an earlier controller have no
/// owner.
#[derive(Debug)]
pub(super) struct Ledger {
    owners: HashMap<Option<AccountId>, Owner>,
    bytes: u64,
    count: usize,
    most_bytes: u64,
    most_count: usize,
}

#[derive(Debug, Default)]
struct Owner {
    stored: VecDeque<(Uuid, u64)>,
    bytes: u64,
}

impl Ledger {
    /// A ledger of at most so many pictures for a disk of this size in bytes.
    pub(super) fn new(disk_bytes: u64, most_count: usize) -> Self {
        let most_bytes = MAX_BYTES.min(disk_bytes / DISK_PART);
        Self { owners: HashMap::new(), bytes: 0, count: 0, most_bytes, most_count }
    }

    /// Whether a screenshot of this size fits the room of an account.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        bytes <= self.most_bytes / ACCOUNT_PART
    }

    /// Adds a screenshot. Returns the ids that must be removed: the oldest of an account above its part, then
    /// the oldest of the account that has the most.
    pub(super) fn add(&mut self, owner: Option<AccountId>, id: Uuid, bytes: u64) -> Vec<Uuid> {
        let room = self.most_bytes / ACCOUNT_PART;
        self.insert(owner, id, bytes);
        let mut removed = Vec::new();
        while owner.is_some() && self.owners.get(&owner).is_some_and(|one| one.bytes > room) {
            removed.extend(self.remove_oldest(owner));
        }
        while self.bytes > self.most_bytes {
            removed.extend(self.remove_oldest_of(|one| one.bytes));
        }
        while self.count > self.most_count {
            removed.extend(self.remove_oldest_of(|one| one.stored.len() as u64));
        }
        removed
    }

    /// Counts a screenshot again that could not be removed. Nobody owns it, and nothing makes room for it: the
    /// next addition does.
    pub(super) fn restore(&mut self, id: Uuid, bytes: u64) {
        self.insert(None, id, bytes);
    }

    fn insert(&mut self, owner: Option<AccountId>, id: Uuid, bytes: u64) {
        let one = self.owners.entry(owner).or_default();
        one.stored.push_back((id, bytes));
        one.bytes += bytes;
        self.bytes += bytes;
        self.count += 1;
    }

    /// Whether a screenshot still counts.
    pub(super) fn has(&self, owner: Option<AccountId>, id: Uuid) -> bool {
        self.owners.get(&owner).is_some_and(|one| one.stored.iter().any(|(stored, _)| *stored == id))
    }

    /// Removes screenshots that are gone from the disk.
    pub(super) fn forget(&mut self, gone: &HashSet<Uuid>) {
        for one in self.owners.values_mut() {
            one.stored.retain(|(id, bytes)| {
                let stays = !gone.contains(id);
                if !stays {
                    one.bytes -= bytes;
                    self.bytes -= bytes;
                    self.count -= 1;
                }
                stays
            });
        }
        self.owners.retain(|_, one| !one.stored.is_empty());
    }

    /// Removes the oldest of the account that has the most.
    fn remove_oldest_of(&mut self, amount: impl Fn(&Owner) -> u64) -> Option<Uuid> {
        let (largest, _) = self.owners.iter().max_by_key(|(_, one)| amount(one))?;
        self.remove_oldest(*largest)
    }

    fn remove_oldest(&mut self, owner: Option<AccountId>) -> Option<Uuid> {
        let one = self.owners.get_mut(&owner)?;
        let (id, bytes) = one.stored.pop_front()?;
        one.bytes -= bytes;
        self.bytes -= bytes;
        self.count -= 1;
        if one.stored.is_empty() {
            self.owners.remove(&owner);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [Uuid; 0] = [];

    fn ids(count: usize) -> Vec<Uuid> {
        (0..count).map(|_| Uuid::new_v4()).collect()
    }

    #[test]
    fn an_account_loses_its_own_oldest_and_nobody_else_s() {
        // A disk of 400 bytes: 40 for screenshots, 10 for an account.
        let mut ledger = Ledger::new(400, MAX_COUNT);
        let (one, other, id) = (Some(AccountId::random()), Some(AccountId::random()), ids(5));
        assert_eq!(ledger.add(other, id[0], 10), NONE);
        assert_eq!(ledger.add(one, id[1], 4), NONE);
        assert_eq!(ledger.add(one, id[2], 6), NONE);
        assert_eq!(ledger.add(one, id[3], 5), [id[1], id[2]]);
        assert!(ledger.fits(10) && !ledger.fits(11));
        assert!(ledger.has(one, id[3]) && !ledger.has(one, id[1]) && !ledger.has(other, id[3]));
        ledger.forget(&HashSet::from([id[0], id[3]]));
        assert_eq!((ledger.bytes, ledger.count, ledger.owners.len()), (0, 0, 0));
        assert_eq!(ledger.add(one, id[4], 10), NONE);
    }

    #[test]
    fn whoever_has_the_most_makes_room_for_others() {
        let mut ledger = Ledger::new(400, MAX_COUNT);
        let (accounts, id) = ((0..4).map(|_| Some(AccountId::random())).collect::<Vec<_>>(), ids(7));
        assert_eq!(ledger.add(None, id[0], 8), NONE);
        assert_eq!(ledger.add(None, id[1], 8), NONE);
        for number in 0..3 {
            assert_eq!(ledger.add(accounts[number], id[number + 2], 8), NONE);
        }
        assert_eq!(ledger.add(accounts[3], id[5], 8), [id[0]], "those of an earlier controller");
        for (count, number) in (ledger.count..MAX_COUNT).zip(0..) {
            assert_eq!(ledger.add(accounts[number % 4], Uuid::new_v4(), 0), NONE, "{count}");
        }
        assert_eq!(ledger.add(accounts[0], id[6], 0).len(), 1, "one too many");
    }
}
