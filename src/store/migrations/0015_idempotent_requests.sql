-- What was asked with an Idempotency-Key, and what was answered. Neither the key nor the request is kept, only their SHA-256.
CREATE TABLE idempotent_requests (
    -- Of the credential and the key that it sent.
    digest     TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- Of method, path, query and body.
    request    TEXT NOT NULL,
    -- NULL until it is answered.
    status     BIGINT,
    -- JSON: an object of header fields.
    headers    TEXT,
    -- NULL when it was too long, or held a secret.
    body       TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX idempotent_requests_by_account ON idempotent_requests (account_id, created_at);
CREATE INDEX idempotent_requests_by_age ON idempotent_requests (created_at);
