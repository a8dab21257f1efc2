-- When the service deletes a computer that was launched to try a template; NULL for all others.
ALTER TABLE computers ADD COLUMN expires_at BIGINT;

-- 1 for a template that was saved from a computer: it cannot be built again from its document.
ALTER TABLE templates ADD COLUMN saved BIGINT NOT NULL DEFAULT 0;
