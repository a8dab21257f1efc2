//! Which small files does a guest see that are made for one boot? The same in a container and in a virtual machine.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Boot, MachineSpec};
use hotdesk_base::hex::hex;
use hotdesk_base::ids::ComputerId;

/// A small file of one boot, kept in memory.
#[derive(Debug)]
pub(super) struct StagedFile {
    /// Its name where it is staged.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) text: String,
    /// Its mode; guest root owns it.
    pub(super) mode: u32,
}

/// Everything that is made for one boot.
pub(super) fn files(spec: &MachineSpec, boot: &Boot, resolv_conf: &str) -> Vec<StagedFile> {
    let name = spec.id.hostname();
    let limits = json!({
        "cpu": spec.cpu, "memory_bytes": spec.memory_bytes, "disk_bytes": spec.disk_bytes,
    });
    let hosts = format!("127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost ip6-localhost ip6-loopback\n");
    let file = |name, text, mode| StagedFile { name, text, mode };
    vec![
        file("token", boot.token.reveal().to_owned(), 0o400),
        file("limits.json", limits.to_string(), 0o444),
        file("machine-id", machine_id(spec.id) + "\n", 0o444),
        file("resolv.conf", resolv_conf.to_owned(), 0o644),
        file("hosts", hosts, 0o644),
        file("hostname", format!("{name}\n"), 0o644),
    ]
}

/// A machine's own id for its programs: lasting, different for a clone, and telling nothing (machine-id(5)).
pub(super) fn machine_id(id: ComputerId) -> String {
    let digest = Sha256::digest(format!("hotdesk machine-id {id}"));
    hex(&digest[..16])
}
