//! Process events: start and end by name, without the agent's own processes.
//!
//! They are immediate where the kernel's process connector is available.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hotdesk::domain::desktop::event::EventKind;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use super::watch::WatchListener;
use crate::harness::capability::Capability;

#[tokio::test]
async fn processes_are_told_by_their_names_and_only_new_ones() {
    let home = tempfile::tempdir().expect("a folder");
    let sleep = || Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().expect("sleep");
    let mut before = sleep();
    let listener =
        WatchListener::start(None, home.path(), &[EventKind::ProcessStart, EventKind::ProcessStop]).await;
    let mut one = sleep();
    let of = |pid: u32| move |_: &str, data: &serde_json::Value| data["pid"] == pid;
    let event = json!({"pid": one.id(), "name": "sleep"});
    assert_eq!(listener.find(of(one.id())).await, ("process_start".into(), event.clone()));
    one.kill().expect("killed");
    one.wait().expect("an end");
    assert_eq!(listener.find(of(one.id())).await, ("process_stop".into(), event));
    // Its start precedes the watch and is no event; its end is one.
    let event = json!({"pid": before.id(), "name": "sleep"});
    before.kill().expect("killed");
    before.wait().expect("an end");
    assert_eq!(listener.find(of(before.id())).await, ("process_stop".into(), event));
    // A name that the kernel truncates, and a shell that another program replaces.
    let program = home.path().join("a-program-with-a-long-name");
    std::os::unix::fs::symlink("/bin/sleep", &program).expect("a link");
    let mut long_named = Command::new(&program).arg("1000").spawn().expect("a program");
    let event = json!({"pid": long_named.id(), "name": "a-program-with-a-long-name"});
    assert_eq!(listener.find(of(long_named.id())).await, ("process_start".into(), event));
    long_named.kill().expect("killed");
    long_named.wait().expect("an end");
    listener.end().await;
}

/// A shell that another program has replaced, and whose child has ended but is not reaped. It ends with the
/// test.
struct ReplacedShell {
    child: Child,
    /// Name of the child, unique on this machine.
    name: String,
}

impl ReplacedShell {
    fn start(home: &Path, name: &str) -> Self {
        let name = format!("{name}{}", std::process::id());
        let program = home.join(&name);
        std::os::unix::fs::symlink("/bin/true", &program).expect("a link");
        let line = format!("{} & exec sleep 1000", program.display());
        Self { child: Command::new("sh").args(["-c", &line]).spawn().expect("a shell"), name }
    }

    /// The child's event of this type.
    fn child_event(&self, expected: &'static str) -> impl Fn(&str, &Value) -> bool {
        move |kind, data| kind == expected && data["name"] == self.name
    }

    fn end(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("an end");
    }
}

impl Drop for ReplacedShell {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Whether this process may use the process connector, which requires root in the initial namespaces. The
/// connector's netlink socket (11) is in the initial network namespace only, and the parent of kernel threads
/// (pid 2) in the initial pid namespace.
fn has_process_connector() -> bool {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let sockets = text("/proc/net/netlink");
    let connector = sockets
        .lines()
        .map(|line| line.split_ascii_whitespace())
        .any(|mut of| of.nth(1) == Some("11") && of.next() == Some("0"));
    connector
        && nix::unistd::geteuid().is_root()
        && text("/proc/self/uid_map").split_ascii_whitespace().eq(["0", "0", "4294967295"])
        && text("/proc/2/comm").trim() == "kthreadd"
}

/// A comparison of process lists would see the end only when the process is reaped, which it is not.
#[tokio::test]
async fn what_ends_between_two_looks_is_told_at_once_where_the_kernel_tells() {
    if !has_process_connector() {
        Capability::Root.skip("the kernel's process connector requires root in the initial namespaces");
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let listener =
        WatchListener::start(None, home.path(), &[EventKind::ProcessStart, EventKind::ProcessStop]).await;
    let mut shell = ReplacedShell::start(home.path(), "told");
    // The child starts and ends, and the shell is reported again after its replacement, in any order.
    let pid = shell.child.id();
    let (mut started, mut stopped, mut became_sleep) = (None, None, false);
    while started.is_none() || stopped.is_none() || !became_sleep {
        let (kind, data) = listener.next().await;
        became_sleep |= kind == "process_start" && data["pid"] == pid && data["name"] == "sleep";
        if shell.child_event("process_start")(&kind, &data) {
            started = Some(data);
        } else if shell.child_event("process_stop")(&kind, &data) {
            stopped = Some(data);
        }
    }
    assert_eq!(started, stopped);
    shell.end();
    let (_, stopped) = listener.find(|kind, data| kind == "process_stop" && data["pid"] == pid).await;
    assert_eq!(stopped["name"], "sleep");
    listener.end().await;
}

/// In its own network namespace the connector is unavailable, and comparing process lists finds all of this.
#[tokio::test]
async fn where_the_kernel_tells_nothing_processes_are_compared() {
    // Unsharing affects this thread alone, on which the whole test runs. Without the permission the connector
    // is unavailable too.
    let _alone = unshare(CloneFlags::CLONE_NEWNET);
    let home = tempfile::tempdir().expect("a folder");
    let listener =
        WatchListener::start(None, home.path(), &[EventKind::ProcessStart, EventKind::ProcessStop]).await;
    let mut shell = ReplacedShell::start(home.path(), "seen");
    let (_, started) = listener.find(shell.child_event("process_start")).await;
    listener.expect_none_of(shell.child_event("process_stop")).await;
    shell.end();
    let (_, stopped) = listener.find(shell.child_event("process_stop")).await;
    assert_eq!(started, stopped);
    listener.end().await;
}
