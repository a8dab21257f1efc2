//! Whose requests make room for others? A credential's own, the oldest first, and never one that has no answer yet.

use std::collections::BTreeMap;

use hotdesk::base::clock::now_ms;
use hotdesk::base::ids::AccountId;
use hotdesk::store::Store;
use hotdesk::store::idempotency::{Answer, Keyed, Known, Remembered};
use hotdesk::store::people::Account;
use tempfile::TempDir;

struct Room {
    store: Store,
    account: AccountId,
    most: Remembered,
    _folder: TempDir,
}

impl Room {
    async fn new(of_credential: i64, of_account: i64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("hotdesk.db")).await.expect("a store");
        let account = AccountId::random();
        let owner = Account {
            id: account,
            email: "a@example.org".to_owned(),
            full_name: "A".to_owned(),
            password_hash: None,
            kind: "person".to_owned(),
            plan: None,
            created_at: now_ms(),
        };
        store.add_account(&owner).await.expect("an account");
        Self { store, account, most: Remembered { of_credential, of_account }, _folder: folder }
    }

    /// The digests are in order, which decides between requests of one millisecond.
    fn keyed(&self, holder: &str, number: u32) -> Keyed {
        let digest = format!("{holder}-{number:03}");
        Keyed { account: self.account, holder: holder.to_owned(), digest, request: "r".to_owned() }
    }

    async fn begin(&self, holder: &str, number: u32) {
        let known = self.store.begin_request(&self.keyed(holder, number), true, 0, self.most).await;
        assert_eq!(known.expect("a store"), Known::Nothing, "{holder} {number}");
    }

    async fn answer(&self, holder: &str, numbers: std::ops::Range<u32>) {
        for number in numbers {
            self.begin(holder, number).await;
            let answer = Answer { status: 200, headers: BTreeMap::new(), body: Some("{}".to_owned()) };
            self.store.answer_request(&self.keyed(holder, number), &answer).await.expect("kept");
        }
    }

    /// The numbers of a credential's requests that are remembered, and whether they were answered.
    async fn left(&self, holder: &str) -> Vec<(u32, bool)> {
        let mut left = Vec::new();
        for number in 0..20 {
            let keyed = self.keyed(holder, number);
            match self.store.begin_request(&keyed, false, 0, self.most).await.expect("a store") {
                Known::Nothing => {}
                Known::Begun => left.push((number, false)),
                Known::Answered(_) => left.push((number, true)),
                Known::Another => panic!("{holder} {number} is another's"),
            }
        }
        left
    }
}

#[tokio::test]
async fn one_key_s_requests_do_not_push_out_another_s() {
    let room = Room::new(3, 100).await;
    room.answer("a", 0..2).await;
    room.answer("b", 0..10).await;
    assert_eq!(room.left("a").await, [(0, true), (1, true)]);
    assert_eq!(room.left("b").await, [(7, true), (8, true), (9, true)]);
    room.answer("a", 2..5).await;
    assert_eq!(room.left("a").await, [(2, true), (3, true), (4, true)]);
    assert_eq!(room.left("b").await, [(7, true), (8, true), (9, true)]);
}

#[tokio::test]
async fn of_a_key_from_before_requests_were_named_otherwise_nobody_knows_what_it_stands_for() {
    let room = Room::new(10, 10).await;
    // Rows of then have no credential, which migration 0019 added.
    room.answer("", 0..1).await;
    room.answer("a", 0..1).await;
    for (before, now, known) in [("", "a", Known::Begun), ("a", "a", Known::Another)] {
        let old = room.keyed(before, 0);
        let same = room.store.begin_request(&old, true, 0, room.most).await.expect("a store");
        assert!(matches!(same, Known::Answered(_)), "{before:?}: {same:?}");
        let named = Keyed { holder: now.to_owned(), request: "another name".to_owned(), ..old };
        for _ in 0..2 {
            let found = room.store.begin_request(&named, true, 0, room.most).await.expect("a store");
            assert_eq!(found, known, "{before:?}");
        }
    }
}

#[tokio::test]
async fn what_has_no_answer_is_never_pushed_out() {
    let room = Room::new(3, 4).await;
    room.begin("a", 0).await;
    room.answer("a", 1..10).await;
    assert_eq!(room.left("a").await, [(0, false), (8, true), (9, true)]);
    for number in 10..15 {
        room.begin("a", number).await;
    }
    let begun = [0_u32, 10, 11, 12, 13, 14].map(|number| (number, false));
    assert_eq!(room.left("a").await, begun);
    room.begin("b", 0).await;
    assert_eq!(room.left("a").await, begun);
    assert_eq!(room.left("b").await, [(0, false)]);
}

#[tokio::test]
async fn where_an_account_has_too_much_whoever_has_the_most_makes_room() {
    let room = Room::new(4, 6).await;
    room.answer("a", 0..4).await;
    room.answer("b", 0..2).await;
    assert_eq!((room.left("a").await.len(), room.left("b").await.len()), (4, 2));
    room.answer("b", 2..3).await;
    assert_eq!(room.left("a").await, [(1, true), (2, true), (3, true)]);
    assert_eq!(room.left("b").await, [(0, true), (1, true), (2, true)]);
    // With as much as the other it is one's own turn.
    room.answer("b", 3..4).await;
    assert_eq!(room.left("a").await.len(), 3);
    assert_eq!(room.left("b").await, [(1, true), (2, true), (3, true)]);
    // Who has little loses nothing, however much the others send.
    room.answer("c", 0..2).await;
    room.answer("b", 4..10).await;
    room.answer("a", 4..10).await;
    assert_eq!(room.left("c").await, [(0, true), (1, true)]);
}
