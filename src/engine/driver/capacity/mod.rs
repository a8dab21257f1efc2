//! The host's disk space: admission of new and growing disks, and the guard that freezes machines before it is full.

pub(super) mod admission;
pub(super) mod disk_guard;
