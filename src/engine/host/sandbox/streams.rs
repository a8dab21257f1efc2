//! Start of a tool that only copies one stream to another, such as `zstd`: it is a user of its own without capabilities, has the
//! sandbox's filter of system calls, and Landlock lets it open installed programs and libraries and no other file.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use nix::sys::resource::Resource;

use crate::host::command::spawn;
use crate::host::sandbox::{MAX_OPEN_FILES, PROGRAMS, drop_capabilities, system_calls};
use crate::host::syscalls::{self, Priority};
use crate::{EngineError, EngineResult};

/// The newest version of Landlock whose rights are limited; older kernels limit those that they know.
const LANDLOCK: ABI = ABI::V6;
/// The user of these tools, above the ids of all machines ([`crate::host::addresses::host_ids`]).
const USER: u32 = (1 << 31) - 1;

/// Starts a tool whose streams are open. Blocks.
///
/// # Errors
/// `Failed` when the tool is not installed or the kernel refuses to limit it. Kernels without Landlock limit no files.
pub(crate) fn spawn_between_streams(step: &'static str, mut command: Command) -> EngineResult<Child> {
    // Limits hold for the thread that sets them, and for what it starts.
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    let thread = thread.spawn(move || {
        drop_capabilities().map_err(|error| EngineError::failed(step, error))?;
        limit_files().map_err(|error| EngineError::failed(step, error))?;
        let limits = vec![(Resource::RLIMIT_CORE, 0), (Resource::RLIMIT_NOFILE, MAX_OPEN_FILES)];
        command.uid(USER).gid(USER);
        syscalls::confine(&mut command, limits, system_calls::filter(step)?, Priority::Inherited);
        spawn(step, &mut command)
    });
    let thread = thread.map_err(|error: io::Error| EngineError::failed(step, error))?;
    thread.join().unwrap_or_else(|_| Err(EngineError::failed(step, "the thread of the sandbox panicked")))
}

/// Limits the files of this thread and of what it starts; also signals and abstract sockets, where the kernel can.
pub(crate) fn limit_files() -> Result<(), RulesetError> {
    let runs = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
    let programs = PROGRAMS.map(|name| Path::new("/").join(name));
    // The error stream.
    let silent = AccessFs::ReadFile | AccessFs::WriteFile;
    Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .add_rules(path_beneath_rules(programs, runs))?
        .add_rules(path_beneath_rules(["/dev/null"], silent))?
        .restrict_self()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Stdio;

    use super::*;
    use crate::host::command::tool;

    /// Prints what the tool could do. Arguments: a file, a socket, and a process of the host.
    const ATTEMPTS: &str = r#"
        my ($secret, $socket, $process) = @ARGV;
        my @done;
        push @done, "fork" if defined(fork);
        push @done, "read" if open(READ, "<", $secret) or opendir(ROOT, "/");
        push @done, "write" if open(WRITE, ">", $secret);
        push @done, "connect" if socket(UNIX, 1, 1, 0) and connect(UNIX, pack("S a*", 1, $socket));
        push @done, "socket" if socket(INET, 2, 1, 0) or socket(UNIX, 1, 1, 0);
        push @done, "signal" if kill(0, $process) or kill(0, 1);
        push @done, "signal a thread" if syscall(234, $process, $process, 0) == 0;
        print "user $< did: @done\n";
    "#;

    #[test]
    fn d15_a_tool_between_streams_opens_no_file_of_the_host_and_has_no_capability() {
        if !nix::unistd::geteuid().is_root() {
            return hotdesk_capability::Capability::Root.skip("only root has capabilities to drop");
        }
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        // Not even permissions are in the way.
        for path in [folder.path(), &secret, &socket] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let (mut ours, theirs) = io::pipe().unwrap();
        let mut command = tool("perl");
        command.args(["-e", ATTEMPTS]).args([&secret, &socket]).arg(std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(theirs).stderr(Stdio::null());
        let mut child = spawn_between_streams("try", command).unwrap();
        let mut output = String::new();
        ours.read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(output, format!("user {USER} did: \n"));

        let mut sleeper = tool("sleep");
        sleeper.arg("60").stderr(Stdio::null());
        let mut child = spawn_between_streams("try", sleeper).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert!(status.contains(&format!("{set}:\t0000000000000000\n")), "{status}");
        }
        assert!(status.contains(&format!("\nUid:\t{USER}\t{USER}\t")), "{status}");
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
        // The limits were those of another thread.
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "secret");
    }
}
