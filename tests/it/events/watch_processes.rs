//! Are processes told when they start and end, by their own names, and nothing of what the agent does itself? And at once,
//! where the kernel's process connector lets an agent in?

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hotdesk::domain::event::Kind;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use super::watch::Hearing;

#[tokio::test]
async fn processes_are_told_by_their_names_and_only_new_ones() {
    let home = tempfile::tempdir().expect("a folder");
    let sleep = || Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().expect("sleep");
    let mut before = sleep();
    let hearing = Hearing::begin(None, home.path(), &[Kind::ProcessStart, Kind::ProcessStop]).await;
    let mut one = sleep();
    let of = |pid: u32| move |_: &str, data: &serde_json::Value| data["pid"] == pid;
    let told = json!({"pid": one.id(), "name": "sleep"});
    assert_eq!(hearing.find(of(one.id())).await, ("process_start".into(), told.clone()));
    one.kill().expect("killed");
    one.wait().expect("an end");
    assert_eq!(hearing.find(of(one.id())).await, ("process_stop".into(), told));
    // Its beginning was not told; its end is.
    let told = json!({"pid": before.id(), "name": "sleep"});
    before.kill().expect("killed");
    before.wait().expect("an end");
    assert_eq!(hearing.find(of(before.id())).await, ("process_stop".into(), told));
    // A name that the kernel cuts, and a shell that goes on as another program.
    let program = home.path().join("a-program-with-a-long-name");
    std::os::unix::fs::symlink("/bin/sleep", &program).expect("a link");
    let mut long = Command::new(&program).arg("1000").spawn().expect("a program");
    let told = json!({"pid": long.id(), "name": "a-program-with-a-long-name"});
    assert_eq!(hearing.find(of(long.id())).await, ("process_start".into(), told));
    long.kill().expect("killed");
    long.wait().expect("an end");
    hearing.end().await;
}

/// A shell that has become another program, and whose child ended at once and is not reaped. It ends with the test.
struct Shell {
    child: Child,
    /// What the child is called: like no other, whatever else runs on this machine.
    name: String,
}

impl Shell {
    fn start(home: &Path, name: &str) -> Self {
        let name = format!("{name}{}", std::process::id());
        let program = home.join(&name);
        std::os::unix::fs::symlink("/bin/true", &program).expect("a link");
        let line = format!("{} & exec sleep 1000", program.display());
        Self { child: Command::new("sh").args(["-c", &line]).spawn().expect("a shell"), name }
    }

    /// The child's event of this type.
    fn its(&self, wanted: &'static str) -> impl Fn(&str, &Value) -> bool {
        move |kind, data| kind == wanted && data["name"] == self.name
    }

    fn end(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("an end");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Whether the kernel lets this process hear of processes: root in the first namespaces. Its socket of the process connector
/// (11) is in the first network namespace alone, its threads' parent (2) in the first pid namespace.
fn the_kernel_tells() -> bool {
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

/// Comparing would see an end only when the process is reaped, which it is not.
#[tokio::test]
async fn what_ends_between_two_looks_is_told_at_once_where_the_kernel_tells() {
    if !the_kernel_tells() {
        println!("skipped: the kernel's process connector lets in root in the first namespaces only");
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let hearing = Hearing::begin(None, home.path(), &[Kind::ProcessStart, Kind::ProcessStop]).await;
    let mut shell = Shell::start(home.path(), "told");
    // The child begins and ends, and the shell is told again when it becomes another program: in whatever order.
    let pid = shell.child.id();
    let (mut started, mut stopped, mut another) = (None, None, false);
    while started.is_none() || stopped.is_none() || !another {
        let (kind, data) = hearing.next().await;
        another |= kind == "process_start" && data["pid"] == pid && data["name"] == "sleep";
        if shell.its("process_start")(&kind, &data) {
            started = Some(data);
        } else if shell.its("process_stop")(&kind, &data) {
            stopped = Some(data);
        }
    }
    assert_eq!(started, stopped);
    shell.end();
    let (_, stopped) = hearing.find(|kind, data| kind == "process_stop" && data["pid"] == pid).await;
    assert_eq!(stopped["name"], "sleep");
    hearing.end().await;
}

/// In a network namespace of its own nobody is let in, and all is told that comparing finds.
#[tokio::test]
async fn where_the_kernel_tells_nothing_processes_are_compared() {
    // This thread alone, on which all of the test runs. Who may not has no use of the connector either.
    let _alone = unshare(CloneFlags::CLONE_NEWNET);
    let home = tempfile::tempdir().expect("a folder");
    let hearing = Hearing::begin(None, home.path(), &[Kind::ProcessStart, Kind::ProcessStop]).await;
    let mut shell = Shell::start(home.path(), "seen");
    let (_, started) = hearing.find(shell.its("process_start")).await;
    hearing.quiet_of(shell.its("process_stop")).await;
    shell.end();
    let (_, stopped) = hearing.find(shell.its("process_stop")).await;
    assert_eq!(started, stopped);
    hearing.end().await;
}
