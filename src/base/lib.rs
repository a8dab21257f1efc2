//! Basic utilities without domain knowledge: ids, secrets, the clock, times, tasks, polling, back-off,
//! logging, file system calls, extensions of tar archives, semaphores by key, revocable leases, and errors of steps
//! (floor 0).

pub mod backoff;
pub mod filesystem;
pub mod hex;
pub mod ids;
pub mod keyed_semaphore;
pub mod revocation_registry;
pub mod secret;
pub mod step_error;
pub mod tar_extension;
pub mod tasks;
pub mod telemetry;
pub mod time;
pub mod wait;

pub use time::clock;
