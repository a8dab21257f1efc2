-- Passkeys: public keys of authenticators that sign people in (WebAuthn).
CREATE TABLE passkeys (
    -- Base64url, as browsers write it.
    credential_id TEXT PRIMARY KEY,
    account_id    TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name          TEXT NOT NULL,
    -- DER SubjectPublicKeyInfo in base64url.
    public_key    TEXT NOT NULL,
    -- Signatures that the authenticator has made, as of the last sign-in; 0 when it does not count.
    sign_count    BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    last_used_at  BIGINT
);
CREATE INDEX passkeys_by_account ON passkeys (account_id);
