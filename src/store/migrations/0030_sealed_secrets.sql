-- The key that seals secrets, itself sealed with the key of the key file that has the id `sealed_by`. There is one row.
CREATE TABLE data_keys (
    sealed_by TEXT PRIMARY KEY,
    sealed    TEXT NOT NULL
);
-- Columns whose values are sealed. Others still hold the plain text of an earlier version.
CREATE TABLE sealed_columns (
    table_name  TEXT NOT NULL,
    column_name TEXT NOT NULL,
    PRIMARY KEY (table_name, column_name)
);
-- Secrets of the installation, such as the one that signs links.
CREATE TABLE installation_secrets (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
INSERT INTO installation_secrets (name, value) SELECT name, value FROM meta WHERE name = 'link_signing_secret';
DELETE FROM meta WHERE name = 'link_signing_secret';
