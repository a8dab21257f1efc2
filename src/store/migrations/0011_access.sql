-- People sign in with e-mail and password (argon2, PHC text); an account without a password is nobody's browser's.
ALTER TABLE accounts ADD COLUMN full_name TEXT NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN password_hash TEXT;
-- 'person', or 'agent' for one that an AI agent made for itself.
ALTER TABLE accounts ADD COLUMN kind TEXT NOT NULL DEFAULT 'person';
-- A name in the configuration's table of plans; NULL is the default plan.
ALTER TABLE accounts ADD COLUMN plan TEXT;
CREATE UNIQUE INDEX accounts_by_email ON accounts (email);
-- Who belongs to a workspace beside its owner.
CREATE TABLE members (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    account_id   TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    role         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, account_id)
);
CREATE INDEX members_by_account ON members (account_id);
-- A signed-in browser: the SHA-256 of its cookie only.
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    digest     TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_account ON sessions (account_id);
