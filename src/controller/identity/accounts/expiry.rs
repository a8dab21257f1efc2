//! What becomes of agents' accounts that nobody claimed, and of what a person left of a claimed one? They go: keys first, then
//! computers and files, then the account. Each step can be done again, so that a crash is followed by the next round.

use crate::Shared;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::Result;
use hotdesk_store::workspaces::Workspace;

/// Removes every account whose time is over; those that do not go now are tried again in the next round.
pub async fn remove_expired(app: Shared) -> Result<()> {
    app.agents.sweep();
    for account in app.store.expired_agents().await? {
        match remove(&app, account).await {
            Ok(()) => tracing::info!(%account, "an agent's account is gone"),
            Err(error) => tracing::warn!(%account, %error, "an agent's account is still to be removed"),
        }
    }
    Ok(())
}

async fn remove(app: &Shared, account: AccountId) -> Result<()> {
    app.store.begin_agent_removal(account).await?;
    // What others let it into stays theirs.
    let own = |workspace: &Workspace| workspace.account == account;
    for workspace in app.store.workspaces(account).await?.into_iter().filter(own) {
        app.remove_computers(account, workspace.id).await?;
        let files = app.store.remove_workspace(workspace.id).await?;
        app.storage.forget(&files).await;
    }
    app.store.finish_agent_removal(account).await
}
