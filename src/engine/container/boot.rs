//! Boot of a container: everything that can be undone first, the guest's first process last.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::container::lxcfs::ResourceFiles;
use crate::container::oci::{self, BootPlan, HostLimits, Placement};
use crate::container::runtime::{Runtime, RuntimeKind};
use crate::container::stage::{self, FileSystemParts};
use crate::container::throttle;
use crate::driver::{HostContext, MachineBoot, start_proxy};
use crate::host::cgroup::{cpuset, limits};
use crate::host::command::{host_error, run_with, tool};
use crate::host::files::{private_folder, remove_if_there, write_for_this_boot};
use crate::host::{bandwidth, network, process, slots};
use crate::state::layout::Folder;
use crate::state::{boot_files, disk, raw_disk};
use crate::whole_cpus;
use crate::{Endpoint, EngineError, EngineResult};
use hotdesk_base::tasks::both;
use hotdesk_base::time::phase::PhaseTimer;
use nix::sys::resource::{Resource, getrlimit};

const CREATE: &str = "create the container";
const LIMIT: &str = "limit the guest's namespace";

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
        let _phase = PhaseTimer::begin(machine.folder.id, "runtime start");
        self.runtime.start(machine.folder.id)?;
        Ok(endpoint)
    }

    /// Does everything of a start except running the first process. Blocks.
    pub(super) fn prepare(&self, machine: &MachineBoot<'_>) -> EngineResult<Endpoint> {
        let MachineBoot { folder, spec, boot, lock } = *machine;
        let settings = &self.host.settings;
        let files = PhaseTimer::begin(folder.id, "files");
        raw_disk::check_mountable(folder)?;
        let network = &settings.network;
        let place = || -> EngineResult<_> {
            let slot = slots::claim(&folder.path, network.slots(), self.wanted_slot)?;
            disk::grow(&folder.disk(), spec.disk_bytes, settings.host_ids(slot), lock)?;
            Ok((slot, network::resolvers(network)?))
        };
        let (resource_files, placed) = match self.runtime.kind() {
            // It waits for programs, and the slots may be locked by the start of another machine.
            RuntimeKind::Shared => both(|| ResourceFiles::start(folder.id, &folder.lxcfs_pid()), place)
                .map_err(host_error(CREATE, &folder.path))?,
            RuntimeKind::Gvisor => (None, place()),
        };
        let (slot, resolvers) = placed?;
        let is_linked = network.enabled || self.runtime.kind() == RuntimeKind::Gvisor;
        let prepare_network = || {
            let _phase = PhaseTimer::begin(folder.id, "network rules");
            if is_linked { network::prepare(network, slot, spec.egress.as_ref()) } else { Ok(()) }
        };
        let create = || -> EngineResult<(u32, Endpoint)> {
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
                layers: spec
                    .layers
                    .iter()
                    .map(|layer| self.host.state.layer(*layer).join("rootfs"))
                    .collect(),
                agent: self.agent.to_owned(),
                disk: folder.disk(),
                first_id: settings.host_ids(slot),
                files: boot_files::files(spec, boot, &network::resolv_conf(&resolvers)),
                resource_files: resource_files.as_ref().map(ResourceFiles::mount),
            };
            Ok((self.create(folder, &parts, listener, files)?, endpoint))
        };
        // The packet rules take as long as the container and need nothing of it.
        let (prepared, created) = both(prepare_network, create).map_err(host_error(CREATE, &folder.path))?;
        let (pid, endpoint) = created?;
        prepared?;
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
        let limit = || match self.runtime.kind() {
            RuntimeKind::Shared => limit_namespace(pid),
            RuntimeKind::Gvisor => Ok(()),
        };
        let link = || if is_linked { self.link(machine, slot, pid) } else { Ok(()) };
        let (limited, linked) = both(limit, link).map_err(host_error(LIMIT, &folder.path))?;
        limited?;
        linked?;
        Ok(endpoint)
    }

    /// Assembles the guest's file system and creates the container. Returns its first process, which does not
    /// run yet.
    fn create(
        &self,
        folder: &Folder,
        parts: &FileSystemParts<'_>,
        listener: Option<OwnedFd>,
        files: PhaseTimer,
    ) -> EngineResult<u32> {
        stage::with_file_system(parts, || {
            drop(files);
            let _phase = PhaseTimer::begin(folder.id, "runtime create");
            self.runtime.create(folder, listener)
        })?;
        let made = self.runtime.state(folder.id)?;
        made.filter(|state| state.pid != 0).map(|state| state.pid).ok_or_else(|| {
            EngineError::failed(CREATE, "the OCI runtime has no record of it or no process for it")
        })
    }

    /// Links the guest to the host, and starts what its network needs.
    fn link(&self, machine: &MachineBoot<'_>, slot: u16, pid: u32) -> EngineResult<()> {
        let MachineBoot { folder, spec, .. } = *machine;
        let _phase = PhaseTimer::begin(folder.id, "network link");
        network::link(&self.host.settings.network, slot, pid)?;
        if let Some(policy) = &spec.egress {
            start_proxy(self.host, folder, slot, policy)?;
        }
        if spec.bandwidth_mbps > 0 {
            bandwidth::limit(slot, pid, spec.bandwidth_mbps)?;
        }
        Ok(())
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
            placement: Placement::Host { first_id: settings.host_ids(slot) },
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
        // A container ends with its host, and only its runtime reads this.
        write_for_this_boot(&folder.boot_config(), &text).map_err(host_error(STEP, &bundle))
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
    run_with(LIMIT, enter, &lines.concat()).map(drop)
}
