//! Runs: a language model works on a screen of a computer until it has finished (docs/api/chat.md).
//!
//! ```text
//! client <-- bounded channel -- run (a task) --> model -----> back end
//!   | disconnects: cancels        |        \---> executor --> computer
//!   |  unless background          \------------> thread: messages and steps, as they happen
//! ```
//! A run ends when the model has finished, at a bound of the request, at a failure, when its client
//! disconnects, when somebody stops it, when its credential or its access ends, and when the controller stops.
//! Its thread says what was done in each case. A run waits while somebody else controls the screen, and while
//! its model waits for the help of a person (`src/controller/chat/runs/run/waits.rs`). All of these end a wait,
//! too.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use hotdesk_base::ids::{AccountId, ThreadId};
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Caller;
use hotdesk_model::catalog::ModelCatalog;
use hotdesk_model::conversation::ToolCall;
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::threads::Thread;
use hotdesk_wire::chat::completion::RunProgress;

use crate::audit;
use crate::chat::threads::Threads;
use crate::computers::directory::Directory;
use crate::computers::fleet::Fleet;
use crate::identity::secrets::Secrets;
use crate::web::request_lease::RequestLease;

mod accounting;
mod back_end;
mod conversation;
mod executor;
mod outcome;
mod registry;
mod reporter;
mod request;
mod run;
mod tools;

pub use outcome::{EndReason, RunEnd};
pub use reporter::RunEvent;
pub use request::RunRequest;

use accounting::ClientAccount;
use conversation::{Conversation, RepairedHistory};
use executor::{Executor, ExecutorTarget};
use registry::ActiveRuns;
use run::{Run, RunParts, RunPlan};

/// Most runs of an account: each keeps three pictures and a conversation in memory, a few MB.
const MAX_RUNS: usize = 100;
/// Longest wait until the client of a run in the background takes an event: a connection that carries nothing
/// for so long is broken, and such a run goes on without its client.
const READER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for which a stop waits for the end of its run: a run ends within a second, or within three
/// when its computer does not release the buttons.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds after which a client may retry when it has its maximum of runs.
const RETRY_SECONDS: u32 = 5;

/// What runs need of the controller; cheap to clone.
#[derive(Clone)]
pub struct RunServices {
    /// Database.
    pub store: Store,
    /// Access to computers.
    pub directory: Directory,
    /// Computers.
    pub fleet: Fleet,
    /// Secrets that are typed.
    pub secrets: Secrets,
    /// Records of runs.
    pub threads: Threads,
    /// Models.
    pub catalog: ModelCatalog,
    /// Group of the tasks of runs.
    pub tasks: Tasks,
}

/// Runs of language models.
pub struct Runs {
    services: RunServices,
    active: ActiveRuns,
    permits: KeyedSemaphore<AccountId>,
}

/// The client's side of a run. Dropping it ends the run, unless it runs in the background.
pub struct RunHandle {
    /// The run's thread.
    pub thread: ThreadId,
    /// Name of the model.
    pub model: String,
    /// What happens, up to [`RunEvent::Ended`] or [`RunEvent::Failed`].
    pub events: mpsc::Receiver<RunEvent>,
    _guard: Option<DropGuard>,
}

impl Runs {
    /// No runs.
    pub fn new(services: RunServices) -> Self {
        Self { services, active: ActiveRuns::default(), permits: KeyedSemaphore::default() }
    }

    /// Names of the models that a run may use.
    pub fn models(&self) -> Vec<String> {
        self.services.catalog.models().map(|model| model.name.clone()).collect()
    }

    /// Name of a model; dots and hyphens are the same. `None` when there is no such model.
    pub fn model(&self, name: &str) -> Option<String> {
        self.services.catalog.find(name).map(|model| model.name.clone())
    }

    /// Starts a run. The computer is woken if it is asleep, and a first picture is taken before this returns.
    ///
    /// # Errors
    /// `NotFound` (`computer_not_found`) or `Forbidden` for the computer; those of `Fleet::guest` when it does not run;
    /// `Invalid` (`invalid_model`); `PaymentRequired` (`credits_exhausted`); `Conflict` (`run_in_progress`,
    /// `no_pending_call`); `RateLimited` (`too_many_runs`); those of [`Threads::open`].
    pub async fn start(&self, caller: &Caller, request: RunRequest) -> Result<RunHandle> {
        let services = &self.services;
        let caller = caller.for_change();
        let lease = Arc::new(RequestLease::of(Some(services.store.credentials.lease(caller.credential))));
        let computer = lease.recording(self.find(&caller, &request.computer)).await?;
        // Before the claim: nobody claims a thread of another computer.
        let continued = match request.thread.as_deref() {
            Some(id) => Some(services.threads.open(&caller, &computer, Some(id)).await?),
            None => None,
        };
        let secrets = (&services.store, Secrets::usable(&caller, &computer));
        let model = back_end::open(&services.catalog, request.model.as_deref(), request.key, secrets).await?;
        let account = match model.has_client_key {
            // The client pays the back end.
            true => ClientAccount::free(services.store.clone()),
            false => ClientAccount::of(services.store.clone(), computer.workspace).await?,
        };
        account.check().await?;
        let too_many = || Error {
            message: format!("The account has {MAX_RUNS} runs"),
            ..Error::rate_limited(RETRY_SECONDS)
        };
        let permit = self.permits.try_acquire(caller.account, MAX_RUNS);
        let permit = permit.ok_or_else(|| too_many().code(ErrorCode::TooManyRuns))?;
        let target = ExecutorTarget {
            caller: caller.clone(),
            lease: Arc::clone(&lease),
            computer: computer.id.to_string(),
            screen: request.screen,
            pixels: request.limits.pixels,
            allowed: request.tools,
        };
        let mut executor = Executor::new(services.clone(), target);
        let (picture, screen) = executor.look().await?;
        let cancel = CancellationToken::new();
        let claim = self.active.claim(computer.id, &screen, continued, &cancel)?;
        let thread = match continued {
            Some(thread) => thread,
            None => services.threads.open(&caller, &computer, None).await?,
        };
        claim.set_thread(thread);
        executor.act_as(thread);
        audit::set_target(thread);
        let initial = match continued {
            None => Ok(InitialState::default()),
            Some(_) => self.continued(thread, request.is_approved).await,
        };
        let InitialState { mut conversation, approved, seen } = initial?;
        executor.set_seen(seen);
        if approved.is_empty() {
            request.messages.iter().for_each(|message| conversation.add(message.clone()));
            conversation.add_first_screenshot(picture);
        }
        let guard = (!request.is_background).then(|| cancel.clone().drop_guard());
        let (reporter, events) = reporter::channel(request.is_background.then_some(READER_TIMEOUT));
        let name = model.model.name.clone();
        let plan = RunPlan {
            instructions: tools::instructions(&request.instructions),
            new: request.messages,
            approved,
            limits: request.limits,
            allowed: request.tools,
            confirm: request.confirm,
        };
        let active = self.active.clone();
        let parts =
            RunParts { services: services.clone(), active, lease, executor, model, account, reporter };
        let run = Run::new(thread, conversation, plan, parts);
        let stopping = services.tasks.stopping();
        let _task = services.tasks.spawn("chat run", async move {
            // The client may start the next run as soon as it knows of the end.
            run.execute(cancel, stopping, move || drop((claim, permit))).await;
        });
        Ok(RunHandle { thread, model: name, events, _guard: guard })
    }

    /// Ends the run of a thread, and waits for its end. Returns the thread as it is then, and whether a run was
    /// in progress.
    ///
    /// # Errors
    /// Those of [`Threads::find`].
    pub async fn stop(&self, caller: &Caller, id: &str) -> Result<(Thread, bool)> {
        let caller = caller.for_change();
        let (thread, _, _) = self.services.threads.find(&caller, id).await?;
        let ended = self.active.stop(thread.id);
        if let Some(ended) = &ended {
            // A computer that stands still delays the end; the thread says then that it runs.
            let _late = tokio::time::timeout(STOP_TIMEOUT, ended.cancelled()).await;
        }
        // Also without a run: it may have ended after the first look.
        let (thread, _, _) = self.services.threads.find(&caller, id).await?;
        Ok((thread, ended.is_some()))
    }

    /// Whether a run works on a thread: from before its start is answered until its end is stored.
    pub fn is_running(&self, thread: ThreadId) -> bool {
        self.active.has(thread)
    }

    /// What the run of a thread waits for; `None` when none waits.
    pub fn waiting(&self, thread: ThreadId) -> Option<RunProgress> {
        self.active.waiting(thread)
    }

    /// Marks threads whose run is gone as interrupted.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn sweep(&self) -> Result<()> {
        self.services.threads.interrupt_lost(|thread| self.active.has(thread)).await
    }

    /// Checks that a caller may run a model on a computer.
    ///
    /// # Errors
    /// `NotFound` (`computer_not_found`) or `Forbidden`.
    pub async fn admit(&self, caller: &Caller, computer: &str) -> Result<()> {
        self.find(&caller.for_change(), computer).await.map(drop)
    }

    async fn find(&self, caller: &Caller, computer: &str) -> Result<Computer> {
        self.services.directory.find_computer(caller, computer).await.map_err(|error| {
            if error.kind == Kind::NotFound { error.code(ErrorCode::ComputerNotFound) } else { error }
        })
    }

    /// Reads a thread to continue it. With `is_approved`, the call that waits is executed first, then those
    /// after it. A call that a crash left unanswered does not wait: it may have been executed.
    async fn continued(&self, thread: ThreadId, is_approved: bool) -> Result<InitialState> {
        let threads = &self.services.threads;
        let mut history = RepairedHistory::of(threads.history(thread).await?);
        let (mut approved, mut seen) = (Vec::new(), None);
        if is_approved {
            let first = history.unanswered.first();
            let waiting = threads.waiting(thread).await?;
            let waiting = waiting.filter(|waiting| first.is_some_and(|call| call.id == waiting.call));
            let waiting = waiting.ok_or_else(|| nothing_waits(thread))?;
            (approved, seen) = (std::mem::take(&mut history.unanswered), waiting.frame);
        }
        history.answer_rest();
        Ok(InitialState { conversation: Conversation::new(history.messages), approved, seen })
    }
}

/// What a run begins with.
#[derive(Default)]
struct InitialState {
    conversation: Conversation,
    /// Calls that are executed first.
    approved: Vec<ToolCall>,
    /// The picture that the first of them refers to.
    seen: Option<String>,
}

fn nothing_waits(thread: ThreadId) -> Error {
    Error::conflict("No call of this thread waits to be confirmed")
        .code(ErrorCode::NoPendingCall)
        .text("thread_id", thread.to_string())
}
