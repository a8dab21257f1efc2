-- A computer's disk as it was at one moment, and with `memory` what it had in memory then. `bytes` are what it may take on
-- the host while it is being made, and what it takes when it is there. The token is the one that the memory knows.
CREATE TABLE snapshots (
    id          TEXT PRIMARY KEY,
    computer_id TEXT NOT NULL REFERENCES computers (id) ON DELETE CASCADE,
    name        TEXT,
    state       TEXT NOT NULL,
    memory      BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    agent_token TEXT,
    created_at  BIGINT NOT NULL
);
CREATE INDEX snapshots_by_computer ON snapshots (computer_id, created_at);
-- The snapshot that a rollback under way leads to; the status says whether the computer runs afterwards.
ALTER TABLE computers ADD COLUMN rollback_to TEXT;
