//! Triggers of the template: sources that are watched, and actions that run when something happens.
//!
//! ```text
//! source (a task) -- bounded channel --> rule (dedup) --> actions, one run after another
//! POST triggers/NAME ------------------> hard limit ----/
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::Parts;
use action::Actions;
use hotdesk_base::backoff::Backoff;
use hotdesk_base::clock;
use hotdesk_domain::computer::template::timing;
use hotdesk_domain::computer::template::trigger::{DedupRule, RunDecision, RunLimiter};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::trigger::{TriggerList, TriggerRun, TriggerStatus};
use hotdesk_wire::template::trigger::{Dedup, Trigger};

mod action;
mod event;
mod source;

use event::TriggerEvent;

/// Events of a trigger that wait while its actions run; further ones are dropped and counted.
const MAX_WAITING: usize = 64;
/// Requests of people that wait.
const MAX_BY_HAND: usize = 4;
/// Seconds after which a refused request may be repeated.
const RETRY_SECONDS: u32 = 1;
/// Runs in the record of a trigger.
const MAX_RUNS: usize = 10;
/// Pauses before a source that failed is watched again.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The triggers of a computer.
#[derive(Debug, Default)]
pub(super) struct Triggers(Mutex<Vec<TriggerEntry>>);

#[derive(Debug)]
struct TriggerEntry {
    status: TriggerStatus,
    by_hand: mpsc::Sender<TriggerEvent>,
}

/// Where a source reports.
#[derive(Clone)]
struct Reporter {
    parts: Arc<Parts>,
    name: String,
    events: mpsc::Sender<TriggerEvent>,
}

impl Triggers {
    fn lock(&self) -> MutexGuard<'_, Vec<TriggerEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of all.
    pub(super) fn list(&self) -> TriggerList {
        TriggerList { triggers: self.lock().iter().map(|entry| entry.status.clone()).collect() }
    }

    /// Runs the actions of a trigger for a person.
    ///
    /// # Errors
    /// `NotFound`; `TooManyRequests` when several such requests wait.
    pub(super) fn fire(&self, name: &str, fields: Map<String, Value>) -> Result<TriggerStatus> {
        let entries = self.lock();
        let entry = entries.iter().find(|entry| entry.status.name == name);
        let entry = entry.ok_or_else(|| {
            Error::not_found("This computer has no trigger of that name; GET triggers lists them")
        })?;
        let sent = entry.by_hand.try_send(TriggerEvent::new(name, &entry.status.source, fields));
        // Several wait already.
        sent.map_err(|_| Error::rate_limited(RETRY_SECONDS))?;
        Ok(entry.status.clone())
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut TriggerStatus)) {
        if let Some(entry) = self.lock().iter_mut().find(|entry| entry.status.name == name) {
            change(&mut entry.status);
        }
    }
}

impl Reporter {
    /// Reports an event. It is dropped when too many wait.
    fn event(&self, source: &'static str, fields: Map<String, Value>) {
        if self.events.try_send(TriggerEvent::new(&self.name, source, fields)).is_err() {
            self.parts.triggers.change(&self.name, |status| status.dropped += 1);
        }
    }

    /// Reports that the source is watched.
    fn watching(&self) {
        self.parts.triggers.change(&self.name, |status| {
            "watching".clone_into(&mut status.status);
            status.error = None;
        });
    }

    fn failed(&self, why: &str) {
        self.parts.triggers.change(&self.name, |status| {
            "failed".clone_into(&mut status.status);
            status.error = Some(event::bounded(why));
        });
    }

    fn next_at(&self, at: Option<String>) {
        self.parts.triggers.change(&self.name, |status| status.next_at = at);
    }
}

/// Begins all triggers. They end with the agent.
pub(super) fn begin(parts: &Arc<Parts>, triggers: &[Trigger], prelude: &str) {
    for trigger in triggers {
        let (events, received) = mpsc::channel(MAX_WAITING);
        let (by_hand, requested) = mpsc::channel(MAX_BY_HAND);
        let status = TriggerStatus {
            name: trigger.name.clone(),
            title: trigger.title.clone(),
            source: source::name(&trigger.source).to_owned(),
            status: "watching".to_owned(),
            error: None,
            next_at: None,
            run_count: 0,
            dropped: 0,
            runs: Vec::new(),
        };
        parts.triggers.lock().push(TriggerEntry { status, by_hand });
        let reporter = Reporter { parts: Arc::clone(parts), name: trigger.name.clone(), events };
        let source = source::WatchedSource::new(parts, &trigger.source);
        let stop = parts.tasks.stopping();
        let watching = async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = watch(source, &reporter) => {}
            }
        };
        let _source = parts.tasks.spawn("source of a trigger", watching);
        let work = TriggerWork {
            actions: Actions::new(parts, trigger, prelude),
            parts: Arc::clone(parts),
            name: trigger.name.clone(),
            limiter: RunLimiter::new(rule(trigger.dedup.as_ref())),
            began: Instant::now(),
        };
        let stop = parts.tasks.stopping();
        let _actions = parts.tasks.spawn("actions of a trigger", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = work.run(received, requested) => {}
            }
        });
    }
}

/// The rule of a definition. A value that is not valid cannot be in a published template; without a rule the hard limit
/// remains.
fn rule(field: Option<&Dedup>) -> DedupRule {
    let time = |text: &str| timing::milliseconds(text).map(Duration::from_millis);
    let rule = match field {
        None => None,
        Some(Dedup::Debounce(text)) => time(text).map(DedupRule::Debounce),
        Some(Dedup::Cooldown(text)) => time(text).map(DedupRule::Cooldown),
        Some(Dedup::RateLimit(text)) => DedupRule::rate(text),
    };
    rule.unwrap_or(DedupRule::Each)
}

/// Watches a source, again after each failure.
async fn watch(mut source: source::WatchedSource, reporter: &Reporter) {
    let mut pauses = Backoff::new(MIN_PAUSE, MAX_PAUSE, STABLE_AFTER);
    loop {
        let began = Instant::now();
        let why = source.watch(reporter).await;
        tracing::debug!(
            trigger = reporter.name,
            why,
            "the source of a trigger cannot be watched; it is retried"
        );
        reporter.failed(&why);
        tokio::time::sleep(pauses.after(began.elapsed())).await;
    }
}

/// The events and actions of one trigger.
struct TriggerWork {
    parts: Arc<Parts>,
    name: String,
    actions: Actions,
    limiter: RunLimiter,
    began: Instant,
}

impl TriggerWork {
    async fn run(
        mut self,
        mut events: mpsc::Receiver<TriggerEvent>,
        mut by_hand: mpsc::Receiver<TriggerEvent>,
    ) {
        let mut held: Option<(Duration, TriggerEvent)> = None;
        loop {
            let wait = async {
                match &held {
                    Some((due, _)) => tokio::time::sleep(due.saturating_sub(self.began.elapsed())).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = by_hand.recv() => match event {
                    Some(event) if self.limiter.by_hand(self.began.elapsed()) => Some(event),
                    Some(_) => None,
                    None => return,
                },
                () = wait => match (self.limiter.due(self.began.elapsed()), held.take()) {
                    (RunDecision::Run, Some((_, event))) => Some(event),
                    (RunDecision::Hold(due), Some((_, event))) => {
                        held = Some((due, event));
                        continue;
                    }
                    (RunDecision::Drop, Some(_)) => None,
                    (_, None) => continue,
                },
                event = events.recv() => match event {
                    Some(event) => match self.limiter.event(self.began.elapsed()) {
                        RunDecision::Run => Some(event),
                        RunDecision::Hold(due) => {
                            let earlier = held.replace((due, event));
                            if earlier.is_some() {
                                self.parts.triggers.change(&self.name, |status| status.dropped += 1);
                            }
                            continue;
                        }
                        RunDecision::Drop => None,
                    },
                    None => return,
                },
            };
            match event {
                Some(event) => self.act(&event).await,
                None => self.parts.triggers.change(&self.name, |status| status.dropped += 1),
            }
        }
    }

    /// Runs the actions, and records the run.
    async fn act(&self, event: &TriggerEvent) {
        let run = TriggerRun {
            started_at: clock::now().iso8601(),
            ended_at: None,
            status: "running".to_owned(),
            event: event.value(),
            errors: Vec::new(),
        };
        self.parts.triggers.change(&self.name, |status| {
            status.run_count += 1;
            status.runs.insert(0, run);
            status.runs.truncate(MAX_RUNS);
        });
        let errors = self.actions.run(event).await;
        self.parts.triggers.change(&self.name, |status| {
            let Some(run) = status.runs.first_mut() else { return };
            run.ended_at = Some(clock::now().iso8601());
            (if errors.is_empty() { "succeeded" } else { "failed" }).clone_into(&mut run.status);
            run.errors = errors.iter().map(|error| event::bounded(error)).collect();
        });
    }
}

/// Fields of an event from pairs.
fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .collect()
}
