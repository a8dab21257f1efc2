-- Persons at the operator's OpenID Connect provider, and the accounts that they sign in to.
CREATE TABLE provider_identities (
    issuer     TEXT NOT NULL,
    -- The provider's id of the person. Unlike an address, it is never given to somebody else.
    subject    TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- The address that the provider named when the two were connected, for the settings page only.
    email      TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE UNIQUE INDEX provider_identities_by_account ON provider_identities (account_id, issuer);
