-- An MCP client that registered itself (RFC 7591); one that a URL names has no row.
CREATE TABLE oauth_clients (
    id            TEXT PRIMARY KEY,
    name          TEXT,
    -- JSON, an array of strings.
    redirect_uris TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    -- When a person last let it in; NULL: nobody has.
    used_at       BIGINT
);
-- What a person granted to an MCP client: one workspace. First a code, then a connection with one access token and one refresh
-- token at a time, all by their SHA-256. `family` is the part that all refresh tokens of a connection share: one that has the
-- family and is not the current one was used before.
CREATE TABLE oauth_grants (
    id                TEXT PRIMARY KEY,
    account_id        TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    workspace_id      TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    client_id         TEXT NOT NULL,
    client_name       TEXT,
    redirect_uri      TEXT NOT NULL,
    resource          TEXT NOT NULL,
    challenge         TEXT NOT NULL,
    code              TEXT NOT NULL UNIQUE,
    code_expires_at   BIGINT NOT NULL,
    family            TEXT UNIQUE,
    refresh           TEXT,
    access            TEXT UNIQUE,
    access_expires_at BIGINT,
    created_at        BIGINT NOT NULL,
    expires_at        BIGINT NOT NULL,
    used_at           BIGINT
);
CREATE INDEX oauth_grants_by_account ON oauth_grants (account_id);
CREATE INDEX oauth_grants_by_client ON oauth_grants (client_id);
CREATE INDEX oauth_grants_by_workspace ON oauth_grants (workspace_id);
