//! Computers whose programs run under gVisor in their instance, so that their memory can be saved.
//!
//! ```text
//!   instance (unprivileged container)
//!     process 1: launcher -- /run/hotdesk/agent.sock -- relay -- veth -- agent in gVisor
//!       |                                                                 |
//!       +-- /run/hotdesk/launcher.sock: ready, suspend,         root: overlay of /base and machine/upper
//!                                       checkpoint
//! ```
//! `/base` is a volume of the member with the guest image, which instances cannot write.
//! The programs of the computer see neither the launcher nor the files of the instance outside of the overlay. The memory of a
//! suspended computer is a folder on the disk of its instance: it moves with it. A file with the generation in its name, which is
//! written last, makes it whole. A label of the instance says that the file may be there. The launcher uses the memory once.

pub(super) mod bundle;
mod checkpoint;
mod control;
mod failure;
mod launcher;
mod machine;
mod memory;
mod relay;

use std::path::PathBuf;

use uuid::Uuid;

use crate::container::runtime::Runtime;
use crate::incus::documents::{BASE, BootMode};
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// gVisor's runtime in an instance.
pub(super) const RUNSC: &str = "/hotdesk/runsc";
/// Files that the guest sees besides its disk, and the mount point of its root.
const STAGE: &str = "/hotdesk/stage";
/// Folder with all that the launcher stores, on the disk of the instance.
const MACHINE: &str = "/hotdesk/machine";
/// Folders of the overlay, and of the OCI bundle, that the image has.
pub(super) const FOLDERS: [&str; 4] =
    ["hotdesk/stage/rootfs", "hotdesk/machine/upper", "hotdesk/machine/work", "hotdesk/machine/bundle"];
/// File with the generation of the boot for which the other files were written.
const GENERATION_FILE: &str = "/hotdesk/machine/generation";
/// File with the generation of the memory from which the next boot continues, if it does.
pub(super) const SAVED_GENERATION_FILE: &str = "/hotdesk/machine/saved-generation";
/// File with the reason why a boot failed.
const FAILURE_FILE: &str = "/hotdesk/machine/failure.json";
/// Socket on which the launcher takes requests.
const CONTROL_SOCKET: &str = "/run/hotdesk/launcher.sock";
/// Folder of the runtime's records.
const RECORDS: &str = "/run/runsc";

/// Runs a command of the launcher in an instance, for the boot of this generation: `start` or `resume` as process 1, `ready`,
/// `suspend` or `checkpoint` as a request to it. Prints the answers to a request.
///
/// # Errors
/// `Failed` when the verb is unknown, the boot fails, or process 1 does not answer; `Damaged` when saved memory is not whole.
pub fn run_launcher(verb: &str, generation: u64) -> EngineResult<()> {
    match verb {
        "start" => launcher::run(BootMode::FromDisk, generation),
        "resume" => launcher::run(BootMode::FromMemory, generation),
        control::READY | control::SUSPEND | control::CHECKPOINT => control::request(verb, generation),
        other => Err(EngineError::failed("run the launcher", format!("it has no command {other:?}"))),
    }
}

/// The folder of the machine. An instance has one machine, whose name in the runtime's records does not matter.
fn folder() -> Folder {
    Folder { id: ComputerId(Uuid::nil()), path: PathBuf::from(MACHINE) }
}

fn runtime() -> Runtime {
    Runtime::in_instance(RUNSC, PathBuf::from(RECORDS))
}
