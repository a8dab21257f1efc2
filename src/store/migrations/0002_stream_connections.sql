-- An RTMP server that screens may be streamed to. The key is kept as it is, because it has to be sent. Without a workspace
-- it is of the account-wide keys alone.
CREATE TABLE stream_connections (
    id           TEXT PRIMARY KEY,
    account_id   TEXT NOT NULL REFERENCES accounts (id),
    workspace_id TEXT REFERENCES workspaces (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    name_folded  TEXT NOT NULL,
    url          TEXT NOT NULL,
    stream_key   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    UNIQUE (account_id, name_folded)
);
