//! The side of the host helper: accepts connections, checks requests and calls the engine.
//!
//! Order of a call: accept, peer's user, read the request (`frames.rs`), check it (`validate.rs`), wait for calls of an earlier
//! controller (`fence.rs`), run, reply, close.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Semaphore};

use crate::host::command::host_error;
use crate::host::files::remove_if_there;
use crate::host::syscalls;
use crate::remote::fence::SessionFence;
use crate::remote::frames::{self, MAX_REPLY, MAX_REQUEST};
use crate::remote::protocol::{Call, Reply, Request, VERSION};
use crate::remote::validate::{self, refused};
use crate::{AgentClient, Engine, EngineError, EngineResult, SavedFile};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_base::tasks::Tasks;

/// Most connections: a controller has one for each running computer, on which it waits for its end, and some for calls.
const MAX_CONNECTIONS: usize = 8192;
/// Most calls at once, waits excepted; each may hold a piece of a saved file (4 MiB). Others queue. Boots are limited to fewer
/// by the controller.
const MAX_CALLS: usize = 128;
/// For a controller to send its request: it does so at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// For a controller to take its reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed accept: the process has no free descriptor, and one will be closed soon.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// First descriptor that systemd passes to a service (`sd_listen_fds(3)`).
const SYSTEMD_FD: i32 = 3;

/// Makes the socket of the host helper, for one user. A socket that a dead helper left is replaced.
///
/// # Errors
/// `Failed`, naming the path.
pub fn listen(path: &Path, client: AgentClient) -> EngineResult<StdListener> {
    let failed = host_error("make the host helper's socket", path);
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(&failed)?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => return Err(failed(io::ErrorKind::AlreadyExists.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    // Under another name until its owner is set: a controller that waits for this helper must not find a socket that it may
    // not use.
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    remove_if_there(&new).map_err(&failed)?;
    let listener = StdListener::bind(&new).map_err(&failed)?;
    fs::set_permissions(&new, Permissions::from_mode(0o600)).map_err(&failed)?;
    chown(&new, Some(client.uid), Some(client.gid)).map_err(&failed)?;
    fs::rename(&new, path).map_err(&failed)?;
    Ok(listener)
}

/// The socket that systemd listens on for this process (`sd_listen_fds(3)`); `None` when it passed none.
///
/// # Errors
/// `Failed` when it passed more than one.
pub fn listener_of_systemd() -> EngineResult<Option<StdListener>> {
    const STEP: &str = "take the socket of systemd";
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if variable("LISTEN_PID") != Some(std::process::id()) {
        return Ok(None);
    }
    match variable("LISTEN_FDS") {
        Some(1) => {
            let taken = syscalls::take_fd(SYSTEMD_FD);
            taken.map(|fd| Some(fd.into())).map_err(|error| EngineError::failed(STEP, error))
        }
        other => Err(EngineError::failed(STEP, format!("expected one socket, got {other:?}"))),
    }
}

/// Serves an engine to the processes of one user until the tasks stop. Calls that run then end with their reply, or with the
/// drain of the tasks.
///
/// # Errors
/// `Failed` when the socket cannot be used.
pub async fn serve(
    listener: StdListener,
    engine: Arc<dyn Engine>,
    client: AgentClient,
    tasks: Tasks,
) -> EngineResult<()> {
    let listener = listener
        .set_nonblocking(true)
        .and_then(|()| UnixListener::from_std(listener))
        .map_err(|error| EngineError::failed("listen for controllers", error))?;
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let server = Arc::new(Server {
        engine,
        client,
        tasks: tasks.clone(),
        fence: SessionFence::default(),
        calls: Semaphore::new(MAX_CALLS),
        thorough_checks: Mutex::default(),
    });
    let stop = tasks.stopping();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            accepted = accept(&listener, &connections) => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                let server = Arc::clone(&server);
                let _call = tasks.spawn("host call", async move {
                    let _place = place;
                    server.answer(stream).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection of a controller");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Accepts a connection when there is a place for it.
async fn accept(
    listener: &UnixListener,
    connections: &Arc<Semaphore>,
) -> io::Result<(UnixStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(connections).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

#[derive(Debug)]
struct Server {
    engine: Arc<dyn Engine>,
    client: AgentClient,
    tasks: Tasks,
    fence: SessionFence,
    calls: Semaphore,
    /// Held while every check of the host runs: one such call at a time boots guests to try them.
    thorough_checks: Mutex<()>,
}

impl Server {
    async fn answer(&self, mut stream: UnixStream) {
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == self.client.uid => {}
            Ok(peer) => {
                tracing::warn!(uid = peer.uid(), pid = peer.pid(), "refused a process of another user");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "could not read whose process connected");
                return;
            }
        }
        let Some((reply, data)) = self.reply(&mut stream).await else { return };
        let sent = tokio::time::timeout(REPLY_TIMEOUT, async {
            frames::write(&mut stream, &reply, &data, MAX_REPLY).await
        });
        match sent.await {
            Ok(Ok(())) => {}
            // The next controller observes what the call did.
            Ok(Err(error)) => tracing::debug!(%error, "the caller of a call is gone"),
            Err(_) => tracing::debug!("the caller of a call does not read its reply"),
        }
    }

    /// Reads and runs a call; `None` when there is nobody to answer.
    async fn reply(&self, stream: &mut UnixStream) -> Option<(Reply, Vec<u8>)> {
        let turn = self.calls.acquire().await.ok()?;
        let read = tokio::time::timeout(REQUEST_TIMEOUT, frames::read::<Request>(stream, MAX_REQUEST));
        let failure = |error: EngineError| {
            tracing::warn!(error = format_args!("{error:#}"), "refused a request");
            Some((Reply::Failure(error.into()), Vec::new()))
        };
        let (request, data) = match read.await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => return failure(refused(error)),
            // A controller that died, or tries whether the helper is there.
            Ok(Err(_)) => return None,
            Err(_) => return failure(refused(format!("no request within {REQUEST_TIMEOUT:?}"))),
        };
        let Request { version, session, call } = request;
        if version != VERSION {
            let ours = env!("CARGO_PKG_VERSION");
            return failure(refused(format!(
                "protocol {version} is not {VERSION} of this helper ({ours}); restart controller and helper"
            )));
        }
        if !data.is_empty() && !matches!(call, Call::WriteSaved { .. } | Call::KeepPrograms { .. }) {
            return failure(refused("data with a call that takes none"));
        }
        if let Call::WaitStopped { id } = call {
            drop(turn);
            return self.wait_stopped(stream, ComputerId(id)).await;
        }
        if let Call::Describe {} = call {
            self.fence.begin(session);
        }
        let Some(_guard) = self.fence.enter(session, call.machines()).await else {
            return failure(refused("a call of a controller that another one has replaced"));
        };
        let is_thorough = matches!(call, Call::CheckHost { thorough: true });
        let _checks = if is_thorough { Some(self.thorough_checks.lock().await) } else { None };
        Some(match perform(&*self.engine, call, data).await {
            Ok(done) => done,
            Err(error) => (Reply::Failure(error.into()), Vec::new()),
        })
    }

    /// Waits for a machine's end while its caller does. A wait changes nothing, so it ends with the caller or the helper.
    async fn wait_stopped(&self, stream: &mut UnixStream, id: ComputerId) -> Option<(Reply, Vec<u8>)> {
        let stop = self.tasks.stopping();
        let mut more = [0];
        let ended = tokio::select! {
            ended = self.engine.wait_stopped(id) => ended,
            _ = stream.read(&mut more) => return None,
            () = stop.cancelled() => return None,
        };
        let reply = ended.map_or_else(
            |error| Reply::Failure(error.into()),
            |()| Reply::Stopped { killed: self.engine.take_killed(id) },
        );
        Some((reply, Vec::new()))
    }
}

/// Checks the arguments of a call and runs it.
async fn perform(engine: &dyn Engine, call: Call, data: Vec<u8>) -> EngineResult<(Reply, Vec<u8>)> {
    let offers = engine.offers();
    let reply = match call {
        Call::Describe {} => Reply::Offers(engine.offers().all().map(Into::into).collect()),
        Call::ImageId {} => Reply::ImageId(engine.image_id().await?),
        Call::BootInputs { isolation } => {
            Reply::BootInputs(engine.boot_inputs(validate::isolation(&isolation, offers)?).await?)
        }
        Call::AddKeys { keys } => {
            let keys = keys.iter().map(validate::key).collect::<EngineResult<Vec<_>>>()?;
            complete(engine.add_keys(&keys).await)?
        }
        Call::Encrypt { id, key } => complete(engine.encrypt(ComputerId(id), &validate::key(&key)?).await)?,
        Call::RemoveUnusedKeys {} => complete(engine.remove_unused_keys().await)?,
        Call::Create { spec } => complete(engine.create(&validate::spec(&spec, offers)?).await)?,
        Call::Start { spec, boot } => {
            let (spec, boot) = (validate::spec(&spec, offers)?, validate::boot(&boot)?);
            Reply::Endpoint(engine.start(&spec, &boot).await?.into())
        }
        Call::Stop { id, grace_ms } => {
            complete(engine.stop(ComputerId(id), validate::grace(grace_ms)?).await)?
        }
        Call::Destroy { id } => complete(engine.destroy(ComputerId(id)).await)?,
        Call::Observe { id } => Reply::Observation(engine.observe(ComputerId(id)).await?.into()),
        Call::CheckCapacity { id, rollback_to } => {
            complete(engine.check_capacity(ComputerId(id), rollback_to).await)?
        }
        Call::List {} => Reply::Machines(engine.list().await?.into_iter().map(|id| id.0).collect()),
        Call::WaitStopped { .. } => return Err(refused("a wait is answered before the fence")),
        Call::Maintain {} => complete(engine.maintain().await)?,
        Call::WatchDisk {} => watch_disk(engine).await?,
        Call::Suspend { id } => complete(engine.suspend(ComputerId(id)).await)?,
        Call::Resume { spec, boot } => {
            let (spec, boot) = (validate::spec(&spec, offers)?, validate::boot(&boot)?);
            Reply::Endpoint(engine.resume(&spec, &boot).await?.into())
        }
        Call::DiscardMemory { id } => complete(engine.discard_memory(ComputerId(id)).await)?,
        Call::SavedState { id } => Reply::SavedState(engine.saved_state(ComputerId(id)).await?),
        Call::ReadSaved { id, file, from, most } => {
            return read_saved(engine, ComputerId(id), &file, (from, most)).await;
        }
        Call::Evict { id } => complete(engine.evict(ComputerId(id)).await)?,
        Call::WriteSaved { id, file, places } => {
            let data = validate::extents(&file, places, data)?;
            complete(engine.write_saved(ComputerId(id), &file, data).await)?
        }
        Call::FinishFetch { id, with_memory } => {
            complete(engine.finish_fetch(ComputerId(id), with_memory).await)?
        }
        Call::SyncFetched { id } => complete(engine.sync_fetched(ComputerId(id)).await)?,
        Call::Resize { id, change } => {
            Reply::Effect(engine.resize(ComputerId(id), validate::change(change)?).await?)
        }
        Call::SetEgress { id, policy } => {
            let policy = validate::egress(policy.as_deref())?;
            complete(engine.set_egress(ComputerId(id), policy.as_ref()).await)?
        }
        Call::CopyDisk { from, to } => {
            complete(engine.copy_disk(ComputerId(from), &validate::spec(&to, offers)?).await)?
        }
        Call::Fork { from, to } => {
            complete(engine.fork(ComputerId(from), &validate::spec(&to, offers)?).await)?
        }
        Call::Launch { from, snapshot, to } => {
            complete(engine.launch(ComputerId(from), snapshot, &validate::spec(&to, offers)?).await)?
        }
        Call::Snapshot { id, snapshot, memory } => {
            Reply::Snapshot(engine.snapshot(ComputerId(id), snapshot, memory).await?)
        }
        Call::Rollback { id, snapshot } => complete(engine.rollback(ComputerId(id), snapshot).await)?,
        Call::RemoveSnapshot { id, snapshot } => {
            complete(engine.remove_snapshot(ComputerId(id), snapshot).await)?
        }
        Call::Snapshots { id } => Reply::Snapshots(engine.snapshots(ComputerId(id)).await?),
        Call::KeepLayer { id, layer } => {
            Reply::Layer(engine.keep_layer(ComputerId(id), LayerId(layer)).await?)
        }
        Call::BaseId { name } => Reply::BaseId(engine.base_id(&name).await?),
        Call::KeepBase { name, id, layer } => {
            Reply::Layer(engine.keep_base(&name, &id, LayerId(layer)).await?)
        }
        Call::KeepPrograms { below, layer } => {
            let below = validate::layers(&below)?;
            let list = validate::list(data)?;
            Reply::WrittenLayer(engine.keep_programs(&list, &below, LayerId(layer)).await?)
        }
        Call::RemoveLayer { layer } => complete(engine.remove_layer(LayerId(layer)).await)?,
        Call::Layers {} => Reply::Layers(engine.layers().await?.into_iter().map(|layer| layer.0).collect()),
        Call::CheckHost { thorough } => {
            Reply::Findings(engine.check_host(thorough).await?.into_iter().map(Into::into).collect())
        }
        Call::FindLeftovers { owned } => {
            let owned = owned.into_iter().map(ComputerId).collect();
            Reply::Leftovers(engine.find_leftovers(&owned).await?)
        }
    };
    Ok((reply, Vec::new()))
}

fn complete(done: EngineResult<()>) -> EngineResult<Reply> {
    done.map(|()| Reply::Complete)
}

/// Looks at the host's disk; the reply names the machines that are frozen.
async fn watch_disk(engine: &dyn Engine) -> EngineResult<Reply> {
    let watch = engine.watch_disk().await?;
    let machines = if watch.frozen == 0 { Vec::new() } else { engine.list().await? };
    let frozen = machines.into_iter().filter(|id| engine.is_frozen(*id)).map(|id| id.0).collect();
    let next_ms = u64::try_from(watch.next.as_millis()).unwrap_or(u64::MAX);
    Ok(Reply::Disk { free: watch.free, next_ms, frozen })
}

/// Reads a piece of a file that the saved state of the machine lists.
async fn read_saved(
    engine: &dyn Engine,
    id: ComputerId,
    file: &str,
    (from, most): (u64, u64),
) -> EngineResult<(Reply, Vec<u8>)> {
    validate::file_name(file)?;
    let most = validate::piece(most)?;
    let files = engine.saved_state(id).await?.map(|state| state.files).unwrap_or_default();
    if !files.iter().any(|known: &SavedFile| known.name == file) {
        return Err(refused(format!("the saved state of {id} has no file {file:?}")));
    }
    let read = engine.read_saved(id, file, from, most).await?;
    Ok((Reply::Extents(read.places), read.bytes))
}
