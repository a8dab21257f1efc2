//! `hotdesk admin`: who has an account here, with which plan, and how does whoever owns the data folder manage that without a
//! browser?
//!
//! It writes to the store itself, beside a controller that may run: SQLite keeps the two apart (WAL, `BEGIN IMMEDIATE`), and
//! the controller asks the store at every request. Whoever can write the folder could do all of this anyway; the owner alone
//! may, so that no file in it becomes another's.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

mod billing;

use super::failure::{Failure, Outcome};
use super::{output, read_secret, runtime};
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_controller::auth::keys;
use hotdesk_controller::auth::session::{MAX_PASSWORD, hash_password};
use hotdesk_controller::config::{Config, Flags};
use hotdesk_controller::people::invitations::person_name;
use hotdesk_domain::audit::{Action, Entry};
use hotdesk_domain::email::Email;
use hotdesk_domain::error::Error;
use hotdesk_domain::name::Name;
use hotdesk_store::Store;
use hotdesk_store::accounts::NewKey;
use hotdesk_store::people::Account;

/// Which data folder.
#[derive(Debug, Args)]
pub struct Folder {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "HOTDESK_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// Folder of the store.
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

/// `hotdesk admin`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the accounts; the first one is the operator's.
    List,
    /// Make an account; its password is read from standard input.
    Add {
        /// The address that it signs in with.
        email: String,
        /// What it is called.
        #[arg(long, default_value = "")]
        name: String,
        /// Read no password: nobody signs in to it, but a key can be made for it.
        #[arg(long)]
        no_password: bool,
    },
    /// Set an account's password, read from standard input; its browsers are signed out.
    Password {
        /// The account's address.
        email: String,
    },
    /// Give an account a plan.
    Plan(billing::PlanOptions),
    /// Say whether an account is paid.
    Payment(billing::PaymentOptions),
    /// Say how a computer is paid for.
    Billing(billing::ComputerOptions),
    /// Make an account-wide key for an account, and print it.
    Key {
        /// The account's address.
        email: String,
        /// What the key is called.
        #[arg(long, default_value = "made by hotdesk admin")]
        name: String,
    },
}

/// Does it.
///
/// # Errors
/// When the folder has no store, is another's, or the account is not there (or is, for a new one).
pub fn run(folder: &Folder, command: Command, json: bool) -> Outcome<()> {
    let flags = Flags { data_dir: folder.data_dir.clone(), ..Flags::default() };
    let config = Config::load(folder.config.as_deref(), &flags)?;
    let file = config.data_dir.join("hotdesk.db");
    let shown = file.display();
    let found = std::fs::metadata(&file)
        .map_err(|error| format!("{shown}: {error} (`hotdesk serve` makes it when it first starts)"))?;
    if found.uid() != nix::unistd::geteuid().as_raw() {
        return Err(format!("{shown} is the user's with id {}: run this as that user", found.uid()).into());
    }
    runtime()?.block_on(async {
        let store = Store::open(&file).await.map_err(told)?;
        // Not closed: what closing keeps for a store at rest would be taken from a controller that runs.
        act(&store, &config, command, json).await
    })
}

async fn act(store: &Store, config: &Config, command: Command, json: bool) -> Outcome<()> {
    match command {
        Command::List => list(&store.accounts().await.map_err(told)?, json),
        Command::Add { email, name, no_password } => {
            let email = Email::parse(&email).map_err(told)?;
            let name = person_name(&name).map_err(told)?;
            let hash = if no_password { None } else { Some(read_password().await?) };
            let account = Account::person(&email, &name, hash);
            store.add_account(&account).await.map_err(told)?;
            write_down(store, account.id, Action::AccountMade, account.id.to_string()).await?;
            output::line(&format!("Made account {} ({email}).", account.id))
        }
        Command::Password { email } => {
            let account = find(store, &email).await?;
            let hash = read_password().await?;
            store.set_password(account.id, &hash, None).await.map_err(told)?;
            write_down(store, account.id, Action::PasswordChange, account.id.to_string()).await?;
            output::line(&format!("{} has a new password.", account.email))
        }
        Command::Plan(options) => billing::plan(store, config, &options).await,
        Command::Payment(options) => billing::payment(store, config, &options).await,
        Command::Billing(options) => billing::computer(store, config, &options).await,
        Command::Key { email, name } => {
            let account = find(store, &email).await?.id;
            let name = Name::parse(&name).map_err(told)?;
            let key = keys::fresh();
            let (digest, last_four) = (keys::digest(key.reveal()), keys::last_four(&key));
            let new = NewKey { account, workspace: None, name: name.as_str(), digest: &digest, last_four };
            let made = store.add_key(&new).await.map_err(told)?;
            write_down(store, account, Action::KeyMade, made.to_string()).await?;
            output::line(key.reveal())
        }
    }
}

/// Tells an account's owner by the audit log what was done with it here.
async fn write_down(store: &Store, owner: AccountId, action: Action, target: String) -> Outcome<()> {
    let line = Entry::of_the_service(now_ms(), action);
    store.add_audit(&[Entry { owner: Some(owner), target: Some(target), ..line }]).await.map_err(told)
}

fn list(accounts: &[Account], json: bool) -> Outcome<()> {
    let plan = |it: &Account| it.plan.clone().unwrap_or_default();
    if json {
        let rows: Vec<_> = accounts
            .iter()
            .map(|it| {
                json!({"id": it.id.to_string(), "email": it.email, "full_name": it.full_name, "kind": it.kind,
                    "plan": it.plan, "has_password": it.password_hash.is_some(), "created_at": iso8601(it.created_at)})
            })
            .collect();
        return output::line(&json!({ "accounts": rows }).to_string());
    }
    let row = |it: &Account| {
        let password = if it.password_hash.is_some() { "yes" } else { "no" };
        vec![
            it.email.clone(),
            it.full_name.clone(),
            it.kind.clone(),
            plan(it),
            password.to_owned(),
            it.id.to_string(),
        ]
    };
    output::table(&["E-MAIL", "NAME", "KIND", "PLAN", "PASSWORD", "ID"], accounts.iter().map(row).collect())
}

async fn find(store: &Store, email: &str) -> Outcome<Account> {
    let email = Email::parse(email).map_err(told)?;
    let found = store.account_of(email.as_str()).await.map_err(told)?;
    found.ok_or_else(|| Failure::Failed(format!("there is no account {email}")))
}

/// A new password's argon2 text.
async fn read_password() -> Outcome<String> {
    let text = read_secret("New password: ", MAX_PASSWORD as u64 + 1)?;
    // A line's end is not part of it.
    let password = text.reveal().trim_end_matches(['\r', '\n']);
    hash_password(Secret::new(password)).await.map_err(told)
}

/// Here the inside context is for the reader: it is their folder.
fn told(error: Error) -> Failure {
    Failure::Failed(error.to_string())
}
