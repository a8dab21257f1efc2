-- Booted machines without a computer, which creates claim. The id of a claimed one becomes the computer's. `inputs` and `size`
-- are those of boot_snapshots; `agent_token` is sealed.
CREATE TABLE pooled_machines (
    machine_id  TEXT PRIMARY KEY,
    inputs      TEXT NOT NULL,
    size        TEXT NOT NULL,
    agent_token TEXT NOT NULL,
    ready       BIGINT NOT NULL,
    made_at     BIGINT NOT NULL
);
