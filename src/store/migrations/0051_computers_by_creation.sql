-- Pages of a listing are read in this order, without a sort of all computers.
CREATE INDEX computers_by_creation ON computers (created_at, id);
