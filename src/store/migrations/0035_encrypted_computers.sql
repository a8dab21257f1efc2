-- The workspace whose key encrypts the computer's files on the host; NULL: they are not encrypted. A computer may move to another
-- workspace later, and its files keep the key.
ALTER TABLE computers ADD COLUMN encrypted_for TEXT;
CREATE INDEX computers_by_key ON computers (encrypted_for);
