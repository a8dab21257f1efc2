-- The size that a computer had when it was kept: what its memory goes on in. Earlier snapshots are told by their computers'
-- present size.
ALTER TABLE snapshots ADD COLUMN cpu DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN ram_gb BIGINT NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN disk_gb BIGINT NOT NULL DEFAULT 0;
UPDATE snapshots SET
    cpu = (SELECT c.cpu FROM computers c WHERE c.id = snapshots.computer_id),
    ram_gb = (SELECT c.ram_gb FROM computers c WHERE c.id = snapshots.computer_id),
    disk_gb = (SELECT c.disk_gb FROM computers c WHERE c.id = snapshots.computer_id);
