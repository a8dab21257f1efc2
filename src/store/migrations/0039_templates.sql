-- Published templates of accounts (docs/templates.md). `definition` is the normalised document as JSON.
CREATE TABLE templates (
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    digest     TEXT NOT NULL,
    definition TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, name, version)
);

-- The last build of each document. `layers` are ids in the order in which they lie above the image, with spaces between them;
-- `image` identifies the guest image below them.
CREATE TABLE template_builds (
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    digest     TEXT NOT NULL,
    status     TEXT NOT NULL,
    error      TEXT,
    image      TEXT,
    layers     TEXT NOT NULL,
    began_at   BIGINT NOT NULL,
    ended_at   BIGINT,
    PRIMARY KEY (account_id, digest)
);

-- Read-only layers of disks that builds made. `inputs` is a digest of the image and of all steps up to this layer.
CREATE TABLE template_layers (
    layer_id   TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    inputs     TEXT NOT NULL,
    ready      BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    UNIQUE (account_id, inputs)
);

-- The template that a computer was launched from, and the layers below its disk.
ALTER TABLE computers ADD COLUMN template_ref TEXT;
ALTER TABLE computers ADD COLUMN layers TEXT NOT NULL DEFAULT '';
