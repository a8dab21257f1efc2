-- Since when an account has its plan (NULL: since it was made), computers that it added to it, and whether it is paid:
-- 'current' or 'lapsed'.
ALTER TABLE accounts ADD COLUMN plan_since BIGINT;
ALTER TABLE accounts ADD COLUMN added_computers BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN payment TEXT NOT NULL DEFAULT 'current';
-- How a computer is paid for: 'included', 'trial', 'hourly', 'reservation' or 'dedicated'; and whether the service itself
-- manages it, as a device.
ALTER TABLE computers ADD COLUMN billing TEXT NOT NULL DEFAULT 'included';
ALTER TABLE computers ADD COLUMN payment TEXT NOT NULL DEFAULT 'current';
ALTER TABLE computers ADD COLUMN trial_ends_at BIGINT;
ALTER TABLE computers ADD COLUMN device BIGINT NOT NULL DEFAULT 0;
-- Events of a payment service that were carried out: each once.
CREATE TABLE billing_events (
    id          TEXT PRIMARY KEY,
    received_at BIGINT NOT NULL
);
-- When computers ran, and how large they were; without an end: they run still. Rows outlive what they name. A run that
-- this controller never saw ends when it was last seen.
CREATE TABLE runs (
    id           TEXT PRIMARY KEY,
    computer_id  TEXT NOT NULL,
    account_id   TEXT NOT NULL,
    client_id    TEXT,
    cpu          DOUBLE PRECISION NOT NULL,
    ram_gb       BIGINT NOT NULL,
    started_at   BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,
    ended_at     BIGINT
);
CREATE UNIQUE INDEX runs_under_way ON runs (computer_id) WHERE ended_at IS NULL;
CREATE INDEX runs_by_client ON runs (client_id, started_at);
-- Those for whom an operator runs desktops. A client that was removed keeps its row, for its usage.
CREATE TABLE clients (
    id              TEXT PRIMARY KEY,
    account_id      TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    workspace_id    TEXT REFERENCES workspaces (id),
    external_id     TEXT NOT NULL,
    name            TEXT NOT NULL,
    max_computers   BIGINT,
    monthly_ai_cap  BIGINT,
    billed_to       TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    removed_at      BIGINT
);
CREATE UNIQUE INDEX clients_by_external_id ON clients (account_id, external_id) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX clients_by_workspace ON clients (workspace_id);
-- What AI models cost a client, in millionths of a dollar.
CREATE TABLE ai_spend (
    id         TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    amount     BIGINT NOT NULL,
    note       TEXT NOT NULL,
    spent_at   BIGINT NOT NULL
);
CREATE INDEX ai_spend_by_client ON ai_spend (client_id, spent_at);
