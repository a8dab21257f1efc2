//! Audit log entries, and the rule for which requests are recorded: changes, refusals and reads of a secret.

use std::net::IpAddr;

use crate::identity::access::Credential;
use hotdesk_base::ids::{AccountId, ComputerId, WorkspaceId};
use hotdesk_base::time::UnixMillis;

/// Subject of an entry whose route does not name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditAction {
    /// A sign-in, successful or not.
    SignIn,
    /// A sign-out.
    SignOut,
    /// A change of a password, successful or not.
    PasswordChange,
    /// A sign-in showed the right password and was asked for a code of the authenticator app.
    SecondFactorAsked,
    /// A person set an authenticator app up, or tried to.
    SecondFactorAdded,
    /// A person or `hotdesk admin` removed an authenticator app, or a person tried to.
    SecondFactorRemoved,
    /// A person began to connect their account with a person at the operator's provider.
    ProviderConnected,
    /// A person ended that connection, or tried to.
    ProviderDisconnected,
    /// A person began to add a passkey, or added one, or tried to.
    PasskeyAdded,
    /// A person or `hotdesk admin` removed passkeys, or a person tried to.
    PasskeyRemoved,
    /// A person replaced the recovery codes of the authenticator app, or tried to.
    RecoveryCodesMade,
    /// A person gave an MCP client access to a workspace; the target is the connection.
    ConsentGiven,
    /// A person refused access to an MCP client.
    ConsentRefused,
    /// An MCP client got the first tokens of a connection.
    TokenIssued,
    /// An MCP client refreshed its tokens.
    TokenRefreshed,
    /// A code or refresh token was used twice, which ended the connection.
    TokenReused,
    /// A connection was revoked, by its person or by its client.
    ConnectionRevoked,
    /// A person approved a program's request for a key; the target is the key.
    DeviceApproved,
    /// A person denied a program's request for a key.
    DeviceDenied,
    /// The service ended a computer whose trial was over.
    TrialEnd,
    /// A plan, a payment, or the billing of a computer changed, by an event of the payment service or by
    /// `hotdesk admin`.
    BillingChange,
    /// `hotdesk admin` created an account; the target is the account.
    AccountMade,
    /// `hotdesk admin` created a key; the target is the key.
    KeyMade,
    /// A person confirmed the address of the account.
    AddressVerified,
}

impl AuditAction {
    /// Every action.
    pub const ALL: [Self; 24] = [
        Self::SignIn,
        Self::SignOut,
        Self::PasswordChange,
        Self::SecondFactorAsked,
        Self::SecondFactorAdded,
        Self::SecondFactorRemoved,
        Self::RecoveryCodesMade,
        Self::PasskeyAdded,
        Self::PasskeyRemoved,
        Self::ProviderConnected,
        Self::ProviderDisconnected,
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
        Self::AddressVerified,
    ];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::SignOut => "sign_out",
            Self::PasswordChange => "password_change",
            Self::SecondFactorAsked => "second_factor_asked",
            Self::SecondFactorAdded => "second_factor_added",
            Self::SecondFactorRemoved => "second_factor_removed",
            Self::RecoveryCodesMade => "recovery_codes_made",
            Self::PasskeyAdded => "passkey_added",
            Self::PasskeyRemoved => "passkey_removed",
            Self::ProviderConnected => "provider_connected",
            Self::ProviderDisconnected => "provider_disconnected",
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
            Self::AddressVerified => "address_verified",
        }
    }

    /// Returns the action with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// One request in the audit log. It has no text from the request, except the name of the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time of the request.
    pub at: UnixMillis,
    /// Account of the caller; `None` when it is unknown.
    pub account: Option<AccountId>,
    /// Credential of the request.
    pub credential: Option<Credential>,
    /// Name of the key or of the MCP client. For a person's decision about a program or client: the name that
    /// the program gave itself.
    pub client: Option<String>,
    /// Client address; `None` for a process on this host that used a Unix socket.
    pub source: Option<IpAddr>,
    /// HTTP method; empty for an action of the service itself or of `hotdesk admin`.
    pub method: String,
    /// Pattern of the route, never the path.
    pub route: String,
    /// Subject, where the route does not name it.
    pub action: Option<AuditAction>,
    /// Account that owns the workspace, or the account of the sign-in attempt.
    pub owner: Option<AccountId>,
    /// Workspace of the request.
    pub workspace: Option<WorkspaceId>,
    /// Computer of the request.
    pub computer: Option<ComputerId>,
    /// Id of another object of the request, for example a key.
    pub target: Option<String>,
    /// Whether the caller is not a member of the workspace.
    pub stranger: bool,
    /// How the request ended.
    pub outcome: AuditOutcome,
    /// Error code of the answer.
    pub code: Option<String>,
    /// `X-Request-Id` of the answer.
    pub request_id: String,
}

impl Entry {
    /// Creates an entry for an action of the service itself.
    pub fn of_the_service(at: UnixMillis, action: AuditAction) -> Self {
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
            outcome: AuditOutcome::Done(None),
            code: None,
            request_id: String::new(),
        }
    }

    /// Whether the request has neither a known caller nor the account of a sign-in attempt. Anonymous clients
    /// can cause any number of these entries.
    pub fn is_unattributed(&self) -> bool {
        self.account.is_none() && self.owner.is_none() && !self.method.is_empty()
    }
}

/// How a request ended. The number is the HTTP status of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// It was done. An action of the service itself has no status, because it is recorded after it is done.
    Done(Option<u16>),
    /// Its caller is not permitted: 401 or 403.
    Refused(u16),
    /// It failed.
    Failed(u16),
    /// The client left, or its credential was revoked, before the answer. The request may have been done.
    Unanswered,
}

impl AuditOutcome {
    /// A change that is answered with its result.
    pub const CHANGED: Self = Self::Done(Some(200));
    /// A new object, which is the answer.
    pub const CREATED: Self = Self::Done(Some(201));
    /// A change that is answered with a redirection to the next page.
    pub const REDIRECTED: Self = Self::Done(Some(303));

    /// Returns the outcome of a request that was answered with this HTTP status.
    pub fn of_answer(status: u16) -> Self {
        match status {
            401 | 403 => Self::Refused(status),
            400.. => Self::Failed(status),
            _ => Self::Done(Some(status)),
        }
    }

    /// Returns the HTTP status of the answer, if there was one.
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Done(status) => status,
            Self::Refused(status) | Self::Failed(status) => Some(status),
            Self::Unanswered => None,
        }
    }

    /// Returns the name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
            Self::Unanswered => "unanswered",
        }
    }
}

/// Whether a request is recorded. Rate-limited requests (429) are not: a flood of requests must not become a
/// flood of rows. The controller records one refused sign-in per minute and account nevertheless.
pub fn is_recorded(changes: bool, tells_a_secret: bool, outcome: AuditOutcome) -> bool {
    outcome != AuditOutcome::Failed(429)
        && (changes || tells_a_secret || matches!(outcome, AuditOutcome::Refused(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_refusals_and_reads_of_secrets_are_recorded() {
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
            let outcome = status.map_or(AuditOutcome::Unanswered, AuditOutcome::of_answer);
            assert_eq!(is_recorded(changes, secret, outcome), kept, "{changes} {secret} {status:?}");
        }
    }

    #[test]
    fn an_action_of_the_service_has_the_result_done() {
        let entry = Entry::of_the_service(UnixMillis::EPOCH, AuditAction::TrialEnd);
        assert!(entry.outcome.name() == "done" && !entry.is_unattributed());
        let request = Entry { method: "POST".to_owned(), ..entry };
        assert!(request.is_unattributed());
        assert!(!Entry { owner: Some(AccountId::random()), ..request }.is_unattributed());
    }

    #[test]
    fn names_go_there_and_back() {
        for action in AuditAction::ALL {
            assert_eq!(AuditAction::from_name(action.name()), Some(action));
        }
        assert_eq!(AuditAction::from_name(""), None);
    }

    #[test]
    fn a_status_is_a_word() {
        for (status, word) in
            [(201, "done"), (303, "done"), (403, "refused"), (404, "failed"), (503, "failed")]
        {
            let outcome = AuditOutcome::of_answer(status);
            assert_eq!((outcome.name(), outcome.status()), (word, Some(status)));
        }
        assert_eq!(
            (AuditOutcome::Unanswered.name(), AuditOutcome::Unanswered.status()),
            ("unanswered", None)
        );
    }
}
