-- The kernel behind a computer's programs (docs/concepts.md#isolation). Rows of earlier versions have none until the
-- controller starts, which knows its engine.
ALTER TABLE computers ADD COLUMN isolation TEXT;
-- The isolation of new computers of a workspace; null: the configuration's.
ALTER TABLE workspaces ADD COLUMN isolation TEXT;
