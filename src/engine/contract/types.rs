//! Plain data of the [`Engine`](crate::Engine) trait.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use hotdesk_base::hex::unhex;
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::computer::isolation::{Isolation, effective_isolation, names};
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::desktop::resolution::Resolution;

use crate::{Endpoint, EngineError, EngineResult};

/// Operations of an engine beyond those that every engine has. The controller reads it before it
/// calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Suspend and resume with memory.
    pub suspend: bool,
    /// Change the number of CPUs of a running machine.
    pub live_cpu: bool,
    /// Change the memory size of a running machine.
    pub live_ram: bool,
    /// Grow the disk of a running machine.
    pub live_disk: bool,
    /// Copy the disk of a running machine.
    pub copy_while_running: bool,
    /// Take snapshots with memory, and make machines from them.
    pub memory_snapshot: bool,
    /// Begin new machines from snapshots with memory of prepared ones.
    #[serde(default)]
    pub boot_snapshot: bool,
    /// Read, evict and restore the saved state of a machine.
    pub evict: bool,
    /// Encrypt the files of machines on the host. The same for every isolation: the file system decides.
    pub encrypt: bool,
    /// Keep a copy of a machine on a second host, and begin from it.
    #[serde(default)]
    pub replicate: bool,
}

impl Capabilities {
    /// Everything that an engine can have.
    pub const ALL: Self = Self {
        suspend: true,
        live_cpu: true,
        live_ram: true,
        live_disk: true,
        copy_while_running: true,
        memory_snapshot: true,
        boot_snapshot: true,
        evict: true,
        encrypt: true,
        replicate: true,
    };
}

/// One isolation that an engine offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The isolation.
    pub isolation: Isolation,
    /// The name of the engine that provides it: `container` or `qemu`. Saved states carry it.
    pub engine: &'static str,
    /// Capabilities of machines of this isolation.
    pub capabilities: Capabilities,
}

/// All isolations that an engine offers: at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers {
    default: Offer,
    others: Vec<Offer>,
}

impl Offers {
    /// The offer of one isolation.
    pub fn one(offer: Offer) -> Self {
        Self { default: offer, others: Vec::new() }
    }

    /// Several offers, of which the first is the default.
    ///
    /// # Errors
    /// `Failed` when there is none, or two have the same isolation.
    pub fn several(offers: Vec<Offer>) -> EngineResult<Self> {
        const STEP: &str = "list the isolations of this host";
        let mut offers = offers.into_iter();
        let Some(default) = offers.next() else {
            return Err(EngineError::failed(STEP, "there is none; list one under [engines]"));
        };
        let mut this = Self::one(default);
        for offer in offers {
            if this.isolations().contains(&offer.isolation) {
                let detail = format!("{} is listed twice", offer.isolation.name());
                return Err(EngineError::failed(STEP, detail));
            }
            this.others.push(offer);
        }
        Ok(this)
    }

    /// The same offers on a host that can encrypt the files of machines of every isolation, or of none.
    pub(crate) fn with_encryption(mut self, encrypt: bool) -> Self {
        for offer in std::iter::once(&mut self.default).chain(&mut self.others) {
            offer.capabilities.encrypt = encrypt;
        }
        self
    }

    /// The offer of new machines for which nobody chose an isolation.
    pub fn default(&self) -> &Offer {
        &self.default
    }

    /// All offers, the default first.
    pub fn all(&self) -> impl Iterator<Item = &Offer> {
        std::iter::once(&self.default).chain(&self.others)
    }

    /// All isolations, the default first.
    pub fn isolations(&self) -> Vec<Isolation> {
        self.all().map(|offer| offer.isolation).collect()
    }

    /// The offer with which a machine of this isolation runs here ([`effective_isolation`]); `None` when there is none.
    pub fn find(&self, isolation: Isolation) -> Option<&Offer> {
        let effective = effective_isolation(isolation, &self.isolations())?;
        self.all().find(|offer| offer.isolation == effective)
    }

    /// The same as [`Self::find`].
    ///
    /// # Errors
    /// `Failed`, with what is offered.
    pub(crate) fn require(&self, isolation: Isolation) -> EngineResult<&Offer> {
        self.find(isolation).ok_or_else(|| {
            let (name, here) = (isolation.name(), names(&self.isolations()));
            let detail = format!(
                "its isolation is {name}, and this host offers {here}; add {name} to engines.offered, or change the \
                 isolation of the computer"
            );
            EngineError::failed("find the engine of the machine", detail)
        })
    }

    /// The spec with the isolation with which its machine runs here ([`effective_isolation`]).
    ///
    /// # Errors
    /// `Failed`, with what is offered.
    pub(crate) fn effective(&self, spec: &MachineSpec) -> EngineResult<MachineSpec> {
        let isolation = self.require(spec.isolation)?.isolation;
        Ok(MachineSpec { isolation, ..spec.clone() })
    }

    /// Returns the capabilities of machines of this isolation here; none where it is not offered.
    pub fn capabilities(&self, isolation: Isolation) -> Capabilities {
        self.find(isolation).map(|offer| offer.capabilities).unwrap_or_default()
    }
}

/// A key that encrypts files of machines: 64 bytes as 128 hex digits. Its `Debug` is redacted.
#[derive(Clone, Debug)]
pub struct FileKey(Secret);

impl FileKey {
    /// AES-256-XTS has two keys of 256 bits, and older kernels refuse a shorter master key.
    pub(crate) const BYTES: usize = 64;

    /// Wraps the digits of a key; `None` for any other text.
    pub fn parse(digits: &Secret) -> Option<Self> {
        Self::bytes(digits).map(|_| Self(digits.clone()))
    }

    /// Returns its digits.
    pub fn digits(&self) -> &Secret {
        &self.0
    }

    fn bytes(digits: &Secret) -> Option<[u8; Self::BYTES]> {
        unhex(digits.reveal().as_bytes())?.try_into().ok()
    }

    /// Returns its bytes.
    pub(crate) fn raw(&self) -> EngineResult<[u8; Self::BYTES]> {
        let no_key = || EngineError::failed("read a key of files", "it has not 128 hex digits");
        Self::bytes(&self.0).ok_or_else(no_key)
    }
}

/// Most read-only layers of a machine. The options of an overlay's mount name all of them and fit in one page of memory
/// (mount(2)), and a virtual machine has a disk for each, of which its bus takes about twenty more.
pub const MAX_LAYERS: usize = 16;

/// The hardware of a machine, which only a resize changes, its isolation, and the layers below its disk.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// The computer it belongs to; the label of everything that the engine leaves on the host.
    pub id: ComputerId,
    /// The kernel behind its programs. Another one than before takes effect at a start.
    pub isolation: Isolation,
    /// vCPUs; a fraction is a share of one core.
    pub cpu: f64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Disk in bytes: the most that the guest can store.
    pub disk_bytes: u64,
    /// Bandwidth limit in megabits a second, each way; 0 is unlimited.
    pub bandwidth_mbps: u32,
    /// Read-only layers between the image and its disk, the lowest first; at most [`MAX_LAYERS`]. A machine keeps those that it
    /// was made with.
    pub layers: Vec<LayerId>,
    /// Which destinations it reaches; without a policy, all that the packet rules of every machine permit.
    /// [`Engine::set_egress`](crate::Engine::set_egress) changes it, also while the machine runs.
    pub egress: Option<EgressPolicy>,
}

/// The number of whole CPUs for vCPUs, of which one may be a share.
pub(crate) fn whole_cpus(vcpus: f64) -> u32 {
    // The clamp makes the cast exact. No kernel has more CPUs.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    {
        vcpus.ceil().clamp(1.0, 65536.0) as u32
    }
}

/// One dimension of a machine's hardware with its new size, for [`Engine::resize`](crate::Engine::resize).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// vCPUs.
    Cpu(f64),
    /// Memory in bytes.
    Memory(u64),
    /// Disk in bytes; it never shrinks.
    Disk(u64),
    /// Megabits a second each way; 0 is unlimited.
    Bandwidth(u32),
}

/// When a change of hardware takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// It is in effect.
    Live,
    /// When the machine next starts from its disk, with the changed [`MachineSpec`].
    AtNextStart,
}

/// The size and kind of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Bytes on the host's disk.
    pub bytes: u64,
    /// Whether it holds memory besides the disk.
    pub memory: bool,
}

/// Inputs of a machine for one boot. Secrets reach the guest in a file that only its root can read, never by
/// argv or environment.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Counts this computer's starts; labels what runs (fencing, D3, docs/security.md).
    pub generation: u64,
    /// The agent's bearer token, new at every boot.
    pub token: Secret,
    /// Size of the boot screen.
    pub resolution: Resolution,
}

/// The state of one machine as an engine observes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// It has no disk on the host. An interrupted create may have left files:
    /// [`Engine::list`](crate::Engine::list) names the machine, create completes it, destroy removes it.
    Absent,
    /// Its disk is there; it does not run.
    Stopped,
    /// It does not run; its disk and memory are saved, and [`Engine::resume`](crate::Engine::resume)
    /// continues it. [`Engine::saved_state`](crate::Engine::saved_state) says whether they are on this host.
    Suspended {
        /// The generation of the boot that was suspended.
        generation: u64,
    },
    /// It runs.
    Running {
        /// The generation of the boot that runs.
        generation: u64,
        /// The address of its agent.
        endpoint: Endpoint,
        /// Its address in the host's private network, when it has one.
        address: Option<std::net::IpAddr>,
    },
}

/// A host that runs machines, as the engine observes it: a member of a cluster, or its only server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostObservation {
    /// Its name, which no other host of the engine has.
    pub name: String,
    /// Whether it answers and takes new machines.
    pub is_online: bool,
    /// Why it does not, in words; empty while it does.
    pub message: String,
    /// Number of its processors; 0 while unknown.
    pub cpus: u32,
    /// Bytes of its memory; 0 while unknown.
    pub memory_bytes: u64,
    /// Bytes of memory that programs can get.
    pub memory_free_bytes: u64,
    /// Bytes of its storage for machines; 0 while unknown.
    pub disk_bytes: u64,
    /// Bytes of that storage that are free.
    pub disk_free_bytes: u64,
    /// Whether the guest image is ready on it. A host without it fetches it for its first machine.
    pub has_image: bool,
}

/// The space of the host's disk at a look, and when to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskWatch {
    /// Free bytes, less what machines have not written back yet.
    pub free: u64,
    /// Number of machines that are frozen because the disk is nearly full.
    pub frozen: usize,
    /// Longest time until the next look.
    pub next: Duration,
}

/// One result of a check of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The thing that was checked.
    pub what: Cow<'static, str>,
    /// Whether it meets the engine's needs.
    pub ok: bool,
    /// Whether computers run without it, with the restriction that `detail` names.
    pub optional: bool,
    /// Finding, as a sentence.
    pub detail: String,
    /// Remedy when `ok` is false; empty otherwise.
    pub remedy: Cow<'static, str>,
}

impl Finding {
    /// What the finding means for computers.
    pub fn severity(&self) -> Severity {
        match self {
            Self { ok: true, .. } => Severity::Ok,
            Self { optional: true, .. } => Severity::Warning,
            Self { .. } => Severity::Failed,
        }
    }
}

/// What a finding means for computers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The host has what the engine needs.
    Ok,
    /// Computers run, with a restriction.
    Warning,
    /// Computers do not run.
    Failed,
}

impl Severity {
    /// Returns the name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// Findings about the needs of one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFindings {
    /// What the engine offers.
    pub offer: Offer,
    /// Results of the checks that ran, in the order of the checks.
    pub findings: Vec<Finding>,
    /// Names of the checks that did not run, because only quick ones were asked for.
    pub left_out: Vec<Cow<'static, str>>,
}

/// One thing on the host that no computer owns, in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftoverRecord {
    /// The kind of thing, for example `loop device`.
    pub kind: Cow<'static, str>,
    /// Its path or name.
    pub location: String,
    /// Why no computer owns it.
    pub reason: Cow<'static, str>,
    /// What a repair does with it.
    pub remedy: Cow<'static, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(isolation: Isolation) -> Offer {
        Offer { isolation, engine: "container", capabilities: Capabilities::ALL }
    }

    #[test]
    fn a_missing_requirement_that_computers_can_do_without_is_a_warning() {
        let finding = |ok, optional| Finding {
            what: "root".into(),
            ok,
            optional,
            detail: String::new(),
            remedy: "".into(),
        };
        for (ok, optional, expected) in
            [(true, false, "ok"), (true, true, "ok"), (false, true, "warning"), (false, false, "failed")]
        {
            assert_eq!(finding(ok, optional).severity().name(), expected, "{ok} {optional}");
        }
    }

    #[test]
    fn each_isolation_is_offered_once_and_the_first_is_the_default() {
        let two = Offers::several(vec![offer(Isolation::Vm), offer(Isolation::Shared)]).unwrap();
        assert_eq!(two.default().isolation, Isolation::Vm);
        assert_eq!(two.isolations(), [Isolation::Vm, Isolation::Shared]);
        assert_eq!(two.capabilities(Isolation::Sandbox), Capabilities::default());
        let refused = format!("{:#}", two.require(Isolation::Sandbox).unwrap_err());
        assert!(refused.contains("sandbox, and this host offers vm, shared"), "{refused}");
        assert!(Offers::several(vec![offer(Isolation::Vm), offer(Isolation::Vm)]).is_err());
        assert!(Offers::several(Vec::new()).is_err());
    }
}
