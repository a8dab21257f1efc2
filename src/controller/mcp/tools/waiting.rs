//! Tools that wait for the end of long work: builds of templates, and runs of models.
//!
//! The work neither begins nor ends with the wait: a client that cancels or disconnects only ends its wait.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::templates::reference;
use super::threads::read_thread;
use super::{Call, Tool, ToolEffect, tool};
use crate::computers::templates::build_log::BuildLog;
use crate::mcp::answer::ToolResult;
use crate::mcp::progress::CallPhase;
use hotdesk_base::ids::AccountId;
use hotdesk_base::keyed_semaphore::Permit;
use hotdesk_domain::computer::template::build::BuildStatus;
use hotdesk_domain::desktop::thread::RunState;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_store::templates::definitions::StoredTemplate;
use hotdesk_wire::tool::threads::ThreadWithMessages;
use hotdesk_wire::tool::waiting::{AwaitedBuild, AwaitedRun, WaitForBuild, WaitForRun};

/// Longest wait of one call in seconds. The relay `hotdesk mcp` gives up a call without an answer after ten
/// minutes.
const MAX_WAIT: u32 = 540;
/// Wait of a call that does not say how long, in seconds: clients that get no progress give up after a
/// minute.
const DEFAULT_WAIT: u32 = 50;
/// Waits of one account: a quarter of its calls, so that it can do something meanwhile.
const MAX_WAITS: usize = 8;
/// Time between two looks at the stored state: soon enough for work of minutes.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "wait_for_build",
            ToolEffect::Read,
            "Waits until the build of a template has ended, and returns its status. To stop waiting does not \
             stop the build.",
            wait_for_build,
        ),
        tool(
            "wait_for_run",
            ToolEffect::Read,
            "Waits until the run of a model that run_agent started has ended, and returns its thread. To stop \
             waiting does not stop the run.",
            wait_for_run,
        ),
    ]
}

/// One of the waits of an account.
struct WaitPermit {
    deadline: Instant,
    _permit: Permit<AccountId>,
}

impl WaitPermit {
    /// Takes a wait of so many seconds.
    ///
    /// # Errors
    /// `Invalid` for more than [`MAX_WAIT`]; `RateLimited` (`too_many_calls`) at [`MAX_WAITS`].
    fn begin(call: &Call, seconds: Option<u32>) -> Result<Self> {
        let seconds = seconds.unwrap_or(DEFAULT_WAIT);
        if seconds > MAX_WAIT {
            return Err(Error::invalid(format!("timeout must be at most {MAX_WAIT} seconds")));
        }
        let permit = call.app.mcp.waits.try_acquire(call.caller.account, MAX_WAITS);
        let permit = permit.ok_or_else(|| Error::rate_limited(1).code(ErrorCode::TooManyCalls))?;
        Ok(Self { deadline: Instant::now() + Duration::from_secs(seconds.into()), _permit: permit })
    }

    /// Waits for an end, until the deadline.
    ///
    /// # Errors
    /// Those of `end`; `Conflict` when the client cancels the call; `Unavailable` when the service stops.
    async fn until(&self, call: &Call, end: impl Future<Output = Result<()>>) -> Result<()> {
        let stopping = call.app.tasks.stopping();
        tokio::select! {
            // With a timeout of 0 the state is read once.
            biased;
            ended = end => ended,
            () = call.cancelled.cancelled() => {
                Err(Error::conflict("The client cancelled the wait; the work goes on"))
            }
            () = stopping.cancelled() => {
                Err(Error::unavailable("The service is shutting down").retry_after(5))
            }
            () = sleep_until(self.deadline) => Ok(()),
        }
    }
}

async fn wait_for_build(call: Call, arguments: WaitForBuild) -> Result<ToolResult<AwaitedBuild>> {
    let WaitForBuild { template_ref, timeout } = arguments;
    let wanted = reference(&call, &template_ref)?;
    let waiting = WaitPermit::begin(&call, timeout)?;
    let template = call.app.templates.find(call.caller.account, &wanted).await?;
    waiting.until(&call, build_end(&call, &template)).await?;
    let build = call.app.templates.status(&template).await?;
    let ended = build.status != BuildStatus::Building.name();
    Ok(ToolResult::of(AwaitedBuild {
        ended,
        reference: build.reference,
        digest: build.digest,
        status: build.status,
        phase: Some(call.phase.now()).filter(|phase| !ended && !phase.is_empty()),
        build_time_ms: build.build_time_ms,
        error: build.error,
    }))
}

/// Waits until no build of a template is in progress.
async fn build_end(call: &Call, template: &StoredTemplate) -> Result<()> {
    let mut followed = false;
    while call.app.templates.status(template).await?.status == BuildStatus::Building.name() {
        match call.app.templates.log(template) {
            Some(build) if !followed => {
                follow(&build.log, &call.phase).await;
                followed = true;
            }
            // The end of a log could not be stored, or another build has begun since.
            _ => sleep(LOOK_INTERVAL).await,
        }
    }
    Ok(())
}

/// Tells the phases of a build until its log ends. The lines are output of programs, which goes to nobody
/// here.
async fn follow(log: &BuildLog, phase: &CallPhase) {
    let mut number = 0;
    while let Some((entry, next)) = log.next(number).await {
        match entry.source {
            Some(source) => phase.set(&format!("{} {source}", entry.phase)),
            None => phase.set(&entry.phase),
        }
        number = next;
    }
}

async fn wait_for_run(call: Call, arguments: WaitForRun) -> Result<ToolResult<AwaitedRun>> {
    let WaitForRun { thread_id, timeout } = arguments;
    let waiting = WaitPermit::begin(&call, timeout)?;
    waiting.until(&call, run_end(&call, &thread_id)).await?;
    // Before the thread is read: a run that is not active then has stored its end.
    let (found, ..) = call.app.threads.find(&call.caller, &thread_id).await?;
    let is_active = call.app.runs.is_running(found.id);
    let ThreadWithMessages { thread, omitted_messages } = read_thread(call, thread_id).await?;
    let ended = !is_active && thread.run.as_deref() != Some(RunState::Running.name());
    Ok(ToolResult::of(AwaitedRun { ended, thread, omitted_messages }))
}

/// Waits until no run works on a thread.
async fn run_end(call: &Call, thread_id: &str) -> Result<()> {
    loop {
        let (thread, ..) = call.app.threads.find(&call.caller, thread_id).await?;
        // A run that has just been started marks its thread a moment later.
        if thread.run != Some(RunState::Running) && !call.app.runs.is_running(thread.id) {
            return Ok(());
        }
        call.phase.set(&format!("step {}", thread.steps));
        sleep(LOOK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::computers::templates::build_log::{Level, Phase};

    #[tokio::test]
    async fn the_phases_of_a_build_are_told_without_its_output() {
        let (log, phase) = (BuildLog::default(), CallPhase::default());
        log.add(Level::Info, Phase::Boot, None, "a computer boots");
        log.add(Level::Info, Phase::Install, Some("build.run[0]"), "a secret");
        log.end();
        follow(&log, &phase).await;
        assert_eq!(phase.now(), "install build.run[0]");
    }
}
