-- Secrets of accounts and workspaces for their computers. Each belongs to one of the two; `value` is sealed.
CREATE TABLE secrets (
    id           TEXT PRIMARY KEY,
    account_id   TEXT REFERENCES accounts (id) ON DELETE CASCADE,
    workspace_id TEXT REFERENCES workspaces (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    value        TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    CHECK ((account_id IS NULL) <> (workspace_id IS NULL)),
    UNIQUE (account_id, name),
    UNIQUE (workspace_id, name)
);
