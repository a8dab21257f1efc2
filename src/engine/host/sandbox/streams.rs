//! Start of a tool that only copies one stream to another, such as `zstd`: it has no capability, and Landlock lets it open installed
//! programs and libraries and no other file.

use std::io;
use std::path::Path;
use std::process::{Child, Command};

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, path_beneath_rules,
};

use crate::host::command::spawn;
use crate::host::sandbox::{PROGRAMS, drop_capabilities};
use crate::{EngineError, EngineResult};

/// The newest version of Landlock whose rights are limited; older kernels limit those that they know.
const LANDLOCK: ABI = ABI::V5;

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
        spawn(step, &mut command)
    });
    let thread = thread.map_err(|error: io::Error| EngineError::failed(step, error))?;
    thread.join().unwrap_or_else(|_| Err(EngineError::failed(step, "the thread of the sandbox panicked")))
}

pub(crate) fn limit_files() -> Result<(), RulesetError> {
    let runs = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
    let programs = PROGRAMS.map(|name| Path::new("/").join(name));
    // The error stream.
    let silent = AccessFs::ReadFile | AccessFs::WriteFile;
    Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .create()?
        .add_rules(path_beneath_rules(programs, runs))?
        .add_rules(path_beneath_rules(["/dev/null"], silent))?
        .restrict_self()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;
    use crate::host::command::tool;

    #[test]
    fn d15_a_tool_between_streams_opens_no_file_of_the_host_and_has_no_capability() {
        if !nix::unistd::geteuid().is_root() {
            return hotdesk_capability::Capability::Root.skip("only root has capabilities to drop");
        }
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let (mut ours, theirs) = io::pipe().unwrap();
        let mut command = tool("sh");
        let script = "cat; cat \"$0\" || echo refused; echo x >\"$0\" || echo refused; ls / || echo refused";
        command.args(["-c", script]).arg(&secret).stdin(Stdio::null()).stdout(theirs).stderr(Stdio::null());
        let mut child = spawn_between_streams("try", command).unwrap();
        let mut output = String::new();
        ours.read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "the last alternative succeeds");
        assert_eq!(output, "refused\nrefused\nrefused\n");

        let mut sleeper = tool("sleep");
        sleeper.arg("60").stderr(Stdio::null());
        let mut child = spawn_between_streams("try", sleeper).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert!(status.contains(&format!("{set}:\t0000000000000000\n")), "{status}");
        }
        // The limits were those of another thread.
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "secret");
    }
}
