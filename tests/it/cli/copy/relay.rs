//! Relay to a server whose connections break, and commands that go through it.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hotdesk::base::wait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cli::person::{CommandResult, Shell};
use crate::harness::controller::RunningController;
use crate::harness::process::OwnedChild;

const MIB: u64 = 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a [`Relay`] does with a connection that has carried its share of bytes.
#[derive(Clone, Copy)]
pub enum Fault {
    Cut,
    Stall,
}

/// Relay to a server whose connections break after some bytes.
pub struct Relay {
    pub url: String,
    /// Bytes that all connections have carried, in both directions.
    carried: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    /// The first connection that carries `share` bytes has the fault; without it none has.
    #[allow(clippy::disallowed_methods, reason = "a test's server, aborted with it")]
    pub async fn start(server: &str, fault: Option<(Fault, u64)>) -> Self {
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

    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn run_at(url: &str, shell: &Shell, arguments: &[&str]) -> CommandResult {
    shell.run(&[&["--url", url], arguments].concat()).await
}

/// Runs a command through a relay that stalls at a share of bytes, and kills it there.
pub async fn kill_at(controller: &RunningController, shell: &Shell, arguments: &[&str], share: u64) {
    let relay = Relay::start(controller.base(), Some((Fault::Stall, share))).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(arguments).env_clear().env("HOME", shell.home()).current_dir(shell.home());
    command.env("HOTDESK_API_KEY", controller.key());
    command.env("HOTDESK_URL", &relay.url).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = OwnedChild(command.spawn().expect("the program starts"));
    let reached = wait::until(TIMEOUT, || async { (relay.carried() + MIB > share).then_some(()) });
    reached.await.expect("a share of the copy");
    child.0.kill().expect("a child");
    child.0.wait().expect("a child");
}
