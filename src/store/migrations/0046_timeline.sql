-- Actions on the screens of computers, as their agents told them (docs/api/timeline.md). They go with the computer.
CREATE TABLE timelines (
    computer_id   TEXT PRIMARY KEY REFERENCES computers (id) ON DELETE CASCADE,
    -- Number of the next entry; a number is never used twice.
    next_number   BIGINT NOT NULL DEFAULT 1,
    entries       BIGINT NOT NULL DEFAULT 0,
    bytes         BIGINT NOT NULL DEFAULT 0,
    -- The agent's series of numbers, and the last number of it that is stored.
    series        TEXT NOT NULL,
    series_number BIGINT NOT NULL DEFAULT 0
);

-- The record is JSON. Pictures are blobs. Small columns come first: SQLite reads them without the record.
CREATE TABLE timeline_entries (
    computer_id    TEXT NOT NULL REFERENCES computers (id) ON DELETE CASCADE,
    number         BIGINT NOT NULL,
    at             BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    lost_before    BIGINT NOT NULL,
    screen         TEXT NOT NULL,
    actor_kind     TEXT,
    actor_id       TEXT,
    before_picture TEXT,
    before_bytes   BIGINT NOT NULL DEFAULT 0,
    after_picture  TEXT,
    after_bytes    BIGINT NOT NULL DEFAULT 0,
    record         TEXT NOT NULL,
    PRIMARY KEY (computer_id, number)
);
CREATE UNIQUE INDEX timeline_entries_by_before ON timeline_entries (before_picture);
CREATE UNIQUE INDEX timeline_entries_by_after ON timeline_entries (after_picture);

-- When a snapshot was complete; NULL for those from before this column.
ALTER TABLE snapshots ADD COLUMN ready_at BIGINT;
