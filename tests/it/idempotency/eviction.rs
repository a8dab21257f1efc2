//! Eviction of stored idempotency keys: the credential's own answered requests, oldest first, never an
//! unanswered one.

use std::collections::BTreeMap;

use hotdesk::base::clock;
use hotdesk::base::ids::AccountId;
use hotdesk::base::time::UnixMillis;
use hotdesk::store::Store;
use hotdesk::store::idempotency::{IdempotentRequest, RequestState, RetentionLimits, StoredResponse};
use hotdesk::store::identity::people::Account;
use tempfile::TempDir;

struct KeyStore {
    store: Store,
    account: AccountId,
    most: RetentionLimits,
    _folder: TempDir,
}

impl KeyStore {
    async fn new(per_credential: i64, per_account: i64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("hotdesk.db")).await.expect("a store");
        let account = AccountId::random();
        let owner = Account {
            id: account,
            email: "a@example.org".to_owned(),
            email_verified: false,
            full_name: "A".to_owned(),
            password_hash: None,
            kind: "person".to_owned(),
            plan: None,
            created_at: clock::now(),
        };
        store.add_account(&owner).await.expect("an account");
        Self { store, account, most: RetentionLimits { per_credential, per_account }, _folder: folder }
    }

    /// A request whose digest grows with its number: digests order requests of the same millisecond.
    fn keyed(&self, holder: &str, number: u32) -> IdempotentRequest {
        let digest = format!("{holder}-{number:03}");
        IdempotentRequest {
            account: self.account,
            holder: holder.to_owned(),
            digest,
            request: "r".to_owned(),
        }
    }

    async fn begin(&self, holder: &str, number: u32) {
        let known =
            self.store.begin_request(&self.keyed(holder, number), true, UnixMillis::EPOCH, self.most).await;
        assert_eq!(known.expect("a store"), RequestState::New, "{holder} {number}");
    }

    async fn answer(&self, holder: &str, numbers: std::ops::Range<u32>) {
        for number in numbers {
            self.begin(holder, number).await;
            let answer =
                StoredResponse { status: 200, headers: BTreeMap::new(), body: Some("{}".to_owned()) };
            self.store.store_response(&self.keyed(holder, number), &answer).await.expect("a stored answer");
        }
    }

    /// The numbers of a credential's stored requests, and whether they have an answer.
    async fn stored(&self, holder: &str) -> Vec<(u32, bool)> {
        let mut stored = Vec::new();
        for number in 0..20 {
            let keyed = self.keyed(holder, number);
            match self
                .store
                .begin_request(&keyed, false, UnixMillis::EPOCH, self.most)
                .await
                .expect("a store")
            {
                RequestState::New => {}
                RequestState::Pending => stored.push((number, false)),
                RequestState::Completed(_) => stored.push((number, true)),
                RequestState::Mismatch => panic!("{holder} {number} is another's"),
            }
        }
        stored
    }
}

#[tokio::test]
async fn one_key_s_requests_do_not_push_out_another_s() {
    let store = KeyStore::new(3, 100).await;
    store.answer("a", 0..2).await;
    store.answer("b", 0..10).await;
    assert_eq!(store.stored("a").await, [(0, true), (1, true)]);
    assert_eq!(store.stored("b").await, [(7, true), (8, true), (9, true)]);
    store.answer("a", 2..5).await;
    assert_eq!(store.stored("a").await, [(2, true), (3, true), (4, true)]);
    assert_eq!(store.stored("b").await, [(7, true), (8, true), (9, true)]);
}

#[tokio::test]
async fn of_a_key_from_before_requests_were_named_otherwise_nobody_knows_what_it_stands_for() {
    let store = KeyStore::new(10, 10).await;
    // Rows from before migration 0019 have no credential.
    store.answer("", 0..1).await;
    store.answer("a", 0..1).await;
    for (before, now, known) in [("", "a", RequestState::Pending), ("a", "a", RequestState::Mismatch)] {
        let old = store.keyed(before, 0);
        let same =
            store.store.begin_request(&old, true, UnixMillis::EPOCH, store.most).await.expect("a store");
        assert!(matches!(same, RequestState::Completed(_)), "{before:?}: {same:?}");
        let named = IdempotentRequest { holder: now.to_owned(), request: "another name".to_owned(), ..old };
        for _ in 0..2 {
            let found = store
                .store
                .begin_request(&named, true, UnixMillis::EPOCH, store.most)
                .await
                .expect("a store");
            assert_eq!(found, known, "{before:?}");
        }
    }
}

#[tokio::test]
async fn what_has_no_answer_is_never_pushed_out() {
    let store = KeyStore::new(3, 4).await;
    store.begin("a", 0).await;
    store.answer("a", 1..10).await;
    assert_eq!(store.stored("a").await, [(0, false), (8, true), (9, true)]);
    for number in 10..15 {
        store.begin("a", number).await;
    }
    let unanswered = [0_u32, 10, 11, 12, 13, 14].map(|number| (number, false));
    assert_eq!(store.stored("a").await, unanswered);
    store.begin("b", 0).await;
    assert_eq!(store.stored("a").await, unanswered);
    assert_eq!(store.stored("b").await, [(0, false)]);
}

#[tokio::test]
async fn where_an_account_has_too_much_whoever_has_the_most_makes_room() {
    let store = KeyStore::new(4, 6).await;
    store.answer("a", 0..4).await;
    store.answer("b", 0..2).await;
    assert_eq!((store.stored("a").await.len(), store.stored("b").await.len()), (4, 2));
    store.answer("b", 2..3).await;
    assert_eq!(store.stored("a").await, [(1, true), (2, true), (3, true)]);
    assert_eq!(store.stored("b").await, [(0, true), (1, true), (2, true)]);
    // Between credentials with equally many requests, the sender's own is evicted.
    store.answer("b", 3..4).await;
    assert_eq!(store.stored("a").await.len(), 3);
    assert_eq!(store.stored("b").await, [(1, true), (2, true), (3, true)]);
    // A credential with few requests loses none, however many the others send.
    store.answer("c", 0..2).await;
    store.answer("b", 4..10).await;
    store.answer("a", 4..10).await;
    assert_eq!(store.stored("c").await, [(0, true), (1, true)]);
}
