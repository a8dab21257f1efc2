-- The host of a computer, where the engine has several. NULL where it has none, and until the host is known.
ALTER TABLE computers ADD COLUMN host TEXT;
-- The target of a move to another host that is in progress; any other status ends the move.
ALTER TABLE computers ADD COLUMN move_to TEXT;
CREATE INDEX computers_by_host ON computers (host);

-- Hosts that take no new computers (docs/hosts.md). A host without a row takes them.
CREATE TABLE host_drains (
    host       TEXT PRIMARY KEY,
    -- draining or drained
    state      TEXT NOT NULL,
    -- Why the last attempt to move a computer failed; empty when none did.
    message    TEXT NOT NULL DEFAULT '',
    begun_at   BIGINT NOT NULL
);
