-- Templates of the service are rows of the operator's account in a namespace of their own (docs/templates.md).
CREATE TABLE templates_with_namespace (
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    namespace  TEXT NOT NULL DEFAULT 'default',
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    digest     TEXT NOT NULL,
    definition TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    saved      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, namespace, name, version)
);
INSERT INTO templates_with_namespace (account_id, name, version, digest, definition, created_at, saved)
    SELECT account_id, name, version, digest, definition, created_at, saved FROM templates;
DROP TABLE templates;
ALTER TABLE templates_with_namespace RENAME TO templates;

-- Ports of the template that a computer was launched from: NUMBER:PROTOCOL:open or keyed:APPLICATION, with spaces between
-- them (docs/api/ports.md).
ALTER TABLE computers ADD COLUMN ports TEXT NOT NULL DEFAULT '';

-- Templates that an account marked for its people and programs.
CREATE TABLE template_stars (
    account_id   TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    template_ref TEXT NOT NULL,
    starred_at   BIGINT NOT NULL,
    PRIMARY KEY (account_id, template_ref)
);
