//! Floor 0: what everything stands on. Ids, secrets, the clock, tasks, waiting, pauses, log set-up, file systems that
//! hold still, things that end while they are held.

pub mod backoff;
pub mod clock;
pub mod filesystem;
pub mod hex;
pub mod ids;
pub mod living;
pub mod secret;
pub mod tally;
pub mod tasks;
pub mod telemetry;
pub mod wait;
