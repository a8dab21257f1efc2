-- Handles of a computer's earlier instances: they lead to it as long as it is there.
CREATE TABLE earlier_instances (
    instance_id TEXT PRIMARY KEY,
    computer_id TEXT NOT NULL REFERENCES computers (id) ON DELETE CASCADE,
    ended_at    BIGINT NOT NULL
);
CREATE INDEX earlier_instances_by_computer ON earlier_instances (computer_id);
-- A copy of a suspended computer's saved state in the object store: saving, whole or removing. It outlives its computer until its
-- objects are gone. The token is the one that the saved memory knows; the manifest's sum is there once the copy is whole.
CREATE TABLE saved_copies (
    operation   TEXT PRIMARY KEY,
    computer_id TEXT NOT NULL,
    generation  BIGINT NOT NULL,
    state       TEXT NOT NULL,
    token       TEXT NOT NULL,
    manifest    TEXT,
    created_at  BIGINT NOT NULL
);
CREATE INDEX saved_copies_by_computer ON saved_copies (computer_id);
-- 1 from the intent to wake from storage until what was fetched is on the host's disk.
ALTER TABLE computers ADD COLUMN converging BIGINT NOT NULL DEFAULT 0;
