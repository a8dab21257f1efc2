//! The host as opened engines share it: settings, state folder, offers, and the isolation of each machine.

use std::path::PathBuf;
use std::sync::{Mutex, RwLock};

use crate::host::command::host_error;
use crate::host::network::forwarding::ForwardingUpkeep;
use crate::host::network::{self, AGENT_PORT};
use crate::host::slots;
use crate::host::syscalls::{PASSED_FD, fscrypt};
use crate::state::disk_guard::DiskGuard;
use crate::state::layout::{Folder, StateDir};
use crate::state::{client_sockets, trash};
use crate::{Boot, EngineError, EngineResult, HostSettings, Offer, Offers, OpenMode};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;

/// What the engines of a host hold of it together.
#[derive(Debug)]
pub(crate) struct HostContext {
    pub(crate) settings: HostSettings,
    pub(crate) state: StateDir,
    pub(crate) offers: Offers,
    forwarding: ForwardingUpkeep,
    pub(crate) guard: DiskGuard,
    /// Held while the sizes of all disks are summed and another is added, and while a layer without machines is removed.
    pub(super) admission: Mutex<()>,
    /// Held to read while a prepared disk is copied, and to write while one is made.
    pub(super) disks: RwLock<()>,
    /// Held while the kernel gets or loses keys that encrypt machines.
    pub(super) keys: Mutex<()>,
}

impl HostContext {
    /// Opens the state folder, making it when missing, and finishes interrupted destroys unless it is only
    /// read.
    pub(crate) fn open(settings: HostSettings, mode: OpenMode, offers: Offers) -> EngineResult<Self> {
        let state = StateDir::open(&settings.state_dir)?;
        if mode != OpenMode::ReadOnly {
            trash::empty(&state)?;
        }
        if let Some(client) = settings.network.client.filter(|_| mode == OpenMode::Run) {
            client_sockets::open(&state, client)?;
            network::admit_client(&settings.network)?;
        }
        let machines = state.machines();
        let encrypts =
            fscrypt::is_supported(&machines).map_err(host_error("look for encryption", &machines))?;
        let (guard, forwarding) = (DiskGuard::default(), ForwardingUpkeep::default());
        let (admission, disks, keys) = (Mutex::default(), RwLock::default(), Mutex::default());
        // The same for every isolation: one file system has the folders of all machines.
        let offers = offers.with_encryption(encrypts);
        Ok(Self { settings, state, offers, forwarding, guard, admission, disks, keys })
    }

    /// The offer with which a machine runs, or ran last. One without a record is not made yet, was made by an earlier
    /// version, or is encrypted and its key is missing, so that nothing of it runs: it belongs to the default.
    ///
    /// # Errors
    /// `Failed` when the host offers its isolation no more, or its record cannot be read.
    pub(crate) fn offer_of(&self, folder: &Folder) -> EngineResult<&Offer> {
        let isolation = folder.find_record()?.and_then(|record| record.isolation());
        isolation.map_or(Ok(self.offers.default()), |isolation| self.offers.require(isolation))
    }

    /// The machines that run with an isolation, ascending. Those of isolations that are not offered are left out.
    pub(crate) fn machines_of(&self, isolation: Isolation) -> EngineResult<Vec<ComputerId>> {
        let is_own = |id: &ComputerId| {
            self.offer_of(&self.state.folder(*id)).is_ok_and(|offer| offer.isolation == isolation)
        };
        Ok(self.state.list()?.into_iter().filter(is_own).collect())
    }

    /// Keeps the network of running guests, after changes of the host's. Blocks.
    pub(crate) fn maintain_network(&self) -> EngineResult<()> {
        let host =
            slots::host_dir().map_err(|error| EngineError::failed("make the host-wide folder", error))?;
        self.forwarding.run(&host, &self.settings.network)
    }

    /// The path at which the controller connects to a machine's agent on a unix socket.
    pub(crate) fn agent_socket(&self, folder: &Folder) -> PathBuf {
        if self.settings.network.client.is_some() { folder.client_socket() } else { folder.socket() }
    }

    /// Lets the controller connect to the socket that a machine's agent now has; returns [`Self::agent_socket`].
    pub(crate) fn publish_agent_socket(&self, folder: &Folder) -> EngineResult<PathBuf> {
        self.settings.network.client.map_or(Ok(()), |client| client_sockets::publish(folder, client))?;
        Ok(self.agent_socket(folder))
    }

    /// The first process of a guest, and its arguments: the configured one, else that of hotdesk's own image,
    /// whose agent takes the inherited socket. With `by_address`, under gVisor and in virtual machines, the
    /// agent listens on every address, because a resume may change the address. `cpus` is the number of CPUs that
    /// programs see, where the guest's kernel shows all of the host.
    pub(crate) fn init_args(&self, boot: &Boot, by_address: bool, cpus: Option<u32>) -> Vec<String> {
        if let Some(args) = &self.settings.init_args {
            return args.clone();
        }
        let listen = if by_address { format!("0.0.0.0:{AGENT_PORT}") } else { format!("fd:{PASSED_FD}") };
        image_init_args(boot, &listen, by_address, cpus)
    }
}

/// The first process of hotdesk's own image, and its arguments. See [`HostContext::init_args`].
pub(crate) fn image_init_args(boot: &Boot, listen: &str, by_address: bool, cpus: Option<u32>) -> Vec<String> {
    let resolution = boot.resolution.to_string();
    let cpus = cpus.map(|count| format!("--cpus={count}"));
    let init = ["/usr/bin/hotdesk", "init"].into_iter().chain(cpus.as_deref());
    let args = ["--", "--listen", listen, "--token-file", "/run/hotdesk/token", "--resolution", &resolution];
    let remote = by_address.then_some("--allow-remote");
    // Under gVisor the agent alone can set the host name (docs/engines/gvisor.md). A virtual machine's root may do so too.
    let confined = cpus.is_some().then_some("--confine-admin");
    init.chain(args).chain(remote).chain(confined).map(str::to_owned).collect()
}
