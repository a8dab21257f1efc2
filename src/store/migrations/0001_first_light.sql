-- Times are milliseconds since the Unix epoch; ids are UUIDs as text; flags are 0 or 1 (one form for SQLite and PostgreSQL).
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE accounts (
    id         TEXT PRIMARY KEY,
    email      TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE TABLE workspaces (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    name        TEXT NOT NULL,
    name_folded TEXT NOT NULL,
    icon_url    TEXT,
    status      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    UNIQUE (account_id, name_folded)
);
-- An API key: its SHA-256 only, the text was shown once.
CREATE TABLE api_keys (
    id           TEXT PRIMARY KEY,
    account_id   TEXT NOT NULL REFERENCES accounts (id),
    workspace_id TEXT REFERENCES workspaces (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    digest       TEXT NOT NULL UNIQUE,
    last_four    TEXT NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE TABLE computers (
    id                TEXT PRIMARY KEY,
    workspace_id      TEXT NOT NULL REFERENCES workspaces (id),
    name              TEXT NOT NULL,
    name_folded       TEXT NOT NULL,
    cpu               DOUBLE PRECISION NOT NULL,
    ram_gb            BIGINT NOT NULL,
    disk_gb           BIGINT NOT NULL,
    resolution        TEXT NOT NULL,
    auto_stop_minutes BIGINT NOT NULL,
    status            TEXT NOT NULL,
    instance_id       TEXT NOT NULL UNIQUE,
    generation        BIGINT NOT NULL,
    agent_token       TEXT NOT NULL,
    vnc_password      TEXT NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    UNIQUE (workspace_id, name_folded)
);
-- A file of a workspace; its bytes are in the blob folder under its id.
CREATE TABLE files (
    id           TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    computer_id  TEXT REFERENCES computers (id) ON DELETE CASCADE,
    filename     TEXT NOT NULL,
    size_bytes   BIGINT NOT NULL,
    content_type TEXT NOT NULL,
    source       TEXT NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE INDEX files_by_workspace ON files (workspace_id, created_at);
-- What became of a file on a computer; a pair without a row is still to be delivered.
CREATE TABLE deliveries (
    file_id      TEXT NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    computer_id  TEXT NOT NULL REFERENCES computers (id) ON DELETE CASCADE,
    outcome      TEXT NOT NULL,
    delivered_at BIGINT NOT NULL,
    PRIMARY KEY (file_id, computer_id)
);
