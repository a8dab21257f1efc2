//! Which computers does nobody use? Those that suspend themselves are asked in turns what is at work in them, and those that
//! are due are given rest.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use super::super::{App, Shared};
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::Result;
use hotdesk_domain::idle::{self, Rest, Seen};
use hotdesk_domain::lifecycle::Status;
use hotdesk_store::computers::Computer;
use hotdesk_wire::agent::{Activity, Hold};
use hotdesk_wire::computer::AutoStop;

/// Agents asked at once. Each that hangs takes a place for three seconds, so a dozen of them leave the others their turn.
const AT_ONCE: usize = 16;
/// Reasons that are kept of one computer: what an honest agent tells at most.
const MAX_HOLDS: usize = 16;
/// Characters that are kept of what an agent says of a reason: an honest one cuts at fewer.
const MAX_DETAIL: usize = 200;

/// What was last seen of the computers that suspend themselves.
#[derive(Debug, Default)]
pub struct Looks(Mutex<HashMap<ComputerId, Look>>);

#[derive(Clone, Debug)]
struct Look {
    seen: Seen,
    held_by: Vec<Hold>,
}

impl Looks {
    /// Keeps what an agent told, or that it did not.
    fn note(&self, id: ComputerId, told: Result<Activity>) {
        let at = Instant::now();
        let activity = told.unwrap_or_else(|error| {
            let detail = format!("the computer does not say what is at work: {}", error.message);
            Activity { idle_ms: 0, held_by: vec![Hold { kind: String::from("unknown"), detail }] }
        });
        let mut held_by = activity.held_by;
        held_by.truncate(MAX_HOLDS);
        for hold in &mut held_by {
            hold.kind = hold.kind.chars().take(MAX_DETAIL).collect();
            hold.detail = hold.detail.chars().take(MAX_DETAIL).collect();
        }
        let held = !held_by.is_empty();
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let worked = if held { Some(at) } else { looks.get(&id).and_then(|last| last.seen.worked) };
        let idle = Duration::from_millis(activity.idle_ms);
        looks.insert(id, Look { seen: Seen { at, idle, held, worked }, held_by });
    }

    fn last(&self, id: ComputerId) -> Option<Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Forgets all others.
    fn keep(&self, computers: &[Computer]) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|id, _| computers.iter().any(|computer| computer.id == *id));
    }
}

/// Asks every computer that suspends itself, and gives rest to those that are due.
pub(super) async fn look(app: Shared) -> Result<()> {
    let mut computers = app.store.all_computers().await?;
    computers.retain(|computer| computer.status == Status::Running && computer.auto_stop_minutes > 0);
    app.looks.keep(&computers);
    stream::iter(&computers).for_each_concurrent(AT_ONCE, |computer| visit(&app, computer)).await;
    Ok(())
}

async fn visit(app: &Shared, computer: &Computer) {
    let Some(guest) = app.fleet.running_guest(computer.id) else { return };
    // What is done from here on keeps it up, also while its runner has other work.
    let Some(acted) = app.fleet.acted(computer.id) else { return };
    app.looks.note(computer.id, guest.activity().await);
    if rest(app, computer, app.looks.last(computer.id).as_ref()) != Rest::In(Duration::ZERO) {
        return;
    }
    let memory = app.fleet.engine().capabilities().suspend;
    let Some(command) = computer.billing.rest(memory, now_ms()) else { return };
    tracing::info!(computer = %computer.id, minutes = computer.auto_stop_minutes, "nobody uses it: it is given rest");
    // Not waited for: a runner that takes its time must not hold up the round.
    let (fleet, id) = (app.fleet.clone(), computer.id);
    let _given = app.tasks.spawn("auto-stop command", async move {
        if let Err(error) = fleet.give_rest(id, command, acted).await {
            tracing::warn!(computer = %id, %error, "it could not be given rest; it is tried again");
        }
    });
}

fn rest(app: &App, computer: &Computer, look: Option<&Look>) -> Rest {
    let now = Instant::now();
    let minutes = u32::try_from(computer.auto_stop_minutes).ok().filter(|minutes| *minutes > 0);
    let patience = minutes.map(|minutes| app.config.auto_stop.minute.saturating_mul(minutes));
    // One that nobody has met is being deleted.
    let acted = app.fleet.acted(computer.id).unwrap_or(now);
    idle::decide(patience, acted, look.map(|look| &look.seen), now)
}

/// What a computer's record tells of it.
pub fn told(app: &App, computer: &Computer) -> AutoStop {
    let minutes = computer.auto_stop_minutes;
    if computer.status != Status::Running || minutes == 0 {
        return AutoStop { minutes, suspends_at: None, held_by: Vec::new() };
    }
    let look = app.looks.last(computer.id);
    let suspends_at = match rest(app, computer, look.as_ref()) {
        Rest::Never | Rest::Held => None,
        Rest::In(left) => {
            Some(iso8601(now_ms().saturating_add(i64::try_from(left.as_millis()).unwrap_or(i64::MAX))))
        }
    };
    AutoStop { minutes, suspends_at, held_by: look.map(|look| look.held_by).unwrap_or_default() }
}
