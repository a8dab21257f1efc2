//! Requests of templates to the service, and hooks that the service waits for.
//!
//! The agent is not trusted, T5 (docs/security.md): the number of requests and what they lead to are bounded.

use std::future::{Future, pending};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::computers::runner::Runner;
use hotdesk_base::backoff::Backoff;
use hotdesk_base::ids::{AccountId, ComputerRef};
use hotdesk_base::keyed_semaphore::{KeyedSemaphore, Permit};
use hotdesk_domain::computer::lifecycle::{Command, Operation, Status};
use hotdesk_domain::computer::template::health::{MAX_RESTARTS, RestartBudget};
use hotdesk_domain::computer::template::hook::{HOOK_TIMEOUT, PRE_SNAPSHOT, SHUTDOWN};
use hotdesk_domain::error::{Kind, Result};
use hotdesk_domain::network::webhook::{MAX_PENDING, WebhookRate};
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::agent::{GuestRequestKind, GuestRequestOutcome, GuestRequestQuery, GuestRequests};
use hotdesk_wire::programs::service::HookStatus;

/// Webhooks of all computers that wait for their delivery. Each computer has few of them.
const MAX_QUEUED_WEBHOOKS: usize = 256;
/// Most requests of one answer. An honest agent has at most 64 that wait.
const MAX_REQUESTS: usize = 64;
/// Answers at once that a webhook is not sent. An agent that is not answered gives up by itself.
const MAX_REFUSALS: usize = 4;
/// Shortest time between two answers with requests: an agent that always has some must not keep the service busy.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Longest event of a webhook as JSON, in bytes. The events of an honest agent have at most 16 KiB of texts.
const MAX_EVENT: usize = 32 * 1024;
/// Webhooks of one account's computers without an outcome, so that slow receivers of one do not delay those of all.
const MAX_OF_ACCOUNT: usize = 16;
/// Longest id of an agent, in bytes.
const MAX_INSTANCE: usize = 64;
/// Characters of an agent's text that are logged.
const MAX_LOGGED: usize = 200;
/// Pauses after a failed question: an agent restarts in a second, and one that hangs need not be asked often.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
const STABLE_AFTER: Duration = Duration::from_secs(20);
/// Pause between two questions about a hook: at first, and at most.
const HOOK_MIN_PAUSE: Duration = Duration::from_millis(50);
const HOOK_MAX_PAUSE: Duration = Duration::from_secs(1);
/// Questions about a hook in a row that may stay without an answer.
const MAX_HOOK_FAILURES: u32 = 2;
/// Time beside that of the hook itself, in which the agent ends a hook that took too long.
const HOOK_MARGIN: Duration = Duration::from_secs(15);

/// State of a runner about its computer's requests.
#[derive(Debug)]
pub(in crate::computers::runner) struct TemplateRequests {
    query: GuestRequestQuery,
    restarts: RestartBudget,
    webhooks: WebhookRate,
    /// Permits of webhooks that have no outcome yet.
    pending: Arc<Semaphore>,
    /// Permits of answers to webhooks that are not sent.
    refusals: Arc<Semaphore>,
    /// When the agent may be asked again.
    next: tokio::time::Instant,
    /// Whether the log has that a restart was refused, since the last one that was not.
    refusal_logged: bool,
}

impl Default for TemplateRequests {
    fn default() -> Self {
        Self {
            query: GuestRequestQuery::default(),
            restarts: RestartBudget::default(),
            webhooks: WebhookRate::default(),
            pending: Arc::new(Semaphore::new(MAX_PENDING)),
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
            next: tokio::time::Instant::now(),
            refusal_logged: false,
        }
    }
}

/// A webhook that a computer's agent asked for.
#[derive(Debug)]
pub(in crate::computers) struct WebhookRequest {
    /// The computer.
    pub(in crate::computers) computer: Box<Computer>,
    /// Its agent, which gets the outcome.
    pub(in crate::computers) guest: Guest,
    /// Id of the agent.
    pub(in crate::computers) instance: String,
    /// Number of the request.
    pub(in crate::computers) number: u64,
    /// Name of the trigger.
    pub(in crate::computers) trigger: String,
    /// Place of the action in the trigger.
    pub(in crate::computers) action: usize,
    /// The event.
    pub(in crate::computers) event: Value,
    /// Held until the outcome: of the computer, and of its account.
    pub(in crate::computers) _permits: (OwnedSemaphorePermit, Permit<AccountId>),
}

/// The queue between runners and deliveries.
#[derive(Debug)]
pub(in crate::computers) struct WebhookQueue {
    sender: mpsc::Sender<WebhookRequest>,
    receiver: Mutex<Option<mpsc::Receiver<WebhookRequest>>>,
    /// Webhooks without an outcome, by account.
    accounts: KeyedSemaphore<AccountId>,
}

impl Default for WebhookQueue {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_WEBHOOKS);
        Self { sender, receiver: Mutex::new(Some(receiver)), accounts: KeyedSemaphore::default() }
    }
}

impl WebhookQueue {
    /// Adds a webhook. Returns false when too many wait.
    pub(in crate::computers) fn add(&self, request: WebhookRequest) -> bool {
        self.sender.try_send(request).is_ok()
    }

    /// The end that delivers; `None` when it was taken.
    pub(in crate::computers) fn take_receiver(&self) -> Option<mpsc::Receiver<WebhookRequest>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The hook before an operation.
pub(in crate::computers) fn hook_before(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Suspend => Some(PRE_SNAPSHOT),
        Operation::Stop | Operation::Restart => Some(SHUTDOWN),
        Operation::Start | Operation::Resume | Operation::Delete => None,
    }
}

impl Runner {
    /// Returns a future that waits for requests of the computer's template. It does not end while there are none.
    pub(in crate::computers::runner) fn watch_template(
        &self,
    ) -> impl Future<Output = GuestRequests> + Send + use<> {
        let (id, shared) = (self.id, Arc::clone(&self.shared));
        let (guest, mut query) = (self.presence.borrow().guest.clone(), self.template.query.clone());
        let next = self.template.next;
        async move {
            let Some(guest) = guest else { return pending().await };
            tokio::time::sleep_until(next).await;
            let mut pauses = Backoff::new(MIN_PAUSE, MAX_PAUSE, STABLE_AFTER);
            loop {
                let began = Instant::now();
                let row = shared.store.computer(&ComputerRef::Id(id)).await;
                let asked = match row {
                    Ok(Some(row)) if row.template.is_some() => guest.template_requests(query.clone()).await,
                    Ok(_) => return pending().await,
                    Err(error) => Err(error),
                };
                match asked {
                    Ok(answer) if answer.none_expected => return pending().await,
                    Ok(answer) if !answer.requests.is_empty() => return answer,
                    Ok(answer) if query.instance.as_ref() == Some(&answer.instance) => {}
                    Ok(answer) => query = GuestRequestQuery { instance: Some(answer.instance), after: None },
                    // The memory of an agent from before these requests.
                    Err(error) if error.kind == Kind::NotFound => return pending().await,
                    Err(error) => tracing::debug!(
                        computer = %id,
                        error = format_args!("{error:#}"),
                        "could not ask the agent for requests of the template; it is retried"
                    ),
                }
                tokio::time::sleep(pauses.after(began.elapsed())).await;
            }
        }
    }

    /// Does what the template asked for.
    pub(in crate::computers::runner) async fn handle_template_requests(&mut self, answer: GuestRequests) {
        self.template.next = tokio::time::Instant::now() + MIN_INTERVAL;
        let mut instance = answer.instance;
        instance.truncate(instance.floor_char_boundary(MAX_INSTANCE));
        for request in answer.requests.into_iter().take(MAX_REQUESTS) {
            self.template.query =
                GuestRequestQuery { instance: Some(instance.clone()), after: Some(request.number) };
            match request.kind {
                GuestRequestKind::Restart { app, reason } => {
                    self.restart_for_template(&app, &reason).await;
                    // The others were of the boot that has ended.
                    return;
                }
                GuestRequestKind::Webhook { trigger, action, event } => {
                    self.send_webhook(&instance, request.number, (trigger, action, event)).await;
                }
            }
        }
    }

    /// Hands a webhook over, unless the computer has sent too many.
    async fn send_webhook(
        &mut self,
        instance: &str,
        number: u64,
        (trigger, action, event): (String, usize, Value),
    ) {
        let Some(guest) = self.presence.borrow().guest.clone() else { return };
        let row = match self.row().await {
            Ok(row) => row,
            Err(error) => {
                tracing::warn!(computer = %self.id, error = format_args!("{error:#}"), "could not send a webhook");
                return;
            }
        };
        let permit = Arc::clone(&self.template.pending).try_acquire_owned().ok();
        let permit = permit.filter(|_| self.template.webhooks.take(Instant::now()));
        let of_account = self.shared.webhooks.accounts.try_acquire(row.owner, MAX_OF_ACCOUNT);
        let permits = permit.zip(of_account).filter(|_| event.to_string().len() <= MAX_EVENT);
        let queued = permits.is_some_and(|permits| {
            let (computer, guest, instance) = (Box::new(row.clone()), guest.clone(), instance.to_owned());
            let request = WebhookRequest {
                computer,
                guest,
                instance,
                number,
                trigger,
                action,
                event,
                _permits: permits,
            };
            self.shared.webhooks.add(request)
        });
        if !queued {
            let Ok(refusal) = Arc::clone(&self.template.refusals).try_acquire_owned() else { return };
            let why = "too many webhooks at once, or an event that is too long; this one is not sent";
            let instance = instance.to_owned();
            let telling = async move {
                let _refusal = refusal;
                report(&row, &guest, &instance, number, Some(why.to_owned())).await;
            };
            let _task = self.shared.tasks.spawn("refusal of a webhook", telling);
        }
    }

    /// Restarts the computer because an application does not work, unless it was restarted too often.
    async fn restart_for_template(&mut self, app: &str, reason: &str) {
        let shown = |text: &str| text.chars().take(MAX_LOGGED).collect::<String>();
        let (app, reason) = (shown(app), shown(reason));
        if !self.template.restarts.take(Instant::now()) {
            if std::mem::replace(&mut self.template.refusal_logged, true) {
                return;
            }
            tracing::warn!(
                computer = %self.id,
                app,
                reason,
                "an application is unhealthy, but its computer was restarted {MAX_RESTARTS} times within an hour; it is left"
            );
            return;
        }
        self.template.refusal_logged = false;
        tracing::info!(computer = %self.id, app, reason, "an application is unhealthy: its computer restarts");
        let restarted = match self.row().await {
            Ok(row) => {
                let (accepted, _unread) = oneshot::channel();
                self.command(&row, Command::Restart, None, accepted).await.0
            }
            Err(error) => Err(error),
        };
        if let Err(error) = restarted {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not restart the computer of an unhealthy application"
            );
        }
    }

    /// Runs the hook before the disk or the memory of a running computer is copied.
    pub(in crate::computers) async fn run_pre_snapshot(&self, row: &Computer) {
        let guest = self.presence.borrow().guest.clone();
        self.run_hook(row, guest.as_ref(), PRE_SNAPSHOT).await;
    }

    /// Runs a hook of the template, and waits for its end. What happens to it does not matter: a hook never prevents what
    /// its user asked for.
    pub(in crate::computers) async fn run_hook(
        &self,
        row: &Computer,
        guest: Option<&Guest>,
        name: &'static str,
    ) {
        let Some(guest) = guest.filter(|_| row.template.is_some() && row.status == Status::Running) else {
            return;
        };
        if self.shared.engine.is_frozen(self.id) {
            return;
        }
        let stop = self.shared.tasks.stopping();
        // The command of this hook itself was received before.
        let started = self.shared.endings(self.id);
        let done = tokio::select! {
            done = tokio::time::timeout(HOOK_TIMEOUT + HOOK_MARGIN, wait_for_hook(guest, name)) => done,
            _ = self.shared.engine.wait_stopped(self.id) => return,
            () = stop.cancelled() => return,
            () = self.shared.hook_cut_short(self.id, started) => {
                tracing::info!(computer = %self.id, hook = name, "a stop or a delete does not wait for a hook of the template");
                return;
            }
        };
        match done {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(status))) if status.status == "succeeded" => {}
            Ok(Ok(Some(status))) => tracing::info!(
                computer = %self.id,
                hook = name,
                exit_code = status.exit_code,
                "a hook of the template did not succeed"
            ),
            Ok(Err(error)) => tracing::warn!(
                computer = %self.id,
                hook = name,
                error = format_args!("{error:#}"),
                "could not run a hook of the template"
            ),
            Err(_) => {
                tracing::warn!(computer = %self.id, hook = name, "a hook of the template has not ended")
            }
        }
    }
}

async fn wait_for_hook(guest: &Guest, name: &str) -> Result<Option<HookStatus>> {
    let mut status = match guest.begin_hook(name).await {
        // The memory of an agent from before these hooks.
        Err(error) if error.kind == Kind::NotFound => return Ok(None),
        begun => begun?,
    };
    let mut pause = HOOK_MIN_PAUSE;
    let mut failures = 0;
    while status.as_ref().is_some_and(|status| status.status == "running") {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(HOOK_MAX_PAUSE);
        match guest.hook(name).await {
            Ok(now) => (status, failures) = (now, 0),
            Err(_) if failures < MAX_HOOK_FAILURES => failures += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(status)
}

/// Tells an agent the outcome of its request. One that does not answer gives up by itself.
pub(in crate::computers) async fn report(
    computer: &Computer,
    guest: &Guest,
    instance: &str,
    number: u64,
    error: Option<String>,
) {
    let outcome = GuestRequestOutcome { instance: instance.to_owned(), error };
    if let Err(error) = guest.finish_request(number, &outcome).await {
        tracing::debug!(
            computer = %computer.id,
            error = format_args!("{error:#}"),
            "could not tell the agent the outcome of a webhook"
        );
    }
}
