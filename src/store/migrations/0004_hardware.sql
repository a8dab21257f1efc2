-- Megabits a second that a computer may send and receive; 0 is without a bound.
ALTER TABLE computers ADD COLUMN bandwidth_mbps BIGINT NOT NULL DEFAULT 0;
-- The size that a resize under way leads to: all four are set from its intent until its outcome, else none.
ALTER TABLE computers ADD COLUMN wanted_cpu DOUBLE PRECISION;
ALTER TABLE computers ADD COLUMN wanted_ram_gb BIGINT;
ALTER TABLE computers ADD COLUMN wanted_disk_gb BIGINT;
ALTER TABLE computers ADD COLUMN wanted_bandwidth_mbps BIGINT;
