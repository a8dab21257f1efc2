//! `hotdesk cp` on a real computer: files of any size, folders, streams, and connections that break.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hotdesk::base::wait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::person::{CommandResult, Shell};
use crate::harness::controller::RunningController;
use crate::harness::process::OwnedChild;

const MIB: u64 = 1024 * 1024;
/// Size of a copy that is interrupted.
const SIZE: u64 = 48 * MIB;
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a [`Relay`] does with a connection that has carried its share of bytes.
#[derive(Clone, Copy)]
enum Fault {
    Cut,
    Stall,
}

/// Relay to a server whose connections break after some bytes.
struct Relay {
    url: String,
    /// Bytes that all connections have carried, in both directions.
    carried: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    /// The first connection that carries `share` bytes has the fault; without it none has.
    #[allow(clippy::disallowed_methods, reason = "a test's server, aborted with it")]
    async fn start(server: &str, fault: Option<(Fault, u64)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let server = server.strip_prefix("http://").expect("an address").to_owned();
        let carried = Arc::new(AtomicU64::new(0));
        let faults = Arc::new(AtomicU64::new(u64::from(fault.is_some())));
        let counted = Arc::clone(&carried);
        let task = tokio::spawn(async move {
            // Dropped with this task: the connections end with the relay.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.expect("a connection");
                let server = TcpStream::connect(&server).await.expect("a server");
                let (counted, faults) = (Arc::clone(&counted), Arc::clone(&faults));
                connections.spawn(async move {
                    let (client, server) = (client.into_split(), server.into_split());
                    let share = AtomicU64::new(0);
                    let copy =
                        async |mut from: tokio::net::tcp::OwnedReadHalf,
                               mut to: tokio::net::tcp::OwnedWriteHalf| {
                            let mut piece = vec![0; 64 * 1024];
                            while let Ok(length @ 1..) = from.read(&mut piece).await {
                                let sum = share.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
                                if let Some((fault, limit)) = fault
                                    && sum > limit
                                    && faults.swap(0, Ordering::Relaxed) == 1
                                {
                                    match fault {
                                        Fault::Cut => return,
                                        Fault::Stall => std::future::pending().await,
                                    }
                                }
                                counted.fetch_add(length as u64, Ordering::Relaxed);
                                if to.write_all(&piece[..length]).await.is_err() {
                                    return;
                                }
                            }
                        };
                    tokio::select! {
                        () = copy(client.0, server.1) => {}
                        () = copy(server.0, client.1) => {}
                    }
                });
            }
        });
        Self { url, carried, task }
    }

    fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run_at(url: &str, shell: &Shell, arguments: &[&str]) -> CommandResult {
    shell.run(&[&["--url", url], arguments].concat()).await
}

fn noise(file: &std::path::Path) -> Vec<u8> {
    let mut content = vec![0; SIZE as usize];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").expect("a device"), &mut content)
        .expect("noise");
    std::fs::write(file, &content).expect("a file");
    content
}

#[tokio::test(flavor = "multi_thread")]
async fn files_folders_and_streams_are_copied_to_any_path_and_back() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let write = |name: &str, text: &str| std::fs::write(shell.file(name), text).expect("a file");
    write("ä b.txt", "Grüße");
    write("run", "#!/bin/sh\necho ran\n");
    std::fs::set_permissions(shell.file("run"), PermissionsExt::from_mode(0o755)).expect("a file");
    std::fs::create_dir_all(shell.file("tree/in/empty")).expect("a folder");
    write("tree/in/c", "c");
    symlink("in/c", shell.file("tree/link")).expect("a link");

    let out = shell.run(&["cp", "ä b.txt", "one:"]).await.expect_success();
    assert_eq!(out, "one:/root/Desktop/ä b.txt\n");
    let out = shell.run(&["cp", "ä b.txt", "run", "one:/opt"]).await.expect_success();
    assert_eq!(out, "one:/opt/ä b.txt\none:/opt/run\n");
    assert_eq!(shell.run(&["bash", "one", "/opt/run"]).await.expect_success(), "ran\n");
    assert_eq!(shell.run(&["cp", "run", "one:new.sh"]).await.expect_success(), "one:/root/new.sh\n");
    for target in ["one:", "one:Desktop", "one:/opt/run"] {
        shell.run(&["cp", "-n", "ä b.txt", target]).await.expect_failure(1, &["already_exists"]);
    }
    write("ä b.txt", "second");
    shell.run(&["cp", "ä b.txt", "one:Desktop/"]).await.expect_success();
    shell.run(&["cp", "one:Desktop/ä b.txt", "one:/opt/run", "."]).await.expect_success();
    assert_eq!(std::fs::read_to_string(shell.file("ä b.txt")).expect("copied"), "second");
    assert_eq!(std::fs::metadata(shell.file("run")).expect("copied").permissions().mode() & 0o111, 0o111);
    shell.run(&["cp", "-n", "one:/opt/run", "run"]).await.expect_failure(1, &["not replaced"]);
    shell.run(&["cp", "run", "one:/nowhere/run"]).await.expect_failure(1, &["request"]);
    shell.run(&["cp", "one:/nowhere", "x"]).await.expect_failure(1, &["request"]);
    shell.run(&["cp", "run", "run", "one:new.sh"]).await.expect_failure(2, &["not a folder"]);
    shell.run(&["cp", "-", "one:Desktop"]).await.expect_failure(2, &["no name"]);

    let out = shell.run(&["cp", "tree", "one:/srv"]).await.expect_success();
    assert_eq!(out, "one:/srv/tree\n");
    shell.run(&["cp", "-r", "tree", "one:/srv/copy"]).await.expect_success();
    shell.run(&["cp", "-r", "one:/srv/copy", "back"]).await.expect_success();
    shell.run(&["cp", "one:/srv/tree", "back"]).await.expect_success();
    for copy in ["back", "back/tree"] {
        assert!(shell.file(copy).join("in/empty").is_dir());
        assert_eq!(std::fs::read_to_string(shell.file(copy).join("link")).expect("a link"), "c");
        assert!(shell.file(copy).join("link").is_symlink());
    }
    shell.run(&["cp", "-n", "one:/srv/copy", "."]).await.expect_success();
    shell.run(&["cp", "-n", "one:/srv/copy", "."]).await.expect_failure(1, &["already"]);

    let ended = shell.run_with_input(&["cp", "-", "one:/tmp/input"], "from a pipe").await;
    assert_eq!(ended.expect_success(), "one:/tmp/input\n");
    assert_eq!(shell.run(&["cp", "one:/tmp/input", "-"]).await.expect_success(), "from a pipe");
    shell.run(&["cp", "one:/tmp/input", "/dev/null"]).await.expect_success();
    assert!(!std::fs::metadata("/dev/null").expect("a device").is_file());
    assert_eq!(shell.run(&["cp", "one:/etc/hostname", "-", "--json"]).await.code, 0);
    let stored = shell.run(&["cp", "run", "one:/tmp/run", "--json"]).await.json();
    assert_eq!((&stored["path"], &stored["outcome"]), (&"/tmp/run".into(), &"created".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_continues_after_its_connection_broke() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let content = noise(&shell.file("sent"));
    for arguments in [["cp", "sent", "one:/tmp/there"], ["cp", "one:/tmp/there", "back"]] {
        let relay = Relay::start(controller.base(), Some((Fault::Cut, SIZE / 2))).await;
        let ended = run_at(&relay.url, &shell, &arguments).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        // What was under way when the connection broke is sent again.
        assert!(relay.carried() < SIZE + SIZE / 3, "{} bytes for {SIZE}", relay.carried());
    }
    assert!(std::fs::read(shell.file("back")).expect("copied") == content);
    assert!(std::fs::read_dir(shell.file(".hotdesk/uploads")).expect("a folder").next().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_command_continues_a_copy_that_was_killed() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let content = noise(&shell.file("sent"));
    for arguments in [["cp", "sent", "one:/tmp/there"], ["cp", "one:/tmp/there", "back"]] {
        let relay = Relay::start(controller.base(), Some((Fault::Stall, SIZE / 2))).await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
        command.args(arguments).env_clear().env("HOME", shell.home()).current_dir(shell.home());
        command.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
        command.env("HOTDESK_URL", &relay.url).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = OwnedChild(command.spawn().expect("the program starts"));
        let half = wait::until(TIMEOUT, || async { (relay.carried() + MIB > SIZE / 2).then_some(()) });
        half.await.expect("half of the copy");
        child.0.kill().expect("a child");
        child.0.wait().expect("a child");
        drop(relay);
        let relay = Relay::start(controller.base(), None).await;
        let ended = run_at(&relay.url, &shell, &arguments).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(relay.carried() < SIZE * 7 / 8, "{} bytes of {SIZE}", relay.carried());
    }
    assert!(std::fs::read(shell.file("back")).expect("copied") == content);
    let names: Vec<_> = std::fs::read_dir(shell.home())
        .expect("a folder")
        .map(|it| it.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 3, "no part may stay: {names:?}");
}
