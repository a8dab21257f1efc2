//! Isolation of a computer: the kernel behind its programs, and the rules that choose and change it
//! (docs/concepts.md#isolation).

use crate::computer::lifecycle::Status;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// The kernel that serves the system calls of a computer's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// A kernel of its own in user space (gVisor). Memory can be saved.
    Sandbox,
    /// The host's kernel behind namespaces (runc). Native system calls; memory cannot be saved.
    Shared,
    /// A kernel of its own in a virtual machine (QEMU). Memory can be saved.
    Vm,
}

impl Isolation {
    /// Every isolation.
    pub const ALL: [Self; 3] = [Self::Sandbox, Self::Shared, Self::Vm];

    /// Returns the name in the API, in the configuration and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Shared => "shared",
            Self::Vm => "vm",
        }
    }

    /// Parses a name; `None` when no isolation has it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isolation| isolation.name() == name)
    }
}

/// Parses the isolation of a request.
///
/// # Errors
/// `Invalid`, with the names of all.
pub fn parse_isolation(name: &str) -> Result<Isolation> {
    Isolation::parse(name).ok_or_else(|| {
        Error::invalid(format!("isolation must be one of {}, not {name:?}", names(&Isolation::ALL)))
    })
}

/// The names of isolations, separated by commas.
pub fn names(isolations: &[Isolation]) -> String {
    isolations.iter().map(|isolation| isolation.name()).collect::<Vec<_>>().join(", ")
}

/// Inputs that decide the isolation of a new computer.
#[derive(Clone, Copy, Debug)]
pub struct IsolationChoice<'a> {
    /// The isolation of the request.
    pub requested: Option<Isolation>,
    /// The default of the workspace.
    pub of_workspace: Option<Isolation>,
    /// The default of the configuration, which is offered.
    pub configured: Isolation,
    /// Isolations that this host offers.
    pub offered: &'a [Isolation],
}

/// Chooses the isolation of a new computer: that of the request, else the default of its workspace, else the default
/// of the configuration. One that is not offered is never replaced by another, because that could weaken it.
///
/// # Errors
/// `Invalid` (`isolation_not_offered`), with what this host offers.
pub fn choose_isolation(choice: &IsolationChoice<'_>) -> Result<Isolation> {
    let IsolationChoice { requested, of_workspace, configured, offered } = *choice;
    let (chosen, what) = match (requested, of_workspace) {
        (Some(requested), _) => (requested, "isolation"),
        (None, Some(default)) => (default, "the default isolation of the workspace"),
        (None, None) => (configured, "the default isolation of the configuration"),
    };
    check_offered(chosen, what, offered)
}

/// Refuses an isolation that this host does not offer; `what` names its source.
///
/// # Errors
/// `Invalid` (`isolation_not_offered`), with what this host offers.
pub fn check_offered(isolation: Isolation, what: &str, offered: &[Isolation]) -> Result<Isolation> {
    if offered.contains(&isolation) {
        return Ok(isolation);
    }
    let (name, here) = (isolation.name(), names(offered));
    Err(Error::invalid(format!("{what} is {name}, and this host offers {here}; use one of these"))
        .code(ErrorCode::IsolationNotOffered))
}

/// Returns the isolation with which a host runs a machine of isolation `own`: the same where it is offered. A host that
/// offers only one runs every machine with it, because then the configuration decides for all; `None` otherwise.
pub fn effective_isolation(own: Isolation, offered: &[Isolation]) -> Option<Isolation> {
    match offered {
        [only] => Some(*only),
        several => several.contains(&own).then_some(own),
    }
}

/// A computer whose isolation is to change.
#[derive(Clone, Copy, Debug)]
pub struct IsolationChange {
    /// Its isolation.
    pub from: Isolation,
    /// The requested one, which is offered.
    pub to: Isolation,
    /// Its status.
    pub status: Status,
    /// Whether it has snapshots with memory, which only its isolation can resume.
    pub has_memory_snapshots: bool,
}

/// Decides a change of isolation; it takes effect at the next start. The root of a virtual machine writes its disk block
/// by block, and the host never mounts such a disk. So a virtual machine stays one.
///
/// # Errors
/// `Conflict` (`isolation_fixed`) for a virtual machine; `Conflict` (`not_stopped`) unless it is stopped; `Conflict`
/// (`isolation_fixed`) while it has snapshots with memory.
pub fn check_isolation_change(change: &IsolationChange) -> Result<()> {
    let IsolationChange { from, to, status, has_memory_snapshots } = *change;
    if from == to {
        return Ok(());
    }
    let to = to.name();
    if from == Isolation::Vm {
        let message = format!(
            "A virtual machine cannot become {to}: its root has written the disk, and a crafted file system could \
             attack the kernel of the host. Create a computer with isolation {to} and copy the files"
        );
        return Err(Error::conflict(message).code(ErrorCode::IsolationFixed));
    }
    if status != Status::Stopped {
        let message = format!("The isolation of a {} computer cannot change: stop it first", status.name());
        return Err(Error::conflict(message).code(ErrorCode::NotStopped));
    }
    if has_memory_snapshots {
        let message = format!(
            "The computer has snapshots with memory, which isolation {to} cannot resume: delete them first"
        );
        return Err(Error::conflict(message).code(ErrorCode::IsolationFixed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Isolation::{Sandbox, Shared, Vm};

    #[test]
    fn the_request_comes_before_the_workspace_and_that_before_the_configuration() {
        let all = &Isolation::ALL[..];
        for (requested, of_workspace, configured, offered, expected) in [
            (None, None, Shared, all, Ok(Shared)),
            (None, Some(Sandbox), Shared, all, Ok(Sandbox)),
            (Some(Vm), Some(Sandbox), Shared, all, Ok(Vm)),
            (Some(Shared), None, Shared, &[Shared][..], Ok(Shared)),
            (Some(Vm), None, Shared, &[Shared, Sandbox][..], Err("isolation is vm")),
            (None, Some(Vm), Shared, &[Shared, Sandbox][..], Err("workspace is vm")),
            (Some(Sandbox), Some(Vm), Shared, &[Shared, Sandbox][..], Ok(Sandbox)),
        ] {
            let chosen = choose_isolation(&IsolationChoice { requested, of_workspace, configured, offered });
            match (chosen, expected) {
                (Ok(chosen), Ok(expected)) => assert_eq!(chosen, expected),
                (Err(error), Err(part)) => {
                    assert!(error.message.contains(part), "{}", error.message);
                    assert!(error.message.contains("offers shared, sandbox"), "{}", error.message);
                    assert_eq!(error.code, Some(ErrorCode::IsolationNotOffered));
                }
                (chosen, expected) => panic!("{chosen:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn a_single_engine_runs_every_machine_and_several_only_their_own() {
        assert_eq!(effective_isolation(Vm, &[Shared]), Some(Shared));
        assert_eq!(effective_isolation(Sandbox, &[Shared, Sandbox]), Some(Sandbox));
        assert_eq!(effective_isolation(Vm, &[Shared, Sandbox]), None);
        assert_eq!(effective_isolation(Vm, &[]), None);
    }

    #[test]
    fn only_a_stopped_container_without_saved_memory_changes() {
        let fixed = Some(ErrorCode::IsolationFixed);
        for (from, to, status, has_memory_snapshots, expected) in [
            (Shared, Sandbox, Status::Stopped, false, None),
            (Sandbox, Vm, Status::Stopped, false, None),
            (Vm, Vm, Status::Running, true, None),
            (Vm, Shared, Status::Stopped, false, fixed),
            (Vm, Sandbox, Status::Running, false, fixed),
            (Shared, Vm, Status::Running, false, Some(ErrorCode::NotStopped)),
            (Sandbox, Shared, Status::Suspended, false, Some(ErrorCode::NotStopped)),
            (Sandbox, Shared, Status::Stopped, true, fixed),
        ] {
            let refused = check_isolation_change(&IsolationChange { from, to, status, has_memory_snapshots });
            assert_eq!(refused.err().and_then(|error| error.code), expected, "{from:?} {to:?} {status:?}");
        }
    }

    #[test]
    fn every_name_is_parsed_and_others_are_refused() {
        for isolation in Isolation::ALL {
            assert_eq!(parse_isolation(isolation.name()).unwrap(), isolation);
        }
        for name in ["", "VM", "gvisor", "container"] {
            assert!(parse_isolation(name).unwrap_err().message.contains("sandbox, shared, vm"), "{name}");
        }
    }
}
