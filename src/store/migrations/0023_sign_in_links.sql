-- A link that signs one browser in, once: the SHA-256 of its token only. It ends with the API key that made it.
CREATE TABLE sign_in_links (
    digest     TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    key_id     TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    -- The page of this service to which the link leads.
    path       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sign_in_links_by_account ON sign_in_links (account_id);
CREATE INDEX sign_in_links_by_key ON sign_in_links (key_id);
-- The key whose link began the session; the session ends with it. NULL: a password began it.
ALTER TABLE sessions ADD COLUMN key_id TEXT REFERENCES api_keys (id) ON DELETE CASCADE;
CREATE INDEX sessions_by_key ON sessions (key_id);
