-- An account that an AI agent made for itself. The claim link's code by its SHA-256 only; NULL once it was used or revoked.
-- Past its time, or closing, nobody can claim it any more and what it holds is removed.
CREATE TABLE agent_accounts (
    account_id   TEXT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    claim_digest TEXT UNIQUE,
    claimed_by   TEXT,
    closing      BIGINT NOT NULL DEFAULT 0,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX agent_accounts_by_expiry ON agent_accounts (expires_at);
