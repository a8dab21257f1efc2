-- Public keys with which an account opens SSH connections to its computers.
CREATE TABLE ssh_keys (
    id           TEXT PRIMARY KEY,
    account_id   TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- The only workspace whose computers it opens, for a key that an API key of that workspace added. NULL: all.
    workspace_id TEXT REFERENCES workspaces (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    -- Type and key, in the format of OpenSSH.
    public_key   TEXT NOT NULL,
    fingerprint  TEXT NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE INDEX ssh_keys_by_account ON ssh_keys (account_id);
CREATE INDEX ssh_keys_by_workspace ON ssh_keys (workspace_id);
