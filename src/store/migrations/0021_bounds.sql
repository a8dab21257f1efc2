-- The account by whose invitations this one came into being, at the beginning of a chain of them; NULL: by nobody's.
ALTER TABLE accounts ADD COLUMN brought_by TEXT;
CREATE INDEX accounts_by_bringer ON accounts (brought_by);
-- What is counted, and what is forgotten with time.
CREATE INDEX clients_by_account ON clients (account_id);
CREATE INDEX runs_by_computer ON runs (computer_id, started_at);
CREATE INDEX runs_by_end ON runs (ended_at);
CREATE INDEX ai_spend_by_age ON ai_spend (spent_at);
