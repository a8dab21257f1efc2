//! Relay of connections between the agent's socket in an instance and the agent, which listens in the guest's network.
//!
//! It ends all connections before memory is saved: an agent that was saved with an open one would not answer again.

use std::io;
use std::os::unix::net::UnixListener as BlockingListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

use crate::host::network::agent_link;
use crate::incus::documents::AGENT_SOCKET;
use crate::{EngineError, EngineResult};
use hotdesk_base::tasks::Tasks;

const STEP: &str = "relay connections to the agent";
/// Process whose namespace the guest gets.
const FIRST_PROCESS: u32 = 1;
/// Bytes of one copy between the sockets.
const CHUNK: usize = 64 * 1024;
/// Pause after a failed accept: the process has too many open files then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Timeout of the end of all connections, which only drops sockets.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const CLOSE_PAUSE: Duration = Duration::from_millis(5);

/// The relay, which runs on a thread in a network namespace of its own.
#[derive(Debug)]
pub(super) struct Relay {
    /// Whether connections are carried.
    is_open: watch::Sender<bool>,
    connections: Arc<AtomicUsize>,
}

impl Relay {
    /// Links the namespaces, and begins to carry connections.
    pub(super) fn start() -> EngineResult<Self> {
        let failed = |error: io::Error| EngineError::failed(STEP, error);
        let listener = BlockingListener::bind(AGENT_SOCKET).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (is_open, watched) = watch::channel(true);
        let connections = Arc::new(AtomicUsize::new(0));
        let carrier = Carrier { is_open: watched, connections: Arc::clone(&connections) };
        let (linked, link) = mpsc::channel();
        let run = move || {
            let prepared = enter_namespace();
            let is_ready = prepared.is_ok();
            // The receiver waits for it.
            if linked.send(prepared).is_err() || !is_ready {
                return;
            }
            if let Err(error) = carrier.run(listener) {
                tracing::error!(%error, "the relay of connections to the agent ended");
            }
        };
        thread::Builder::new().name("relay".to_owned()).spawn(run).map_err(failed)?;
        link.recv().map_err(|_| EngineError::failed(STEP, "its thread panicked"))??;
        Ok(Self { is_open, connections })
    }

    /// Ends all connections, and refuses others until [`Self::open`].
    pub(super) fn close(&self) -> EngineResult<()> {
        self.is_open.send_replace(false);
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        while self.connections.load(Ordering::Acquire) > 0 {
            if Instant::now() >= deadline {
                return Err(EngineError::failed(STEP, "a connection to the agent does not end"));
            }
            thread::sleep(CLOSE_PAUSE);
        }
        Ok(())
    }

    /// Carries connections again.
    pub(super) fn open(&self) {
        self.is_open.send_replace(true);
    }
}

/// Moves this thread into a new network namespace, and links it to the guest's.
fn enter_namespace() -> EngineResult<()> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| EngineError::failed(STEP, error))?;
    agent_link::link(FIRST_PROCESS)
}

/// What the thread has.
#[derive(Clone)]
struct Carrier {
    is_open: watch::Receiver<bool>,
    connections: Arc<AtomicUsize>,
}

impl Carrier {
    fn run(self, listener: BlockingListener) -> io::Result<()> {
        // All on this thread: a socket belongs to the network namespace of the thread that makes it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = UnixListener::from_std(listener)?;
            let tasks = Tasks::new();
            loop {
                match listener.accept().await {
                    Ok((client, _)) => {
                        let _connection = tasks.spawn("relay connection", self.clone().carry(client));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a connection to the agent");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        })
    }

    /// Carries a connection until both directions have ended, or the relay is closed.
    async fn carry(mut self, mut client: UnixStream) {
        // Counted before it looks, so that a relay that closes waits for it.
        let _guard = CountGuard::new(&self.connections);
        if !*self.is_open.borrow_and_update() {
            return;
        }
        let copied = async {
            let mut agent = TcpStream::connect(agent_link::agent()).await?;
            agent.set_nodelay(true)?;
            tokio::io::copy_bidirectional_with_sizes(&mut client, &mut agent, CHUNK, CHUNK).await
        };
        tokio::select! {
            ended = copied => if let Err(error) = ended {
                tracing::debug!(%error, "a connection to the agent ended early");
            },
            // It is closed, or the launcher ends.
            _ = self.is_open.changed() => {}
        }
    }
}

/// One of the connections that are counted.
struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
