-- The key with which states of a workspace's computers are sealed in object storage, itself sealed. It outlives the workspace
-- until the last copy with it is removed.
CREATE TABLE workspace_keys (
    workspace_id TEXT PRIMARY KEY,
    sealing_key  TEXT NOT NULL
);
-- The workspace whose key seals the copy; NULL: the copy is not sealed. A computer may move to another workspace later.
ALTER TABLE saved_copies ADD COLUMN sealed_for TEXT;
CREATE INDEX saved_copies_by_key ON saved_copies (sealed_for);
