-- Minutes between two refreshes of a computer's replica on a second host; 0 means no replica.
ALTER TABLE computers ADD COLUMN replicate_minutes BIGINT NOT NULL DEFAULT 0;
-- The replica: its host and the age of its state; NULL while there is none. The last attempt may have failed.
ALTER TABLE computers ADD COLUMN replica_host TEXT;
ALTER TABLE computers ADD COLUMN replica_refreshed_at BIGINT;
ALTER TABLE computers ADD COLUMN replica_tried_at BIGINT;
-- The host that was lost when the computer last began from a replica, and the age of that state.
ALTER TABLE computers ADD COLUMN recovered_from TEXT;
ALTER TABLE computers ADD COLUMN recovered_state_at BIGINT;

-- Hosts of which the operator confirmed that they are gone, until they answer again.
CREATE TABLE gone_hosts (
    name         TEXT PRIMARY KEY,
    confirmed_at BIGINT NOT NULL
);
