//! One run of a command, from its start through a shim to the last byte of its output.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::exec::PreparedCommand;
use crate::exec::output::drain::OutputDrains;
use crate::exec::output::streams::OutputPipes;
use crate::exec::output::{CapturedOutput, OutputCapture};
use crate::exec::shim::descriptors::CommandDescriptors;
use crate::exec::shim::launch::{self, ShimState};
use crate::exec::shim::shim_protocol::ProcessExit;
use crate::exec::shim::stock::ShimStock;

/// Read buffer in bytes: the capacity of a wide pipe.
pub const CHUNK: usize = 64 * 1024;
/// After the command's exit its output is complete when nothing came for this long. A process substitution
/// (`> >(tee log)`) may still be starting or writing its last lines. Only commands that leave processes
/// behind wait for it.
const OUTPUT_QUIET_TIME: Duration = Duration::from_millis(150);
/// Upper limit of that wait, for a background process that never stops writing.
const FINAL_OUTPUT_TIMEOUT: Duration = Duration::from_millis(250);

/// Most bytes read of a result: the capacity of its pipe.
const MAX_RESULT: u64 = 64 * 1024;

/// Result of a command.
#[derive(Debug)]
pub struct CommandResult {
    /// Its output.
    pub output: CapturedOutput,
    /// How it ended.
    pub end: CommandEnd,
    /// Text that it wrote to its `{result}` descriptor, if it had one.
    pub result: String,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// It exited by itself.
    Exited(ProcessExit),
    /// It was killed at its timeout, with all its processes.
    TimedOut,
    /// It killed its own shim; all of its processes that could be found were killed.
    Lost,
    /// The client disconnected, or the agent is stopping.
    Abandoned,
    /// It could not be started, for this reason.
    NotStarted(String),
}

/// Runs one command. It is killed with all its processes after `timeout` or when `abandon` is cancelled.
///
/// # Errors
/// When the shim cannot be started.
pub async fn run(
    prepared: PreparedCommand,
    stdin: Option<OwnedFd>,
    timeout: Duration,
    abandon: CancellationToken,
    stock: &ShimStock,
    drains: &OutputDrains,
) -> io::Result<CommandResult> {
    let deadline = Instant::now() + timeout;
    let PreparedCommand { spec, marker, text } = prepared;
    let mut descriptors = CommandDescriptors { stdin, ..CommandDescriptors::default() };
    let result = text.map(|text| descriptors.add_text(&text)).transpose()?;
    let mut used = stock.take_ready().await?;
    let mut streams = used.shim.pass(&descriptors)?;
    drop(descriptors);
    let mut state = ShimState::default();
    let mut capture = OutputCapture::default();
    let mut open = true;
    let mut chunk = vec![0; CHUNK];
    let cut = {
        let mut attending =
            std::pin::pin!(launch::attend(&mut used.shim.sockets, spec, |report| state.apply(report)));
        loop {
            tokio::select! {
                () = &mut attending => break None,
                read = streams.next(&mut chunk), if open => match read {
                    None => open = false,
                    Some((stream, length)) => capture.push(stream, &chunk[..length]),
                },
                () = tokio::time::sleep_until(deadline) => break Some(CommandEnd::TimedOut),
                () = abandon.cancelled() => break Some(CommandEnd::Abandoned),
            }
        }
    };
    let end = match (cut, state.failed, state.ended) {
        (Some(cut), _, _) => cut,
        (None, Some(why), _) => CommandEnd::NotStarted(why),
        (None, None, Some(how)) => CommandEnd::Exited(how),
        // No report and no request to end: the shim itself was killed.
        (None, None, None) => CommandEnd::Lost,
    };
    match end {
        CommandEnd::TimedOut | CommandEnd::Abandoned => {
            launch::end(used.shim, None, launch::COMMAND_END).await;
        }
        CommandEnd::Lost => launch::end(used.shim, Some((state.command, marker)), launch::COMMAND_END).await,
        CommandEnd::NotStarted(_) => launch::retire(used.shim).await,
        CommandEnd::Exited(_) => stock.put_back(used),
    }
    if open {
        open = read_final_output(&mut streams, &mut capture, &mut chunk).await;
    }
    if open && matches!(end, CommandEnd::Exited(_)) {
        drain_remaining(streams, drains);
    }
    drop(chunk);
    let result = result.map_or(Ok(String::new()), read_result)?;
    Ok(CommandResult { output: capture.finish(), end, result })
}

/// Reads the result's pipe without blocking.
fn read_result(pipe: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    match pipe.take(MAX_RESULT).read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the rest of the pipes. Returns whether some process still has their other ends open.
pub async fn read_final_output(
    streams: &mut OutputPipes,
    capture: &mut OutputCapture,
    chunk: &mut [u8],
) -> bool {
    let until = Instant::now() + FINAL_OUTPUT_TIMEOUT;
    loop {
        let timeout = OUTPUT_QUIET_TIME.min(until.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(timeout, streams.next(chunk)).await {
            Ok(None) => return false,
            Ok(Some((stream, length))) => capture.push(stream, &chunk[..length]),
            Err(_) => return true,
        }
    }
}

/// Drains the pipes of the background processes that continue.
pub fn drain_remaining(streams: OutputPipes, drains: &OutputDrains) {
    for pipe in streams.into_open() {
        match pipe::Receiver::from_owned_fd(pipe) {
            Ok(pipe) => drains.drain(pipe),
            Err(error) => {
                tracing::warn!(%error, "cannot drain the output of a background process; closed it")
            }
        }
    }
}
