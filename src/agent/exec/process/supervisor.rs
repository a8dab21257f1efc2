//! Supervision of one background process: its shim, its output and the end of all its processes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::PreparedCommand;
use super::super::command::{CHUNK, drain_remaining};
use super::{BackgroundProcess, Stdin};
use crate::exec::output::drain::OutputDrains;
use crate::exec::output::streams::OutputPipes;
use crate::exec::shim::descriptors::CommandDescriptors;
use crate::exec::shim::launch;
use crate::exec::shim::shim_protocol::Report;
use crate::exec::shim::stock::{ShimStock, UsedShim};
use hotdesk_base::clock;
use hotdesk_base::step_error::StepError;
use hotdesk_domain::error::{Error, Result};

/// When all processes have ended, the rest of their output is in the pipes already. Another process that got
/// a pipe and keeps writing is not read for longer than this.
const FINAL_OUTPUT_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(250);

/// A shim with the descriptors of its command, and the write end of the command's standard input.
pub struct StartedProcess {
    used: UsedShim,
    streams: OutputPipes,
    stdin: Option<OwnedFd>,
}

/// Takes a shim for a process. `text` is what the program reads from its `{text}`.
///
/// # Errors
/// When the process or its pipes cannot be made.
pub fn start(stock: &ShimStock, piped: bool, text: Option<String>) -> io::Result<StartedProcess> {
    let (reader, writer) = if piped {
        let (reader, writer) = io::pipe()?;
        (Some(OwnedFd::from(reader)), Some(OwnedFd::from(writer)))
    } else {
        (None, None)
    };
    let mut descriptors = CommandDescriptors { stdin: reader, ..CommandDescriptors::default() };
    if let Some(text) = text {
        // A background process has no result to read.
        let _result = descriptors.add_text(&text)?;
    }
    let used = stock.take()?;
    let streams = used.shim.pass(&descriptors)?;
    Ok(StartedProcess { used, streams, stdin: writer })
}

impl StartedProcess {
    /// Process id of the shim.
    pub fn shim_pid(&self) -> i32 {
        self.used.shim.pid()
    }

    /// Write end of the standard input.
    ///
    /// # Errors
    /// `Internal` when the pipe cannot be registered with the runtime.
    pub fn stdin(&self) -> Result<Stdin> {
        let Some(writer) = &self.stdin else { return Ok(Stdin::None) };
        let failed = |error| Error::internal(format!("standard input of a process: {error}"));
        let writer = writer.try_clone().map_err(failed)?;
        pipe::Sender::from_owned_fd(writer).map(Stdin::Open).map_err(failed)
    }
}

/// Supervises a process until all its processes have ended; an attached one until its program has ended. `begun`
/// receives whether the program runs, `drains` the pipes of what an attached program left running.
pub async fn supervise(
    process: Arc<BackgroundProcess>,
    started: StartedProcess,
    prepared: PreparedCommand,
    begun: oneshot::Sender<Result<(), StepError>>,
    stock: ShimStock,
    drains: OutputDrains,
) {
    let StartedProcess { mut used, mut streams, stdin } = started;
    // Only [`BackgroundProcess`] must hold the write end, so that it can close it.
    drop(stdin);
    let mut begun = Some(begun);
    let mut reader_lost = std::pin::pin!(process.reader_lost());
    let over = {
        let attending = launch::attend(&mut used.shim.sockets, prepared.spec, |report| {
            handle_report(&process, report, &mut begun);
        });
        let mut attending = std::pin::pin!(attending);
        let mut open = true;
        let mut chunk = vec![0; CHUNK];
        loop {
            tokio::select! {
                () = &mut attending => break true,
                more = read_output(&process, &mut streams, &mut chunk), if open => open = more,
                () = process.stop.cancelled() => break false,
                () = &mut reader_lost => break false,
            }
        }
    };
    let shim_state = process.state().shim.clone();
    let ended = over && (shim_state.ended.is_some() || shim_state.failed.is_some());
    if ended {
        stock.put_back(used);
    } else {
        // Stopped, or the shim was killed.
        launch::end(used.shim, over.then_some((shim_state.command, prepared.marker)), launch::LASTING_END)
            .await;
    }
    let remaining = tokio::select! {
        open = read_final_output(&process, &mut streams) => open,
        () = process.stop.cancelled(), if ended => false,
        () = &mut reader_lost, if ended => false,
        // Nobody has to read the output of what was killed.
        () = tokio::time::sleep(FINAL_OUTPUT_TIMEOUT), if !ended => false,
    };
    if remaining && process.attached.is_some() {
        drain_remaining(streams, &drains);
    } else {
        drop(streams);
    }
    *process.stdin.lock().await = Stdin::Closed;
    {
        let mut state = process.state();
        state.ended_at.get_or_insert_with(clock::now);
        if state.stdin == "open" {
            state.stdin = "closed";
        }
    }
    process.gone.cancel();
    process.write(|log| log.over = true);
}

/// Reads the rest of the pipes. Returns whether some process still has their other ends open: output after
/// [`FINAL_OUTPUT_TIMEOUT`] belongs to other processes. The time in which a reader is waited for does not count.
async fn read_final_output(process: &BackgroundProcess, streams: &mut OutputPipes) -> bool {
    let mut chunk = vec![0; CHUNK];
    let mut left = FINAL_OUTPUT_TIMEOUT;
    loop {
        let _room = process.room().await;
        let began = Instant::now();
        match tokio::time::timeout(left, read_output(process, streams, &mut chunk)).await {
            Ok(true) => left = left.saturating_sub(began.elapsed()),
            Ok(false) => return false,
            Err(_) => return true,
        }
    }
}

/// Waits until the log takes more, then reads the next output; false when no more can come.
async fn read_output(process: &BackgroundProcess, streams: &mut OutputPipes, chunk: &mut [u8]) -> bool {
    let most = process.room().await.min(chunk.len());
    let Some((stream, length)) = streams.next(&mut chunk[..most]).await else { return false };
    process.write(|log| log.push(stream, &chunk[..length]));
    true
}

fn handle_report(
    process: &BackgroundProcess,
    report: Report,
    begun: &mut Option<oneshot::Sender<Result<(), StepError>>>,
) {
    let outcome = match &report {
        Report::Running | Report::Ended { .. } => Some(Ok(())),
        Report::Failed(why) => Some(Err(StepError::new(why))),
        Report::Started { .. } => None,
    };
    {
        let mut state = process.state();
        if matches!(report, Report::Ended { .. }) {
            state.ended_at = Some(clock::now());
        }
        state.shim.apply(report);
    }
    if let Some(outcome) = outcome
        && let Some(begun) = begun.take()
    {
        // The client may have disconnected; the process runs all the same.
        let _ = begun.send(outcome);
    }
}
