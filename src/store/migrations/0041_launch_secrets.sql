-- Secrets that a computer gets at each boot, because its template names them: names with spaces between them.
ALTER TABLE computers ADD COLUMN secret_names TEXT NOT NULL DEFAULT '';
-- 1 when it was launched by a caller who may use the secrets of the account beside those of the workspace.
ALTER TABLE computers ADD COLUMN account_secrets BIGINT NOT NULL DEFAULT 0;
