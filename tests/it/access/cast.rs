//! Accounts and keys that tests add directly to the store.

use hotdesk::base::clock;
use hotdesk::base::ids::{AccountId, WorkspaceId};
use hotdesk::base::secret::Secret;
use hotdesk::controller::identity::auth::{keys, session};
use hotdesk::store::Store;
use hotdesk::store::identity::accounts::NewKey;
use hotdesk::store::identity::people::Account;

/// Password of every account that tests add.
pub const PASSWORD: &str = "correct horse battery";

/// An account that can sign in.
pub async fn add_account(store: &Store, email: &str) -> AccountId {
    let hash = session::hash_password(Secret::new(PASSWORD)).await.expect("a hash");
    let account = Account {
        id: AccountId::random(),
        email: email.to_owned(),
        email_verified: false,
        full_name: String::new(),
        password_hash: Some(hash),
        kind: "person".to_owned(),
        plan: None,
        created_at: clock::now(),
    };
    store.add_account(&account).await.expect("an account");
    account.id
}

/// Adds a key to an account and returns its text.
pub async fn add_key(store: &Store, account: AccountId, workspace: Option<&str>) -> String {
    let text = keys::generate();
    let workspace = workspace.map(|id| id.parse::<WorkspaceId>().expect("an id"));
    let digest = keys::digest(text.reveal());
    let key = NewKey { account, workspace, name: "test", digest: &digest, last_four: keys::last_four(&text) };
    store.add_key(&key).await.expect("the key is stored");
    text.reveal().to_owned()
}
