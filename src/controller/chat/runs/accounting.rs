//! Costs of runs on computers of an operator's clients, which count against the client's monthly cap.

use hotdesk_base::clock;
use hotdesk_base::ids::{ThreadId, WorkspaceId};
use hotdesk_base::time::parse_month;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_store::Store;
use hotdesk_store::identity::clients::Client;

/// Millionths of a cent in a micro-dollar: a dollar has 100 cents.
const MICROCENTS_IN_MICRODOLLAR: i64 = 100;

/// Account of a client; nothing is counted for other workspaces.
#[derive(Debug)]
pub struct ClientAccount {
    store: Store,
    client: Option<Client>,
}

impl ClientAccount {
    /// The account of a workspace.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn of(store: Store, workspace: WorkspaceId) -> Result<Self> {
        let client = store.client_of(workspace).await?;
        Ok(Self { store, client })
    }

    /// An account for which nothing is counted.
    pub fn free(store: Store) -> Self {
        Self { store, client: None }
    }

    /// What is left of this month's cap, in micro-dollars; `None` without a cap.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn balance(&self) -> Result<Option<i64>> {
        let Some(client) = &self.client else { return Ok(None) };
        // The cap may have changed since the run began.
        let client = self.store.past_client(client.account, client.id).await?;
        let Some(cap) = client.terms.monthly_ai_cap else { return Ok(None) };
        let month = clock::now().month();
        let within = parse_month(&month).ok_or_else(|| Error::internal("this month has no bounds"))?;
        let spent = self.store.ai_spend(client.id, &within).await?;
        Ok(Some(cap.saturating_sub(spent).max(0)))
    }

    /// Checks that something is left of the cap.
    ///
    /// # Errors
    /// `PaymentRequired` (`credits_exhausted`); `Unavailable` or `Internal` when the store fails.
    pub async fn check(&self) -> Result<()> {
        match self.balance().await? {
            Some(0) => Err(exhausted()),
            Some(_) | None => Ok(()),
        }
    }

    /// Records the cost of a turn, in millionths of a cent, and returns whether the client may go on. A cost
    /// with the same `entry` is recorded once. A turn that exceeds the cap counts up to the cap: it has been
    /// paid already, and the cap is never exceeded.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn charge(&self, thread: ThreadId, entry: &str, microcents: i64) -> Result<bool> {
        let Some(client) = &self.client else { return Ok(true) };
        // Rounded up: no turn is free by rounding.
        let cost =
            microcents.max(0).saturating_add(MICROCENTS_IN_MICRODOLLAR - 1) / MICROCENTS_IN_MICRODOLLAR;
        if cost == 0 {
            return Ok(true);
        }
        let note = thread.to_string();
        let recorded = self.store.add_ai_cost(client, entry, cost, &note).await;
        match recorded {
            Ok(_) => Ok(true),
            Err(error) if error.code == Some(ErrorCode::CreditsExhausted) => {
                let left = self.balance().await?.unwrap_or(0);
                if left == 0 {
                    return Ok(false);
                }
                // Another run may use up the rest meanwhile.
                match self.store.add_ai_cost(client, entry, left.min(cost), &note).await {
                    Ok(_) => Ok(false),
                    Err(error) if error.code == Some(ErrorCode::CreditsExhausted) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// The error of a client that has used its cap.
pub fn exhausted() -> Error {
    Error::payment_required("This client has used its monthly cap for AI models: its operator can raise it")
        .code(ErrorCode::CreditsExhausted)
        .number("balance_cents", 0)
}
