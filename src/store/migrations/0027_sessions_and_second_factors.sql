-- By what a person recognizes a browser in the list of sessions. NULL: not known, as of sessions from before this migration.
ALTER TABLE sessions ADD COLUMN last_used_at BIGINT;
-- The User-Agent field of the sign-in, bounded.
ALTER TABLE sessions ADD COLUMN user_agent TEXT;
-- The IP address of the sign-in.
ALTER TABLE sessions ADD COLUMN address TEXT;
-- An authenticator app that a sign-in with a password needs too (RFC 6238).
CREATE TABLE second_factors (
    account_id TEXT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    -- The shared secret. Codes are computed of it, so it cannot be hashed.
    secret     TEXT NOT NULL,
    -- The last time step whose code was accepted: codes of it and of earlier ones are refused.
    last_step  BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
-- Codes that replace the app once each: SHA-256 only.
CREATE TABLE recovery_codes (
    digest     TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES second_factors (account_id) ON DELETE CASCADE
);
CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);
