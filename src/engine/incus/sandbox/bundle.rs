//! Files that the controller writes into an instance with gVisor before a boot.

use std::path::Path;

use super::{BASE, GENERATION_FILE, STAGE, folder};
use crate::container::oci::{self, BootPlan, HostLimits, Placement};
use crate::driver::image_init_args;
use crate::host::network::agent_link;
use crate::state::boot_files;
use crate::{Boot, MachineSpec, whole_cpus};

/// A file of an instance.
#[derive(Debug)]
pub(in crate::incus) struct InstanceFile {
    pub(in crate::incus) path: String,
    pub(in crate::incus) text: String,
    pub(in crate::incus) mode: u32,
}

/// The files of a boot, in the order in which they must be written: the last one makes the others valid. `init_args` is the first
/// process of an image with an agent of its own.
pub(in crate::incus) fn files(
    spec: &MachineSpec,
    boot: &Boot,
    resolv_conf: &str,
    init_args: Option<&[String]>,
) -> Vec<InstanceFile> {
    let mut files: Vec<InstanceFile> = boot_files::files(spec, boot, resolv_conf)
        .into_iter()
        .map(|file| InstanceFile { path: format!("{STAGE}/{}", file.name), text: file.text, mode: file.mode })
        .collect();
    let agent = agent_link::agent();
    let own_args = || image_init_args(boot, &agent.to_string(), true, Some(whole_cpus(spec.cpu)));
    let config = oci::config(&BootPlan {
        spec,
        generation: boot.generation,
        args: init_args.map_or_else(own_args, <[String]>::to_vec),
        placement: Placement::Instance,
        addresses: None,
        agent: Some(agent),
        image: Path::new(BASE),
        host_boot: "",
        stage: Path::new(STAGE),
        has_resource_files: false,
        limits: HostLimits::INSTANCE,
    });
    let path = folder().boot_config().display().to_string();
    files.push(InstanceFile { path, text: config.to_string(), mode: 0o600 });
    let generation = boot.generation.to_string();
    files.push(InstanceFile { path: GENERATION_FILE.to_owned(), text: generation, mode: 0o600 });
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;
    use hotdesk_base::secret::Secret;
    use hotdesk_domain::computer::isolation::Isolation;
    use hotdesk_domain::desktop::resolution::Resolution;

    #[test]
    fn the_generation_comes_last_and_the_token_is_in_no_other_file() {
        let spec = MachineSpec {
            id: ComputerId::random(),
            isolation: Isolation::Sandbox,
            cpu: 1.5,
            memory_bytes: 1 << 30,
            disk_bytes: 8 << 30,
            bandwidth_mbps: 0,
            layers: Vec::new(),
            egress: None,
        };
        let boot = Boot {
            generation: 7,
            token: Secret::new("a-token-of-this-boot"),
            resolution: Resolution::default(),
        };
        let files = files(&spec, &boot, "nameserver 10.77.0.1\n", None);
        let secret: Vec<_> = files.iter().filter(|file| file.text.contains("a-token-of-this-boot")).collect();
        assert_eq!(secret.len(), 1);
        assert_eq!((secret[0].path.as_str(), secret[0].mode), ("/hotdesk/stage/token", 0o400));
        let config = files.iter().find(|file| file.path.ends_with("/bundle/config.json")).unwrap();
        for part in ["169.254.100.2:870", "--cpus=2", "/hotdesk/stage/rootfs", "/proc/1/ns/net"] {
            assert!(config.text.contains(part), "{part} in {}", config.text);
        }
        let generation = files.iter().next_back().unwrap();
        assert_eq!((generation.path.as_str(), generation.text.as_str()), (GENERATION_FILE, "7"));
    }
}
