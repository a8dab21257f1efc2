//! Probes of health checks: an HTTP request, a TCP connection, a command, or a process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::exec::services::script::{ScriptName, ScriptRun};
use crate::exec::tree;
use hotdesk_wire::programs::service::HealthProgram;
use hotdesk_wire::template::health::HealthProbe;

/// Length of a process name in the kernel, without its end (`TASK_COMM_LEN`, proc_pid_comm(5)).
const MAX_COMM: usize = 15;

/// What probes need of the computer.
pub(in crate::exec::services) struct ProbeContext<'a> {
    /// Environment of commands.
    pub(in crate::exec::services) environment: &'a [(String, String)],
    /// Assignments before a command.
    pub(in crate::exec::services) prelude: &'a str,
    /// Folder in which scripts are written.
    pub(in crate::exec::services) folder: &'a Path,
    /// Client of HTTP probes.
    pub(in crate::exec::services) client: &'a reqwest::Client,
}

/// The script of an application's health check.
pub(in crate::exec::services) fn script_name(app: &str) -> ScriptName<'_> {
    ScriptName { kind: "health", name: app }
}

/// Checks once.
///
/// # Errors
/// Why the application does not work, for its author.
pub(in crate::exec::services) async fn check(
    program: &HealthProgram,
    context: &ProbeContext<'_>,
) -> Result<(), String> {
    let timeout = Duration::from_millis(program.timeout_ms);
    let late = || format!("no answer within {timeout:?}");
    match &program.probe {
        HealthProbe::Http { url } => {
            let answer = tokio::time::timeout(timeout, context.client.get(url).send()).await;
            let answer = answer.map_err(|_| late())?.map_err(|error| causes(&error))?;
            let status = answer.status().as_u16();
            if status < 400 { Ok(()) } else { Err(format!("{url} answered with the status {status}")) }
        }
        HealthProbe::Tcp { port } => {
            let connected = tokio::time::timeout(timeout, TcpStream::connect(("127.0.0.1", *port))).await;
            connected.map_err(|_| late())?.map(drop).map_err(|error| format!("port {port}: {error}"))
        }
        HealthProbe::Command { command } => {
            let script = format!("{}{command}\n", context.prelude);
            let run = ScriptRun {
                name: script_name(&program.app),
                script: &script,
                environment: context.environment,
                cwd: Path::new("/root"),
                folder: context.folder,
                timeout,
            };
            run.run_command().await
        }
        HealthProbe::Process { process } => {
            let name = process.clone();
            let found = hotdesk_base::tasks::spawn_blocking(move || is_running(&name)).await;
            match found {
                Ok(true) => Ok(()),
                Ok(false) => Err(format!("there is no process {process}")),
                Err(error) => Err(format!("the processes cannot be listed: {error}")),
            }
        }
    }
}

/// A client for requests to `url`, which may be empty for none. It follows no redirect: an answer with one is an answer. Only
/// https needs the certificate authorities of the computer: reading them takes time, and some images have none.
pub(in crate::exec::services) fn client(url: &str) -> reqwest::Result<reqwest::Client> {
    // A process has one crypto provider; an earlier one is equally good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")));
    let is_https = url.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:"));
    if is_https { builder.build() } else { builder.tls_certs_only([]).build() }
}

/// The URL of an HTTP probe; empty for other ones.
pub(super) fn url_of(probe: &HealthProbe) -> &str {
    match probe {
        HealthProbe::Http { url } => url.as_str(),
        HealthProbe::Tcp { .. } | HealthProbe::Command { .. } | HealthProbe::Process { .. } => "",
    }
}

/// An error with its causes, which name the reason of a failed connection.
pub(in crate::exec::services) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Whether a process of this name runs. The kernel keeps the first 15 bytes of a name.
pub(in crate::exec::services) fn is_running(name: &str) -> bool {
    tree::processes().iter().any(|process| !process.ended && has_name(process.pid, name))
}

fn has_name(pid: i32, name: &str) -> bool {
    let wanted = &name.as_bytes()[..name.len().min(MAX_COMM)];
    fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_ascii_end() == wanted)
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    use super::*;

    #[test]
    fn processes_are_found_by_their_name() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(is_running("sleep"));
        assert!(!is_running("slee"));
        child.kill().unwrap();
        // An ended process that waits to be reaped does not run.
        let pid = i32::try_from(child.id()).unwrap();
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(nix::unistd::Pid::from_raw(pid)), flags).unwrap();
        assert!(tree::processes().iter().all(|process| process.pid != pid || process.ended));
        child.wait().unwrap();
    }
}
