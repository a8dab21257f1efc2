//! Process 1: restarts of the agent on the same socket, reaping of orphans, and shutdown.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::agent::{OwnedChild, alive, client_builder, gone};
use crate::harness::capability::Capability;

pub(super) const TOKEN: &str = "the-token-of-this-test-1234";

pub(super) struct RunningInit {
    child: OwnedChild,
    pub(super) folder: TempDir,
    pub(super) client: reqwest::Client,
    _socket: UnixListener,
}

impl RunningInit {
    /// Init with an agent on an inherited socket, as an engine starts them.
    fn start() -> Self {
        Self::start_with(Command::new(env!("CARGO_BIN_EXE_hotdesk")))
    }

    /// Runs init as process 1 of its own process and mount namespaces, with empty home folders. Its file may
    /// be below one of those, so a descriptor names the program.
    fn as_process_1() -> Self {
        let script = "mount -t tmpfs none /run && mount -t tmpfs none /home && exec 9<\"$1\" && \
            mount -t tmpfs none /root && shift && exec /proc/self/fd/9 \"$@\"";
        let mut command = Command::new("unshare");
        command.args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--mount-proc",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        command.arg(env!("CARGO_BIN_EXE_hotdesk"));
        Self::start_with(command)
    }

    pub(super) fn start_with(mut command: Command) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("home")).expect("a home folder");
        fs::write(path("token"), TOKEN).expect("a token file");
        fs::set_permissions(path("token"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("a private token file");
        let socket = UnixListener::bind(path("agent.sock")).expect("a socket");
        // Above the descriptors that shells use for themselves.
        let high = rustix::io::fcntl_dupfd_cloexec(socket.as_fd(), 20).expect("a higher descriptor");
        let socket = UnixListener::from(high);
        rustix::io::fcntl_setfd(socket.as_fd(), rustix::io::FdFlags::empty()).expect("an inheritable socket");
        let child = command
            .args(["init", "--log"])
            .arg(path("log/agent.log"))
            .args(["--", "--display", "none", "--listen"])
            .arg(format!("fd:{}", socket.as_raw_fd()))
            .arg("--token-file")
            .arg(path("token"))
            .arg("--runtime-dir")
            .arg(path("run"))
            .arg("--home")
            .arg(path("home"))
            .stdin(Stdio::null())
            .spawn()
            .expect("init starts");
        rustix::io::fcntl_setfd(socket.as_fd(), rustix::io::FdFlags::CLOEXEC).expect("a private socket");
        let client = client_builder().unix_socket(path("agent.sock")).build().expect("a client");
        Self { child: OwnedChild(child), folder, client, _socket: socket }
    }

    /// Repeats the request until an agent answers: one may be starting, or may have died during the request.
    async fn bash(&self, command: &str) -> Value {
        self.bash_with(TOKEN, command).await
    }

    pub(super) async fn bash_with(&self, token: &str, command: &str) -> Value {
        let body = json!({ "command": command, "timeout": 10 });
        let answer = wait::until(Duration::from_secs(20), || async {
            let request = self.client.post("http://agent/bash").bearer_auth(token).json(&body);
            request.send().await.ok()?.json().await.ok()
        });
        answer.await.expect("an agent must answer")
    }

    async fn agent_pid(&self) -> String {
        let pid = self
            .bash("awk '/^PPid/{print $2}' /proc/$(awk '/^PPid/{print $2}' /proc/$PPID/status)/status")
            .await;
        pid["output"].as_str().expect("output").trim().to_owned()
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log/agent.log")).unwrap_or_default()
    }
}

fn kill(pid: &str, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.parse().expect("a process id")), signal)
        .expect("the process can be signalled");
}

fn children(pid: u32) -> Vec<String> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_is_back_on_the_same_socket() {
    let init = RunningInit::start();
    let first = init.agent_pid().await;
    for _ in 0..2 {
        let before = init.agent_pid().await;
        kill(&before, nix::sys::signal::Signal::SIGKILL);
        let after = init.agent_pid().await;
        assert_ne!(before, after);
        assert!(!alive(&before));
    }
    assert!(
        !alive(&first) && !Path::new(&format!("/proc/{first}")).exists(),
        "the dead agent must be reaped"
    );
    assert!(init.log().contains("init: the agent ended") && !init.log().contains(TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_reaped_and_signals_do_no_harm() {
    let init = RunningInit::start();
    init.bash("for i in $(seq 50); do setsid -f sleep 0.1; done").await;
    for signal in ["HUP", "USR1", "USR2", "QUIT", "PIPE", "ALRM"] {
        init.bash(&format!("kill -{signal} {}", init.child.0.id())).await;
    }
    let only_the_agent = wait::until(Duration::from_secs(30), || async {
        (children(init.child.0.id()).len() == 1).then_some(())
    });
    only_the_agent.await.unwrap_or_else(|| panic!("left: {:?}", children(init.child.0.id())));
    assert_eq!(children(init.child.0.id()), [init.agent_pid().await]);
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_it_ends_agent_and_background_processes_and_exits_0() {
    let mut init = RunningInit::start();
    let agent = init.agent_pid().await;
    let home = init.folder.path().join("home");
    init.bash("setsid -f sleep 1000; setsid -f sh -c 'trap \"\" TERM; echo $$ > stubborn; while :; do sleep 1; done'; while [ ! -s stubborn ]; do sleep 0.05; done").await;
    let stubborn = fs::read_to_string(home.join("stubborn")).unwrap();
    // The process that has run the command adopts first, and ends a moment after the answer.
    let sleeper = wait::until(Duration::from_secs(30), || async {
        let mut adopted = children(init.child.0.id()).into_iter();
        adopted.find(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"))
        })
    });
    let sleeper = sleeper.await.expect("init must adopt the background process");
    assert!(alive(&stubborn) && alive(&sleeper));
    kill(&init.child.0.id().to_string(), nix::sys::signal::Signal::SIGTERM);
    let started = std::time::Instant::now();
    let ended = wait::until(Duration::from_secs(30), || {
        let status = init.child.0.try_wait().unwrap();
        async move { status }
    });
    assert!(ended.await.expect("init must end").success());
    assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    for pid in [&agent, &stubborn, &sleeper] {
        assert!(gone(pid).await, "{pid} must end");
    }
}

fn may_unshare() -> bool {
    let unshare =
        Command::new("unshare").args(["--pid", "--fork", "--mount", "--mount-proc", "true"]).status();
    unshare.is_ok_and(|status| status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn as_process_1_it_prepares_the_computer_and_survives_kill_9_minus_1() {
    if !may_unshare() {
        Capability::Root.skip("pid and mount namespaces are not available");
        return;
    }
    let mut init = RunningInit::as_process_1();
    let prepared = init
        .bash("readlink /home/user/Desktop; stat -c %a /run/hotdesk-session; ls /root; cat /proc/1/comm")
        .await;
    assert_eq!(prepared["output"], json!("/root/Desktop\n700\nDesktop\nDownloads\n9\n"), "{}", init.log());
    let before = init.agent_pid().await;
    let body = json!({"command": "setsid -f sleep 1000; kill -9 -1"});
    let killing = init.client.post("http://agent/bash").bearer_auth(TOKEN).json(&body).send().await;
    assert!(killing.is_err(), "answered: {killing:?}");
    let after = init.bash("ps -eo args= | grep -c '[s]leep 1000'").await;
    assert_eq!(after["output"], json!("0\n"));
    assert_ne!(init.agent_pid().await, before);
    init.bash("kill -9 1; kill -TERM $$").await;
    assert_eq!(init.bash("echo still").await["output"], json!("still\n"));

    let process_1 = children(init.child.0.id()).pop().expect("unshare has a child");
    kill(&process_1, nix::sys::signal::Signal::SIGTERM);
    let ended = wait::until(Duration::from_secs(30), || {
        let status = init.child.0.try_wait().unwrap();
        async move { status }
    });
    assert!(ended.await.expect("init must end").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_python_can_be_ended_by_signals() {
    let init = RunningInit::start();
    let answer = init.bash("grep SigBlk /proc/self/status; sleep 30 & kill $!; wait $!; echo $?").await;
    let output = answer["output"].as_str().expect("output");
    assert_eq!(output, "SigBlk:\t0000000000000000\n143\n");
}
