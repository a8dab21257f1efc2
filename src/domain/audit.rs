//! What is written down of a request, and which requests are? Those that change something, those that are refused, and those
//! that read a secret.

use std::net::IpAddr;

use super::access::Credential;
use hotdesk_base::ids::{AccountId, ComputerId, WorkspaceId};

/// What an entry is about, where its route does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Somebody signed in, or tried to.
    SignIn,
    /// Somebody signed out.
    SignOut,
    /// Somebody changed a password, or tried to.
    PasswordChange,
    /// A person let an MCP client into a workspace; the target is the connection.
    ConsentGiven,
    /// A person did not let an MCP client in.
    ConsentRefused,
    /// An MCP client got the first tokens of a connection.
    TokenIssued,
    /// An MCP client got the next ones.
    TokenRefreshed,
    /// A code or a refresh token was used a second time, which ended the connection.
    TokenReused,
    /// A connection was ended: by its person, or by its client, which gave its tokens back.
    ConnectionRevoked,
    /// A person let a program have a key; the target is the key.
    DeviceApproved,
    /// A person let a program have none.
    DeviceDenied,
    /// The service ended a computer whose trial was over.
    TrialEnd,
    /// An account's plan or payment, or how a computer is paid for, became another: by an event of the payment service, or by
    /// whoever owns the data folder.
    BillingChange,
    /// Whoever owns the data folder made an account; the target is the account.
    AccountMade,
    /// Whoever owns the data folder made a key for an account; the target is the key.
    KeyMade,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 15] = [
        Self::SignIn,
        Self::SignOut,
        Self::PasswordChange,
        Self::ConsentGiven,
        Self::ConsentRefused,
        Self::TokenIssued,
        Self::TokenRefreshed,
        Self::TokenReused,
        Self::ConnectionRevoked,
        Self::DeviceApproved,
        Self::DeviceDenied,
        Self::TrialEnd,
        Self::BillingChange,
        Self::AccountMade,
        Self::KeyMade,
    ];

    /// Its word on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::SignOut => "sign_out",
            Self::PasswordChange => "password_change",
            Self::ConsentGiven => "consent_given",
            Self::ConsentRefused => "consent_refused",
            Self::TokenIssued => "token_issued",
            Self::TokenRefreshed => "token_refreshed",
            Self::TokenReused => "token_reused",
            Self::ConnectionRevoked => "connection_revoked",
            Self::DeviceApproved => "device_approved",
            Self::DeviceDenied => "device_denied",
            Self::TrialEnd => "trial_end",
            Self::BillingChange => "billing_change",
            Self::AccountMade => "account_made",
            Self::KeyMade => "key_made",
        }
    }

    /// The action of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// One request as the audit log keeps it: no text that anybody sent but a credential's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it came, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The account that sent it; `None` for nobody known.
    pub account: Option<AccountId>,
    /// What was shown.
    pub credential: Option<Credential>,
    /// What the credential is called: a key's name, an MCP client's; of a person's decision what it is about calls itself.
    pub client: Option<String>,
    /// Where it came from; `None` for a process on this machine by a unix socket.
    pub source: Option<IpAddr>,
    /// Its method; empty for what the service does by itself, or whoever owns its data folder.
    pub method: String,
    /// Its route's pattern, never its path.
    pub route: String,
    /// What it is about, where the route does not say it.
    pub action: Option<Action>,
    /// The account that owns the workspace, or that was to be signed in to.
    pub owner: Option<AccountId>,
    /// The workspace that it was about.
    pub workspace: Option<WorkspaceId>,
    /// The computer that it was about.
    pub computer: Option<ComputerId>,
    /// The id of what else it was about, a key for example.
    pub target: Option<String>,
    /// Whoever sent it has no part in the workspace.
    pub stranger: bool,
    /// The answer's status; `None` when nobody waited for it.
    pub status: Option<u16>,
    /// The refusal's code.
    pub code: Option<String>,
    /// The request's id, as the client was told.
    pub request_id: String,
}

impl Entry {
    /// An entry of what the service does by itself.
    pub fn of_the_service(at: i64, action: Action) -> Self {
        Self {
            at,
            account: None,
            credential: None,
            client: None,
            source: None,
            method: String::new(),
            route: String::new(),
            action: Some(action),
            owner: None,
            workspace: None,
            computer: None,
            target: None,
            stranger: false,
            status: None,
            code: None,
            request_id: String::new(),
        }
    }

    /// Whether nobody known is behind it, nor an account that it was tried to sign in to: anybody can cause as many of these as
    /// they like.
    pub fn is_nobodys(&self) -> bool {
        self.account.is_none() && self.owner.is_none() && !self.method.is_empty()
    }

    /// What became of it. What the service does by itself is written down once it is done.
    pub fn result(&self) -> Result {
        if self.method.is_empty() { Result::Done } else { Result::of(self.status) }
    }
}

/// What became of a request, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// It was carried out.
    Done,
    /// Whoever asked may not: 401 or 403.
    Refused,
    /// It could not be carried out.
    Failed,
    /// The client left, or its credential ended, before there was an answer. It may have been carried out.
    Unanswered,
}

impl Result {
    /// What an answer's status stands for.
    pub fn of(status: Option<u16>) -> Self {
        match status {
            None => Self::Unanswered,
            Some(401 | 403) => Self::Refused,
            Some(400..) => Self::Failed,
            Some(_) => Self::Done,
        }
    }

    /// Its word on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
        }
    }
}

/// Whether a request is written down. What was one too many (429) is not: a flood must not become one of rows;
/// of refused sign-ins the controller tells one a minute and account all the same.
pub fn is_kept(changes: bool, tells_a_secret: bool, status: Option<u16>) -> bool {
    status != Some(429) && (changes || tells_a_secret || Result::of(status) == Result::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_refusals_and_reads_of_secrets_are_kept() {
        for (changes, secret, status, kept) in [
            (true, false, Some(200), true),
            (true, false, Some(500), true),
            (true, false, None, true),
            (true, true, Some(429), false),
            (false, false, Some(200), false),
            (false, false, Some(404), false),
            (false, false, Some(401), true),
            (false, false, Some(403), true),
            (false, false, None, false),
            (false, true, Some(200), true),
        ] {
            assert_eq!(is_kept(changes, secret, status), kept, "{changes} {secret} {status:?}");
        }
    }

    #[test]
    fn what_the_service_does_is_done_when_it_is_told() {
        let entry = Entry::of_the_service(1, Action::TrialEnd);
        assert!(entry.result() == Result::Done && !entry.is_nobodys());
        let request = Entry { method: "POST".to_owned(), ..entry };
        assert!(request.result() == Result::Unanswered && request.is_nobodys());
        assert!(!Entry { owner: Some(AccountId::random()), ..request }.is_nobodys());
    }

    #[test]
    fn names_go_there_and_back() {
        for action in Action::ALL {
            assert_eq!(Action::named(action.name()), Some(action));
        }
        assert_eq!(Action::named(""), None);
    }

    #[test]
    fn a_status_is_a_word() {
        for (status, word) in [
            (Some(201), "done"),
            (Some(303), "done"),
            (Some(403), "refused"),
            (Some(404), "failed"),
            (Some(503), "failed"),
            (None, "unanswered"),
        ] {
            assert_eq!(Result::of(status).name(), word);
        }
    }
}
