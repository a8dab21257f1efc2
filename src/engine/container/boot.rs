//! Boot of a container: everything that can be undone first, the guest's first process last.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::container::lxcfs::ResourceFiles;
use crate::container::oci::{self, BootPlan, HostLimits};
use crate::container::runtime::{Runtime, RuntimeKind};
use crate::container::stage::{self, FileSystemParts};
use crate::container::throttle;
use crate::driver::{HostContext, MachineBoot, start_proxy};
use crate::host::cgroup::{cpuset, limits};
use crate::host::command::{host_error, run_with, tool};
use crate::host::files::{private_folder, remove_if_there, write_durably};
use crate::host::{bandwidth, network, process, slots};
use crate::state::{boot_files, disk, raw_disk};
use crate::whole_cpus;
use crate::{Endpoint, EngineError, EngineResult};
use nix::sys::resource::{Resource, getrlimit};

/// Limits of a guest's user namespace (user_namespaces(7)). inotify: without these, all guests and the host's
/// root share one quota. User namespaces: none, even if a seccomp filter ever allowed the call.
const NAMESPACE_LIMITS: [(&str, u32); 3] =
    [("max_inotify_instances", 512), ("max_inotify_watches", 262_144), ("max_user_namespaces", 0)];

/// What a start needs besides the machine.
#[derive(Debug)]
pub(super) struct ContainerStarter<'a> {
    pub(super) host: &'a HostContext,
    pub(super) runtime: &'a Runtime,
    /// The image's folder.
    pub(super) image: &'a Path,
    /// The executable that becomes the guest's agent.
    pub(super) agent: &'a Path,
    /// The preferred slot: the one that the machine had when its memory was saved.
    pub(super) wanted_slot: Option<u16>,
}

impl ContainerStarter<'_> {
    /// Starts a machine after a sweep. On error, parts of the boot may be left. Blocks.
    pub(super) fn start(&self, machine: &MachineBoot<'_>) -> EngineResult<Endpoint> {
        disk::check_reserve(&machine.folder.path)?;
        let endpoint = self.prepare(machine)?;
        self.runtime.start(machine.folder.id)?;
        Ok(endpoint)
    }

    /// Does everything of a start except running the first process. Blocks.
    pub(super) fn prepare(&self, machine: &MachineBoot<'_>) -> EngineResult<Endpoint> {
        let MachineBoot { folder, spec, boot, lock } = *machine;
        let settings = &self.host.settings;
        raw_disk::check_mountable(folder)?;
        let network = &settings.network;
        let slot = slots::claim(&folder.path, network.slots(), self.wanted_slot)?;
        disk::grow(&folder.disk(), spec.disk_bytes, settings.host_ids(slot), lock)?;
        let resolvers = network::resolvers(network)?;
        let resource_files = match self.runtime.kind() {
            RuntimeKind::Shared => ResourceFiles::start(folder.id, &folder.lxcfs_pid()),
            RuntimeKind::Gvisor => None,
        };
        self.write_bundle(machine, slot, resource_files.is_some())?;
        let (listener, endpoint) = match self.runtime.kind() {
            RuntimeKind::Shared => {
                let listener = listen(&folder.socket())?;
                (Some(listener), Endpoint::Unix(self.host.publish_agent_socket(folder)?))
            }
            RuntimeKind::Gvisor => (None, Endpoint::Tcp(network::agent(network, slot))),
        };
        let parts = FileSystemParts {
            image: self.image.join("rootfs"),
            layers: spec.layers.iter().map(|layer| self.host.state.layer(*layer).join("rootfs")).collect(),
            agent: self.agent.to_owned(),
            disk: folder.disk(),
            first_id: settings.host_ids(slot),
            files: boot_files::files(spec, boot, &network::resolv_conf(&resolvers)),
            resource_files: resource_files.as_ref().map(ResourceFiles::mount),
        };
        stage::with_file_system(&parts, || self.runtime.create(folder, listener))?;
        let made = self.runtime.state(folder.id)?;
        let Some(pid) = made.filter(|state| state.pid != 0).map(|state| state.pid) else {
            return Err(EngineError::failed(
                "create the container",
                "the OCI runtime has no record of it or no process for it",
            ));
        };
        match self.runtime.kind() {
            RuntimeKind::Shared => limits::set_tcp_memory(folder.id, spec.memory_bytes)?,
            RuntimeKind::Gvisor => limits::limit_open_files(folder.id, host_limits()?.max_open_files())?,
        }
        if let Some(resource_files) = &resource_files {
            resource_files.join(folder.id)?;
        }
        if self.runtime.kind() == RuntimeKind::Shared {
            cpuset::assign(folder.id, spec.cpu)?;
        }
        throttle::limit(folder, settings.disk_speed)?;
        if self.runtime.kind() == RuntimeKind::Shared {
            limit_namespace(pid)?;
        }
        if network.enabled || self.runtime.kind() == RuntimeKind::Gvisor {
            network::attach(network, slot, spec.egress.as_ref(), pid)?;
            if let Some(policy) = &spec.egress {
                start_proxy(self.host, folder, slot, policy)?;
            }
            if spec.bandwidth_mbps > 0 {
                bandwidth::limit(slot, pid, spec.bandwidth_mbps)?;
            }
        }
        Ok(endpoint)
    }

    fn write_bundle(
        &self,
        machine: &MachineBoot<'_>,
        slot: u16,
        has_resource_files: bool,
    ) -> EngineResult<()> {
        const STEP: &str = "write the bundle";
        let host = |error: io::Error| EngineError::failed(STEP, error);
        let MachineBoot { folder, spec, boot, .. } = *machine;
        let settings = &self.host.settings;
        let network = &settings.network;
        let gvisor = self.runtime.kind() == RuntimeKind::Gvisor;
        let agent = gvisor.then(|| network::agent(network, slot));
        let cpus = gvisor.then(|| whole_cpus(spec.cpu));
        let plan = BootPlan {
            spec,
            generation: boot.generation,
            args: self.host.init_args(boot, agent.is_some(), cpus),
            first_id: settings.host_ids(slot),
            addresses: network.enabled.then(|| network.addresses(slot)),
            agent,
            image: self.image,
            host_boot: &process::boot_id().map_err(host)?,
            stage: &stage::path("")?,
            has_resource_files,
            limits: host_limits()?,
        };
        let bundle = folder.bundle();
        private_folder(&bundle).map_err(host_error(STEP, &bundle))?;
        let text = serde_json::to_vec_pretty(&oci::config(&plan))
            .map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&folder.boot_config(), &text).map_err(host_error(STEP, &bundle))
    }
}

fn host_limits() -> EngineResult<HostLimits> {
    let read = || -> io::Result<HostLimits> {
        let (_, open_files) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let oom_score = fs::read_to_string("/proc/self/oom_score_adj")?;
        Ok(HostLimits { open_files, oom_score: oom_score.trim().parse().map_err(io::Error::other)? })
    };
    read().map_err(|error| EngineError::failed("read the controller's own limits", error))
}

/// Makes the agent's socket in a folder that no guest sees. The guest inherits the listening descriptor.
fn listen(path: &Path) -> EngineResult<OwnedFd> {
    let failed = host_error("make the agent's socket", path);
    remove_if_there(path).map_err(&failed)?;
    let listener = UnixListener::bind(path).map_err(&failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(&failed)?;
    Ok(listener.into())
}

/// Writes [`NAMESPACE_LIMITS`] from inside the guest's user namespace.
fn limit_namespace(pid: u32) -> EngineResult<()> {
    let lines = NAMESPACE_LIMITS.map(|(name, limit)| format!("echo {limit} >/proc/sys/user/{name}\n"));
    // Of one thread, as setns(2) requires: the controller has many.
    let mut enter = tool("nsenter");
    enter.arg(format!("--user=/proc/{pid}/ns/user")).args(["--setuid=0", "--setgid=0", "--", "sh", "-e"]);
    run_with("limit the guest's namespace", enter, &lines.concat()).map(drop)
}
