//! Resources of the host's kernel: groups, mounts, networks, processes, slots.

pub(crate) mod addresses;
pub(crate) mod bandwidth;
pub(crate) mod cgroup;
pub(crate) mod command;
pub(crate) mod files;
pub(crate) mod freeze;
pub(crate) mod fs_handle;
pub(crate) mod lock;
pub(crate) mod loopdev;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod sandbox;
pub(crate) mod slots;
pub(crate) mod syscalls;
