//! Files of machines in the state folder.

pub(crate) mod agent_binary;
pub(crate) mod boot_files;
pub(crate) mod client_sockets;
pub(crate) mod disk;
pub(crate) mod disk_guard;
pub(crate) mod evicted;
pub(crate) mod layout;
pub(crate) mod machine_lock;
pub(crate) mod memory;
pub(crate) mod raw_disk;
pub(crate) mod saved;
pub(crate) mod trash;
pub(crate) mod wake_reserve;
