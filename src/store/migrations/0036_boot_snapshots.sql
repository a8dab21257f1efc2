-- Machines without a computer. Each has a snapshot of a booted desktop, from which computers of its size begin. `inputs` is
-- a digest of what the boot depended on; `agent_token` is sealed.
CREATE TABLE boot_snapshots (
    machine_id  TEXT PRIMARY KEY,
    snapshot_id TEXT NOT NULL,
    inputs      TEXT NOT NULL,
    size        TEXT NOT NULL,
    agent_token TEXT NOT NULL,
    ready       BIGINT NOT NULL,
    used_at     BIGINT NOT NULL,
    UNIQUE (inputs, size)
);
