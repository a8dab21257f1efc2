-- A small picture of the computer's screen when the snapshot was taken: a blob, and its bytes. NULL without one.
ALTER TABLE snapshots ADD COLUMN picture TEXT;
ALTER TABLE snapshots ADD COLUMN picture_bytes BIGINT NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX snapshots_by_picture ON snapshots (picture);
