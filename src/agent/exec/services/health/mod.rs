//! Health checks of applications, beside their services.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Parts;
use super::supervisor::Action;
use hotdesk_base::clock;
use hotdesk_domain::computer::template::health::{HealthNews, HealthRecord, HealthStatus, MIN_INTERVAL};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::agent::GuestRequestKind;
use hotdesk_wire::desktop::event::{AppHealth, Event, EventData};
use hotdesk_wire::programs::service::{AppHealthStatus, HealthProgram};
use hotdesk_wire::template::health::{NO_ACTION, RESTART_COMPUTER, RESTART_SERVICE};
use probe::ProbeContext;

pub(super) mod probe;

/// The states of all health checks, by application.
#[derive(Debug, Default)]
pub(super) struct HealthStates(Mutex<BTreeMap<String, AppHealthStatus>>);

impl HealthStates {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, AppHealthStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of an application.
    pub(super) fn of(&self, app: &str) -> AppHealthStatus {
        self.lock().get(app).cloned().unwrap_or_else(|| AppHealthStatus {
            app: app.to_owned(),
            status: HealthStatus::Starting.name().to_owned(),
            failures: 0,
            actions: 0,
            reason: None,
            checked_at: None,
        })
    }

    fn store(&self, state: AppHealthStatus) {
        self.lock().insert(state.app.clone(), state);
    }
}

/// Begins the checks of all applications. They end with the agent.
pub(super) fn begin(parts: &Arc<Parts>, programs: &[HealthProgram], prelude: &str) {
    for program in programs {
        let (parts, program, prelude) = (Arc::clone(parts), program.clone(), prelude.to_owned());
        let (tasks, stop) = (parts.tasks.clone(), parts.tasks.stopping());
        let _task = tasks.spawn("health check of the template", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = run(&parts, &program, &prelude) => {}
            }
        });
    }
}

/// Checks until an application works. No action follows a failure, and nobody is told.
///
/// # Errors
/// `Conflict` when it does not work at the deadline; `Internal` when it cannot be checked.
pub(super) async fn until_healthy(
    parts: &Parts,
    program: &HealthProgram,
    prelude: &str,
    deadline: tokio::time::Instant,
) -> Result<()> {
    let client = probe::client(probe::url_of(&program.probe)).map_err(Error::internal)?;
    let environment = parts.environment();
    let context = ProbeContext { environment: &environment, prelude, folder: &parts.folder, client: &client };
    let mut reason = "it has not been checked".to_owned();
    let checking = async {
        while let Err(failure) = probe::check(program, &context).await {
            reason = failure;
            tokio::time::sleep(MIN_INTERVAL).await;
        }
    };
    let checked = tokio::time::timeout_at(deadline, checking).await;
    checked.map_err(|_| Error::conflict(format!("The application {} is not healthy: {reason}", program.app)))
}

async fn run(parts: &Parts, program: &HealthProgram, prelude: &str) {
    // Commands of an agent that ended half-way.
    probe::script_name(&program.app).end_processes().await;
    let client = match probe::client(probe::url_of(&program.probe)) {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, app = program.app, "could not prepare a health check");
            return;
        }
    };
    let environment = parts.environment();
    let context = ProbeContext { environment: &environment, prelude, folder: &parts.folder, client: &client };
    let (began, mut record, mut actions) = (Instant::now(), HealthRecord::new(program.retries), 0);
    let every = Duration::from_millis(program.every_ms);
    loop {
        let result = probe::check(program, &context).await;
        let news = record.record(result.is_ok(), began.elapsed());
        actions += u32::from(news == HealthNews::ActionDue);
        let reason = result.err();
        parts.health.store(AppHealthStatus {
            app: program.app.clone(),
            status: record.status().name().to_owned(),
            failures: record.failures(),
            actions,
            reason: reason.clone(),
            checked_at: Some(clock::now().iso8601()),
        });
        match news {
            HealthNews::None => {}
            HealthNews::Recovered => {
                parts.tell_triggers("healthy", [("app", json!(program.app))]);
                publish(parts, program, AppHealth::Healthy, None);
            }
            HealthNews::ActionDue => {
                parts.tell_triggers("unhealthy", [("app", json!(program.app)), ("reason", json!(reason))]);
                publish(parts, program, AppHealth::Unhealthy, reason.clone());
                act(parts, program, reason.unwrap_or_default()).await;
            }
        }
        // Until the first success, so that a computer is known to work soon.
        let is_starting = record.status() == HealthStatus::Starting;
        tokio::time::sleep(if is_starting { every.min(MIN_INTERVAL) } else { every }).await;
    }
}

fn publish(parts: &Parts, program: &HealthProgram, status: AppHealth, reason: Option<String>) {
    if program.on_fail == NO_ACTION {
        return;
    }
    let (app, action) = (program.app.clone(), program.on_fail.clone());
    parts.feed.publish(Event::now(EventData::HealthChange { app, status, action, reason }));
}

async fn act(parts: &Parts, program: &HealthProgram, reason: String) {
    let app = program.app.as_str();
    if let Some(service) = program.on_fail.strip_prefix(RESTART_SERVICE) {
        tracing::warn!(app, reason, service, "an application is unhealthy: its service restarts");
        if let Err(error) = parts.supervisor.act(service, Action::Restart).await {
            tracing::warn!(app, %error, "could not restart a service of an unhealthy application");
        }
    } else if program.on_fail == RESTART_COMPUTER {
        tracing::warn!(app, reason, "an application is unhealthy: the service is asked for a restart");
        parts.outbox.add(GuestRequestKind::Restart { app: app.to_owned(), reason });
    } else {
        tracing::warn!(app, reason, "an application is unhealthy");
    }
}
