-- The controller that leads, among several over one database of PostgreSQL (docs/postgresql.md). The first of them makes the row.
CREATE TABLE leases (
    name    TEXT PRIMARY KEY,
    -- Id of the process that has the lease, and the number of changes of holders.
    holder  TEXT NOT NULL,
    epoch   BIGINT NOT NULL,
    -- End of the lease, by the clock of the database's server.
    until   BIGINT NOT NULL,
    -- URL at which other controllers reach the holder.
    address TEXT NOT NULL
);
