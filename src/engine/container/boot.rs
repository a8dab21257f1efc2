//! How does a machine start? Everything that can be taken back first, its first process last.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::command::{host_error, run_with, tool};
use super::config::ContainerConfig;
use super::layout::{Folder, private_folder, remove_if_there, write_durably};
use super::lock::MachineLock;
use super::oci::{self, BootPlan, HostLimits};
use super::runtime::{Kind, Runtime};
use super::stage::{self, Parts};
use super::{bandwidth, disk, network, process, slots, staged, throttle};
use crate::{Boot, Endpoint, EngineError, EngineResult, MachineSpec};
use nix::sys::resource::{Resource, getrlimit};

/// Bounds of a guest's own user namespace: its share of inotify, of which the host otherwise has one pot for all
/// guests and its own root; and no further user namespaces, should a filter ever let one be asked for.
const NAMESPACE_BOUNDS: [(&str, u32); 3] =
    [("max_inotify_instances", 512), ("max_inotify_watches", 262_144), ("max_user_namespaces", 0)];

/// What a start works with.
#[derive(Debug)]
pub(super) struct Starter<'a> {
    pub(super) config: &'a ContainerConfig,
    /// The executable that becomes the guest's agent.
    pub(super) agent: &'a Path,
    /// The slot that the machine had when its memory was saved.
    pub(super) wanted_slot: Option<u16>,
    pub(super) runtime: &'a Runtime,
    pub(super) held: &'a MachineLock,
}

impl Starter<'_> {
    /// Starts a machine of which nothing runs and nothing is left of an earlier boot. On error something may be left.
    /// Blocks.
    pub(super) fn start(&self, folder: &Folder, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        let endpoint = self.prepare(folder, spec, boot)?;
        self.runtime.start(folder.id)?;
        Ok(endpoint)
    }

    /// Everything of a start but the first process. Blocks.
    pub(super) fn prepare(&self, folder: &Folder, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        disk::check_reserve(&folder.path)?;
        disk::grow(&folder.disk(), spec.disk_bytes, self.held)?;
        let network = &self.config.network;
        let slot = slots::claim(folder, network.slots(), self.wanted_slot)?;
        let resolvers = network::resolvers(network)?;
        self.write_bundle(folder, spec, boot, slot)?;
        let (listener, endpoint) = match self.runtime.kind() {
            Kind::Shared => (Some(listen(&folder.socket())?), Endpoint::Unix(folder.socket())),
            Kind::Gvisor => (None, Endpoint::Tcp(network::agent(network, slot))),
        };
        let parts = Parts {
            image: self.config.image.join("rootfs"),
            agent: self.agent.to_owned(),
            disk: folder.disk(),
            first_id: self.config.host_ids(slot),
            files: staged::files(spec, boot, &network::resolv_conf(&resolvers)),
        };
        stage::with(&parts, || self.runtime.create(folder, listener))?;
        let made = self.runtime.state(folder.id)?;
        let Some(pid) = made.filter(|state| state.pid != 0).map(|state| state.pid) else {
            return Err(EngineError::failed("create the container", "the runtime does not know it"));
        };
        throttle::limit(folder, self.config.disk_speed)?;
        if self.runtime.kind() == Kind::Shared {
            bound_namespace(pid)?;
        }
        if network.enabled || self.runtime.kind() == Kind::Gvisor {
            network::attach(network, slot, &resolvers, pid)?;
            if spec.bandwidth_mbps > 0 {
                bandwidth::limit(slot, pid, spec.bandwidth_mbps)?;
            }
        }
        Ok(endpoint)
    }

    fn write_bundle(&self, folder: &Folder, spec: &MachineSpec, boot: &Boot, slot: u16) -> EngineResult<()> {
        const STEP: &str = "write the bundle";
        let host = |error: io::Error| EngineError::failed(STEP, error);
        let network = &self.config.network;
        let init_args = self.config.init_args.clone();
        let agent = (self.runtime.kind() == Kind::Gvisor).then(|| network::agent(network, slot));
        let plan = BootPlan {
            spec,
            generation: boot.generation,
            args: init_args.unwrap_or_else(|| oci::init_args(&boot.resolution.to_string(), agent.is_some())),
            first_id: self.config.host_ids(slot),
            addresses: network.enabled.then(|| network.addresses(slot)),
            agent,
            image: &self.config.image,
            host_boot: &process::boot_id().map_err(host)?,
            stage: &stage::path("")?,
            limits: host_limits().map_err(host)?,
        };
        let bundle = folder.bundle();
        private_folder(&bundle).map_err(host_error(STEP, &bundle))?;
        let text = serde_json::to_vec_pretty(&oci::config(&plan))
            .map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&folder.boot_config(), &text).map_err(host_error(STEP, &bundle))
    }
}

fn host_limits() -> io::Result<HostLimits> {
    let (_, open_files) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let oom_score = fs::read_to_string("/proc/self/oom_score_adj")?;
    Ok(HostLimits { open_files, oom_score: oom_score.trim().parse().map_err(io::Error::other)? })
}

/// The agent's socket, in a folder that no guest sees; the guest gets the listening end.
fn listen(path: &Path) -> EngineResult<OwnedFd> {
    let failed = host_error("make the agent's socket", path);
    remove_if_there(path).map_err(&failed)?;
    let listener = UnixListener::bind(path).map_err(&failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(&failed)?;
    Ok(listener.into())
}

/// Bounds what the guest's user namespace may take of the kernel's shared pots.
fn bound_namespace(pid: u32) -> EngineResult<()> {
    for (name, bound) in NAMESPACE_BOUNDS {
        let mut enter = tool("nsenter");
        enter.arg(format!("--user=/proc/{pid}/ns/user")).args(["--setuid=0", "--setgid=0", "--", "tee"]);
        enter.arg(format!("/proc/sys/user/{name}"));
        run_with("bound the guest's namespace", enter, &bound.to_string())?;
    }
    Ok(())
}
