//! Floor 0: what everything stands on. Ids, secrets, the clock, tasks, waiting, pauses, log set-up.

pub mod backoff;
pub mod clock;
pub mod hex;
pub mod ids;
pub mod secret;
pub mod tally;
pub mod tasks;
pub mod telemetry;
pub mod wait;
