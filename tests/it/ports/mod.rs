//! Ports of programs in a computer (docs/api/ports.md).

mod forward;
mod hosts;
mod http;
mod links;
mod open;
mod pages;

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::controller::RunningController;
use crate::harness::process::OwnedChild;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a Python program in a computer, and waits until it listens on a port.
async fn start_server(controller: &RunningController, id: &str, port: u16, program: &str) {
    let line = format!(
        "cat >/tmp/{port}.py <<'PROGRAM'\n{program}\nPROGRAM\n\
         (setsid python3 /tmp/{port}.py >/tmp/{port}.log 2>&1 &); \
         until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done; echo listens"
    );
    assert_eq!(controller.bash(id, &line).await, "listens\n");
}

/// `hotdesk forward`: the process, and the local addresses of its ports. Its errors go to the file `errors`.
async fn forward(
    controller: &RunningController,
    key: &str,
    computer: &str,
    port: u16,
    errors: &std::path::Path,
) -> (OwnedChild, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(["forward", computer, &format!("{port}:0")]).env_clear();
    command.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", key);
    command.stdin(Stdio::null()).stderr(std::fs::File::create(errors).expect("a file"));
    let local = |line: &str| line.split_once(" leads to port ").map(|(local, _)| local.to_owned());
    OwnedChild::spawn_until_ready(&mut command, TIMEOUT, local).await
}
