-- Conversations of language models with a computer (docs/api/threads.md). A thread goes with its computer. The account began
-- it; NULL when the account was removed. Access is that of the computer.
CREATE TABLE threads (
    id            TEXT PRIMARY KEY,
    computer_id   TEXT NOT NULL REFERENCES computers (id) ON DELETE CASCADE,
    account_id    TEXT REFERENCES accounts (id) ON DELETE SET NULL,
    title         TEXT,
    archived      BIGINT NOT NULL DEFAULT 0,
    -- The last run: running, interrupted, or how it ended; NULL for a thread without a run.
    run_state     TEXT,
    failure       TEXT,
    -- The call that waits to be confirmed, and the picture that its coordinates are of.
    waiting_call  TEXT,
    waiting_frame TEXT,
    -- Numbers of the next message and step; a number is never used twice.
    next_message  BIGINT NOT NULL DEFAULT 1,
    next_step     BIGINT NOT NULL DEFAULT 1,
    messages      BIGINT NOT NULL DEFAULT 0,
    message_bytes BIGINT NOT NULL DEFAULT 0,
    steps         BIGINT NOT NULL DEFAULT 0,
    step_bytes    BIGINT NOT NULL DEFAULT 0,
    -- Tokens and cost of all turns of all runs that ended.
    input_tokens       BIGINT NOT NULL DEFAULT 0,
    output_tokens      BIGINT NOT NULL DEFAULT 0,
    cache_read_tokens  BIGINT NOT NULL DEFAULT 0,
    cache_write_tokens BIGINT NOT NULL DEFAULT 0,
    cost_microcents    BIGINT NOT NULL DEFAULT 0,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL
);
CREATE INDEX threads_of_computer ON threads (computer_id, updated_at);
CREATE INDEX threads_of_account ON threads (account_id);

-- Messages as JSON, without pictures. Small columns come first: SQLite reads them without the content.
CREATE TABLE thread_messages (
    thread_id  TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    number     BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    content    TEXT NOT NULL,
    PRIMARY KEY (thread_id, number)
);

-- Calls of tools with their results. tool_call, action, effect and usage are JSON. The picture is a blob.
CREATE TABLE thread_steps (
    thread_id       TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    number          BIGINT NOT NULL,
    bytes           BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    picture         TEXT,
    picture_bytes   BIGINT NOT NULL DEFAULT 0,
    is_error        BIGINT NOT NULL,
    cost_microcents BIGINT NOT NULL,
    took_ms         BIGINT NOT NULL,
    usage           TEXT NOT NULL,
    tool_call       TEXT NOT NULL,
    text            TEXT,
    result          TEXT NOT NULL,
    action          TEXT,
    effect          TEXT,
    PRIMARY KEY (thread_id, number)
);
CREATE UNIQUE INDEX thread_steps_by_picture ON thread_steps (picture);
