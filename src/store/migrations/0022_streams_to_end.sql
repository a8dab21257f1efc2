-- Since when a computer's stream is to be ended, because whoever began it lost the computer; NULL: it may go on. It stays until the
-- agent has said that nothing is streamed, or until a boot, which leaves no stream.
ALTER TABLE computers ADD COLUMN stream_ends_since BIGINT;
CREATE INDEX computers_by_stream_end ON computers (stream_ends_since) WHERE stream_ends_since IS NOT NULL;
