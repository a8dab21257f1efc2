//! Small files that are made for one boot of a guest, the same for containers and virtual machines.

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{Boot, MachineSpec};
use hotdesk_base::hex::hex;
use hotdesk_base::ids::ComputerId;

/// One file, in memory.
#[derive(Debug)]
pub(crate) struct BootFile {
    /// Its name in the staging area or the seed.
    pub(crate) name: &'static str,
    /// Its content.
    pub(crate) text: String,
    /// Its mode; the guest's root owns it.
    pub(crate) mode: u32,
}

/// The files of one boot.
pub(crate) fn files(spec: &MachineSpec, boot: &Boot, resolv_conf: &str) -> Vec<BootFile> {
    let name = spec.id.hostname();
    let limits = json!({
        "cpu": spec.cpu, "memory_bytes": spec.memory_bytes, "disk_bytes": spec.disk_bytes,
    });
    let hosts = format!("127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost ip6-localhost ip6-loopback\n");
    let file = |name, text, mode| BootFile { name, text, mode };
    vec![
        file("token", boot.token.reveal().to_owned(), 0o400),
        file("limits.json", limits.to_string(), 0o444),
        file("machine-id", machine_id(spec.id) + "\n", 0o444),
        file("resolv.conf", resolv_conf.to_owned(), 0o644),
        file("hosts", hosts, 0o644),
        file("hostname", format!("{name}\n"), 0o644),
    ]
}

/// The machine-id(5) of a computer: constant, different for a clone, and a hash that reveals no other id.
pub(crate) fn machine_id(id: ComputerId) -> String {
    let digest = Sha256::digest(format!("hotdesk machine-id {id}"));
    hex(&digest[..16])
}
