-- The token that a computer's saved memory knows, while its resume is under way and agent_token is the next one.
ALTER TABLE computers ADD COLUMN saved_token TEXT;
