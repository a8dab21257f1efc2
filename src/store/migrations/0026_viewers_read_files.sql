-- Whether viewers of a workspace may read the files of its computers.
ALTER TABLE workspaces ADD COLUMN viewers_read_files BIGINT NOT NULL DEFAULT 0;
