//! The host helper of a controller without privileges, as a process of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::controller::{command_of, remove_test_variables};
use super::process::OwnedChild;

/// User of the controller; no account of a Debian host has this number.
pub const USER: u32 = 63_870;
/// Longest time until a helper is ready, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);

pub struct HostHelper(OwnedChild);

/// Configures the controller in `folder` for a helper, and lets the controller's user reach the folder.
pub fn configure(folder: &Path) {
    let (file, socket) = (folder.join("hotdesk.toml"), folder.join("host.sock"));
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    let text = format!("{before}\n[host]\nsocket = {socket:?}\nuser = \"{USER}\"\n");
    std::fs::write(file, text).expect("a configuration");
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711)).expect("a mode");
}

impl HostHelper {
    /// Starts the helper of the controller in `folder`, and waits until it is ready.
    pub async fn start(folder: &Path) -> Self {
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("a log");
        let is_ready = |line: &str| line.starts_with("host helper is ready").then_some(());
        let helper = command_of("host", folder);
        // The strictest umask, which an administrator's shell may have.
        let mut command = Command::new("sh");
        command
            .args(["-c", "umask 077 && exec \"$@\"", "sh"])
            .arg(helper.get_program())
            .args(helper.get_args());
        remove_test_variables(&mut command);
        let (child, ()) = OwnedChild::spawn_until_ready(command.stderr(log), START_TIMEOUT, is_ready).await;
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.0.id()
    }

    /// Kills the helper with SIGKILL and reaps it.
    pub fn kill(&mut self) {
        self.0.0.kill().expect("the helper runs");
        self.0.0.wait().expect("the helper ends");
    }
}
