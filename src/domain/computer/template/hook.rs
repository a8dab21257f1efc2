//! Hooks of a template: their names and the bound on their time (docs/templates.md#hooks).

use std::time::Duration;

/// Longest run of a hook.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(600);

/// Hook of the first boot of a disk.
pub const FIRST_BOOT: &str = "on_first_boot";
/// Hook of each boot.
pub const EVERY_BOOT: &str = "on_every_boot";
/// Hook after a wake.
pub const RESUME: &str = "on_resume";
/// Hook before memory is saved or copied, and before a snapshot of a running computer.
pub const PRE_SNAPSHOT: &str = "on_pre_snapshot";
/// Hook before a stop or a restart.
pub const SHUTDOWN: &str = "on_shutdown";

/// The hooks that a verb of the service waits for.
pub const AWAITED: [&str; 2] = [PRE_SNAPSHOT, SHUTDOWN];
