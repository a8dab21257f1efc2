//! Tables of a store, in an order in which rows can be inserted.

/// All tables but that of the migrations. A table follows those that its rows refer to.
pub(super) const TABLES: [&str; 50] = [
    "meta",
    "installation_secrets",
    "data_keys",
    "sealed_columns",
    "accounts",
    "workspaces",
    "workspace_keys",
    "members",
    "invitations",
    "email_verifications",
    "agent_accounts",
    "api_keys",
    "ssh_keys",
    "sessions",
    "sign_in_links",
    "second_factors",
    "recovery_codes",
    "passkeys",
    "provider_identities",
    "device_requests",
    "oauth_clients",
    "oauth_grants",
    "clients",
    "secrets",
    "templates",
    "template_builds",
    "template_layers",
    "template_stars",
    "computers",
    "earlier_instances",
    "snapshots",
    "saved_copies",
    "boot_snapshots",
    "pooled_machines",
    "files",
    "deliveries",
    "stream_connections",
    "threads",
    "thread_messages",
    "thread_steps",
    "timelines",
    "timeline_entries",
    "audit",
    "idempotent_requests",
    "runs",
    "ai_spend",
    "billing_events",
    "gone_hosts",
    "host_drains",
    "leases",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::connections::{Access, Connections};
    use crate::database::fixture::TestDatabase;
    use crate::database::schema;

    #[tokio::test]
    async fn the_list_has_every_table_once() {
        let test = TestDatabase::new();
        let connections = Connections::open(&test.database, Access::Shared).await.unwrap();
        schema::migrate(&connections).await.unwrap();
        let mut found = test.tables(&connections).await;
        found.retain(|name| name != "_sqlx_migrations");
        let mut listed = TABLES.map(str::to_owned);
        listed.sort();
        assert_eq!(listed.as_slice(), found);
    }
}
