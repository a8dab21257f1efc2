-- One client's keys must not push out another's, so requests are counted by the credential that they came with.
-- Requests from before have none: they are one credential's together, for the day that they live.
ALTER TABLE idempotent_requests ADD COLUMN holder TEXT NOT NULL DEFAULT '';
DROP INDEX idempotent_requests_by_account;
-- Whose is how much, and the oldest of it, without looking at the rows.
CREATE INDEX idempotent_requests_by_holder ON idempotent_requests (account_id, holder, created_at, status);
