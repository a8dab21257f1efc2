//! `hotdesk admin`: accounts, plans and payments in a data folder, managed without a server.
//!
//! The command writes to the store directly, also beside a running controller. The database isolates the two, and the
//! controller reads the store at every request. Write access to the folder already gives all of these rights. Only the
//! owner may run the command, so that no file in the folder gets another owner.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

mod billing;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Column, ListView};
use crate::{read_secret, runtime};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_controller::config::{Config, Flags};
use hotdesk_controller::identity::auth::keys;
use hotdesk_controller::identity::auth::session::{MAX_PASSWORD, hash_password};
use hotdesk_controller::identity::people::invitations::person_name;
use hotdesk_domain::audit::{AuditAction, Entry};
use hotdesk_domain::identity::email::Email;
use hotdesk_domain::name::Name;
use hotdesk_domain::plural::plural;
use hotdesk_store::Store;
use hotdesk_store::database::Access;
use hotdesk_store::identity::accounts::NewKey;
use hotdesk_store::identity::people::Account;

/// Options that select the data folder.
#[derive(Debug, Args)]
pub struct Folder {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "HOTDESK_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// Data folder.
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

impl Folder {
    /// Returns the configuration of a folder with a store.
    ///
    /// # Errors
    /// When the configuration is invalid, or the folder has no store or belongs to another user.
    pub fn load(&self) -> Outcome<Config> {
        let flags = Flags { data_dir: self.data_dir.clone(), ..Flags::default() };
        let config = Config::load(self.config.as_deref(), &flags)?;
        let file = if config.store.is_embedded() { config.store_file() } else { config.store_dir() };
        check_owner(&file)?;
        Ok(config)
    }
}

/// Checks that this user owns a store's file or folder.
///
/// # Errors
/// When it does not exist, or belongs to another user.
pub(super) fn check_owner(path: &Path) -> Outcome<()> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| {
        format!("cannot open {shown}: {error}; the first start of `hotdesk serve` creates it")
    })?;
    if metadata.uid() == nix::unistd::geteuid().as_raw() {
        return Ok(());
    }
    let owner = metadata.uid();
    Err(format!("{shown} belongs to the user with id {owner}: run this command as that user").into())
}

/// `hotdesk admin`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List accounts; the first one is the operator's.
    List(ListView),
    /// Create an account; the password is read from standard input.
    Add {
        /// E-mail address for the sign-in.
        email: String,
        /// Display name.
        #[arg(long, default_value = "")]
        name: String,
        /// Set no password: no sign-in is possible, but API keys are.
        #[arg(long)]
        no_password: bool,
    },
    /// Set the password of an account (read from standard input) and sign out its browsers.
    Password {
        /// E-mail address of the account.
        email: String,
    },
    /// Remove the authenticator app, the recovery codes and the passkeys of an account: its password signs it in alone
    /// again.
    ResetSecondFactor {
        /// E-mail address of the account.
        email: String,
    },
    /// Set the plan of an account.
    Plan(billing::PlanOptions),
    /// Set the payment state of an account.
    Payment(billing::PaymentOptions),
    /// Set the billing of a computer.
    Billing(billing::ComputerOptions),
    /// Create an account-wide API key and print it.
    Key {
        /// E-mail address of the account.
        email: String,
        /// Name of the key.
        #[arg(long, default_value = "created by hotdesk admin")]
        name: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// When the folder has no store or belongs to another user, an argument is invalid, the account does not exist (or
/// already exists, for `add`), or the store fails.
pub fn run(folder: &Folder, command: Command, json: bool) -> Outcome<()> {
    let config = folder.load()?;
    runtime()?.block_on(async {
        let store = config.open_store(Access::Shared).await?;
        // Not closed: closing reserves disk space for the next start, which a running controller would lack.
        execute(&store, &config, command, json).await
    })
}

async fn execute(store: &Store, config: &Config, command: Command, json: bool) -> Outcome<()> {
    match command {
        Command::List(view) => list(&store.accounts().await?, view, json),
        Command::Add { email, name, no_password } => {
            let email = Email::parse(&email)?;
            let name = person_name(&name)?;
            let hash = if no_password { None } else { Some(read_password().await?) };
            let account = Account::person(&email, &name, hash);
            store.add_account(&account).await?;
            record(store, account.id, AuditAction::AccountMade, account.id.to_string()).await?;
            output::line(&format!("Created account {} ({email}).", account.id))
        }
        Command::Password { email } => {
            let account = find(store, &email).await?;
            let hash = read_password().await?;
            store.set_password(account.id, &hash, None).await?;
            record(store, account.id, AuditAction::PasswordChange, account.id.to_string()).await?;
            output::line(&format!("Changed the password of {}.", account.email))
        }
        Command::ResetSecondFactor { email } => {
            let account = find(store, &email).await?;
            reset_second_factor(store, &account).await
        }
        Command::Plan(options) => billing::plan(store, config, &options).await,
        Command::Payment(options) => billing::payment(store, config, &options).await,
        Command::Billing(options) => billing::computer(store, config, &options).await,
        Command::Key { email, name } => {
            let account = find(store, &email).await?.id;
            let name = Name::parse(&name)?;
            let key = keys::generate();
            let (digest, last_four) = (keys::digest(key.reveal()), keys::last_four(&key));
            let new = NewKey { account, workspace: None, name: name.as_str(), digest: &digest, last_four };
            let id = store.add_key(&new).await?;
            record(store, account, AuditAction::KeyMade, id.to_string()).await?;
            output::line(key.reveal())
        }
    }
}

/// Removes what signs an account in beside its password: the person's device is lost, and may hold all of it.
async fn reset_second_factor(store: &Store, account: &Account) -> Outcome<()> {
    let email = &account.email;
    let removed = store.remove_factors(account.id).await?;
    let mut names = Vec::new();
    if removed.authenticator_app {
        record(store, account.id, AuditAction::SecondFactorRemoved, account.id.to_string()).await?;
        names.push("the authenticator app".to_owned());
    }
    if removed.passkeys > 0 {
        record(store, account.id, AuditAction::PasskeyRemoved, account.id.to_string()).await?;
        names.push(plural(removed.passkeys, "passkey"));
    }
    if names.is_empty() {
        return Err(format!("{email} has no authenticator app and no passkey").into());
    }
    output::line(&format!("Removed {} of {email}.", names.join(" and ")))?;
    if account.password_hash.is_none() {
        output::line(&format!("It has no password: set one with `hotdesk admin password {email}`."))?;
    }
    Ok(())
}

/// Records the action in the audit log of the account's owner.
async fn record(store: &Store, owner: AccountId, action: AuditAction, target: String) -> Outcome<()> {
    let line = Entry::of_the_service(clock::now(), action);
    Ok(store.add_audit(&[Entry { owner: Some(owner), target: Some(target), ..line }]).await?)
}

fn list(accounts: &[Account], view: ListView, json: bool) -> Outcome<()> {
    let plan = |it: &Account| it.plan.clone().unwrap_or_default();
    if json {
        let rows: Vec<_> = accounts
            .iter()
            .map(|it| {
                json!({"id": it.id.to_string(), "email": it.email, "email_verified": it.email_verified,
                    "full_name": it.full_name, "kind": it.kind,
                    "plan": it.plan, "has_password": it.password_hash.is_some(), "created_at": it.created_at.iso8601()})
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
    let columns = [
        Column::Text("E-MAIL"),
        Column::Text("NAME"),
        Column::Text("KIND"),
        Column::Text("PLAN"),
        Column::Text("PASSWORD"),
        Column::Id("ID"),
    ];
    output::list(view, &columns, accounts.iter().map(row).collect(), "There are no accounts.")
}

async fn find(store: &Store, email: &str) -> Outcome<Account> {
    let email = Email::parse(email)?;
    let found = store.account_of(email.as_str()).await?;
    found.ok_or_else(|| {
        Failure::Failed(format!("there is no account {email}: list them with `hotdesk admin list`"))
    })
}

/// Reads a new password and returns its argon2 hash.
async fn read_password() -> Outcome<String> {
    let text = read_secret("New password: ", MAX_PASSWORD as u64 + 1)?;
    // The newline is not part of the password.
    let password = text.reveal().trim_end_matches(['\r', '\n']);
    Ok(hash_password(Secret::new(password)).await?)
}
