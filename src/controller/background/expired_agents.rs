//! Removal of expired agent accounts, and of what a person did not keep of a claimed one.
//!
//! Keys go first, then computers and files, then the account. Each step can be repeated, so the next round
//! completes it after a crash.

use crate::AppState;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::Result;
use hotdesk_store::identity::workspaces::Workspace;

/// Removes every expired account. Those that fail are retried in the next round.
pub(super) async fn remove_expired(app: AppState) -> Result<()> {
    app.agent_signup.sweep();
    for account in app.store.expired_agents().await? {
        match remove(&app, account).await {
            Ok(()) => tracing::info!(%account, "removed an agent's account"),
            Err(error) => tracing::warn!(
                %account,
                error = format_args!("{error:#}"),
                "could not remove an agent's account; it is retried"
            ),
        }
    }
    Ok(())
}

async fn remove(app: &AppState, account: AccountId) -> Result<()> {
    app.store.begin_agent_removal(account).await?;
    // Workspaces of others in which it was a member stay.
    let own = |workspace: &Workspace| workspace.account == account;
    for workspace in app.store.workspaces(account).await?.into_iter().filter(own) {
        app.workspaces.remove(&workspace).await?;
    }
    app.store.finish_agent_removal(account).await
}
