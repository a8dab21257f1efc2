//! `hotdesk bash` and `hotdesk shell` on a real computer, used like ssh.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::tcgetattr;
use nix::unistd::Pid;

use super::person::Shell;
use crate::harness::controller::RunningController;
use crate::harness::process::OwnedChild;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A `hotdesk` command that a test starts itself.
fn command(shell: &Shell, controller: &RunningController, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(arguments).env_clear().env("HOME", shell.home()).current_dir(shell.home());
    command.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
    command
}

async fn exit_code(child: &mut OwnedChild) -> Option<i32> {
    let status = wait::until(TIMEOUT, || std::future::ready(child.0.try_wait().expect("a child")));
    status.await.expect("the command must end").code()
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_passes_all_streams_exactly_and_ends_as_the_command_did() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let ended = shell.run(&["bash", "one", "echo out; echo err >&2; exit 7"]).await;
    assert_eq!((ended.code, &*ended.out, &*ended.err), (7, "out\n", "err\n"));

    // The process reads nothing for longer than the server waits for it.
    let line = "head -c 20000000 /dev/urandom >sent && hotdesk bash one 'sleep 11; tee >(sha256sum >&2)' <sent 2>digest >back \
                && cmp sent back && sha256sum <sent | cmp - digest && echo equal";
    assert_eq!(shell.run_in_bash(line).await.expect_success(), "equal\n");

    for (arguments, code) in [
        (&["bash", "one", "kill -9 $$"][..], 137),
        (&["bash", "--timeout", "1", "one", "sleep", "60"], 124),
        (&["bash", "one", "exec sleep 1000 </dev/null & exit 255"], 255),
        (&["bash", "nobody", "true"], 255),
        (&["bash", "--timeout", "0", "one", "true"], 255),
        (&["shell", "nobody"], 255),
    ] {
        let ended = shell.run(arguments).await;
        assert_eq!((ended.code, &*ended.out), (code, ""), "{arguments:?}: {ended:?}");
    }
    let unreachable = Shell::with_key("http://127.0.0.1:1", controller.key());
    unreachable.run(&["bash", "one", "true"]).await.expect_failure(255, &["refused"]);

    let line = "hotdesk bash one yes | head -n 1; echo ${PIPESTATUS[0]}";
    assert_eq!(shell.run_in_bash(line).await.expect_success(), "y\n141\n");
    let line = "printf 'a\\nb\\n' | while read line; do hotdesk bash -n one echo $line; done";
    assert_eq!(shell.run_in_bash(line).await.expect_success(), "a\nb\n");
    let ended = shell.run_with_input(&["bash", "one", "-"], "echo from the input; cat").await;
    assert_eq!(ended.expect_success(), "from the input\n");

    let ended = shell.run_with_input(&["shell", "-T", "one"], "shopt -q login_shell && tty; exit 5\n").await;
    assert_eq!((ended.code, &*ended.out), (5, "not a tty\n"), "{ended:?}");
    let processes = shell.run(&["bash", "one", "--", "pgrep -f '^sleep 60'"]).await;
    assert_eq!(processes.code, 1, "{processes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_waits_for_a_reader_that_pauses() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    // More than all buffers between the process and the reader hold. The server ends other answers after 60 s.
    let line = "hotdesk bash one seq 20000000 | (sleep 75; tail -n 1); echo ${PIPESTATUS[0]}";
    assert_eq!(shell.run_in_bash(line).await.expect_success(), "20000000\n0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_is_live_and_an_interrupt_ends_everything_on_the_computer() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let line = "sleep 1234 & (sleep 1234 & wait) & echo begun; wait";
    let mut bash = command(&shell, &controller, &["bash", "one", line]);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        bash.stdin(Stdio::null()).stderr(Stdio::null());
        let (mut child, ()) =
            OwnedChild::spawn_until_ready(&mut bash, TIMEOUT, |line| (line == "begun").then_some(())).await;
        let both = "until [ \"$(pgrep -cf '^sleep 1234')\" = 2 ]; do sleep 0.1; done";
        shell.run(&["bash", "--timeout", "60", "one", both]).await.expect_success();
        kill(Pid::from_raw(child.0.id().cast_signed()), signal).expect("a child");
        assert_eq!(exit_code(&mut child).await, Some(code));
        let left = shell.run(&["bash", "one", "pgrep -f '^sleep 1234'"]).await;
        assert_eq!((left.code, &*left.out), (1, ""), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_is_ended_restores_the_terminal() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let pty = openpty(None, None).expect("a terminal");
        let before = tcgetattr(pty.slave.as_fd()).expect("attributes");
        let end = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        let mut started = command(&shell, &controller, &["shell", "one"]);
        let child = started.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts");
        let mut child = OwnedChild(child);
        // The prompt of the shell comes after raw mode.
        let mut screen = tokio::fs::File::from_std(std::fs::File::from(pty.master));
        let reading = async {
            let mut text = String::new();
            while !text.contains('#') {
                let mut piece = [0; 4096];
                let length = tokio::io::AsyncReadExt::read(&mut screen, &mut piece).await.expect("output");
                text.push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        };
        tokio::time::timeout(TIMEOUT, reading).await.expect("a prompt");
        assert_ne!(tcgetattr(pty.slave.as_fd()).expect("attributes"), before, "raw mode");
        kill(Pid::from_raw(child.0.id().cast_signed()), signal).expect("a child");
        assert_eq!(exit_code(&mut child).await, Some(code));
        assert_eq!(tcgetattr(pty.slave.as_fd()).expect("attributes"), before, "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_is_a_terminal() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let pty = openpty(None, None).expect("a terminal");
    let device = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pty.slave)));
    let resize = |cols: &str, rows: &str| {
        let device = device.as_ref().expect("a device");
        let set = Command::new("stty").arg("-F").arg(device).args(["cols", cols, "rows", rows]).status();
        assert!(set.expect("stty").success());
    };
    resize("91", "31");
    let before = tcgetattr(pty.slave.as_fd()).expect("attributes");
    let end = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
    let mut started = command(&shell, &controller, &["shell", "one"]);
    let child = started.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts");
    let mut child = OwnedChild(child);
    let mut keys = std::fs::File::from(pty.master.try_clone().expect("a descriptor"));
    let mut screen = tokio::fs::File::from_std(std::fs::File::from(pty.master));
    let mut text = String::new();
    let mut until = async |wanted: &str, keys: &mut std::fs::File, typed: &str| {
        keys.write_all(typed.as_bytes()).expect("typed");
        let reading = async {
            while !text.contains(wanted) {
                let mut piece = [0; 4096];
                let length = tokio::io::AsyncReadExt::read(&mut screen, &mut piece).await.expect("output");
                text.push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        };
        tokio::time::timeout(TIMEOUT, reading)
            .await
            .unwrap_or_else(|_| panic!("{wanted:?} is not in {text:?}"));
    };
    until("#", &mut keys, "").await;
    until("<31 91>", &mut keys, "echo \"<$(stty size)>\"\r").await;
    assert_ne!(tcgetattr(pty.slave.as_fd()).expect("attributes"), before, "raw mode");
    resize("120", "40");
    kill(Pid::from_raw(child.0.id().cast_signed()), Signal::SIGWINCH).expect("a child");
    until(
        "<40 120>",
        &mut keys,
        "while [ \"$(stty size)\" != '40 120' ]; do sleep 0.1; done; echo \"<$(stty size)>\"\r",
    )
    .await;
    // The kernel drops what was typed before an interrupt and not read yet, so the command must run by then. It
    // prints the mark itself: bash's own output comes before the command is in the foreground.
    until("<42>", &mut keys, "sh -c 'echo \"<$((40 + 2))>\"; exec sleep 1000'\r").await;
    until("^C", &mut keys, "\u{3}").await;
    until("über", &mut keys, "printf '\\303\\274ber\\n'\r").await;
    until("logout", &mut keys, "exit 9\r").await;
    assert_eq!(exit_code(&mut child).await, Some(9));
    assert_eq!(tcgetattr(pty.slave.as_fd()).expect("attributes"), before, "the terminal must be restored");
}
