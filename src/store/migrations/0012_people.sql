-- Who was asked into a workspace and has not come yet; of the link's token the SHA-256 only. An address is asked once at a time.
CREATE TABLE invitations (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    email        TEXT NOT NULL,
    role         TEXT NOT NULL,
    digest       TEXT NOT NULL UNIQUE,
    invited_by   TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, email)
);
-- A program that waits for somebody's approval: SHA-256 of its two codes only. It began at two times, because a wall clock may
-- be set: that clock's, and the time since the host's boot with this id.
CREATE TABLE device_requests (
    device_digest TEXT PRIMARY KEY,
    user_digest   TEXT NOT NULL UNIQUE,
    client        TEXT NOT NULL,
    hostname      TEXT NOT NULL,
    source        TEXT NOT NULL,
    -- 'pending', 'approved' or 'denied'.
    status        TEXT NOT NULL,
    -- The key that the approval made; its text is made when it is handed out.
    key_id        TEXT REFERENCES api_keys (id) ON DELETE CASCADE,
    began_at      BIGINT NOT NULL,
    boot_id       TEXT NOT NULL,
    began_up_ms   BIGINT NOT NULL
);
CREATE INDEX device_requests_by_age ON device_requests (began_at);
