-- When somebody opened a link that was mailed to the account's address; NULL: nobody has.
ALTER TABLE accounts ADD COLUMN email_verified_at BIGINT;
-- The link that was mailed last to an account's address and not used yet: the SHA-256 of its token only. `sent` are the
-- mails since `counted_since`.
CREATE TABLE email_verifications (
    account_id    TEXT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    email         TEXT NOT NULL,
    digest        TEXT NOT NULL UNIQUE,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    sent          BIGINT NOT NULL,
    counted_since BIGINT NOT NULL
);
