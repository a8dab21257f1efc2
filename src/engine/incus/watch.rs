//! Notices of changes of instances, from one stream of events for all waiters.
//!
//! ```text
//!   events of all members ----------------------> the waiters of that instance
//!   list, at the beginning and each 5 minutes --> the waiters of each instance that is not seen to run
//! ```
//! A waiter costs nothing until its own instance changes: no poll for each computer, and no wake-up by the events of others.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Notify;

use crate::incus::client::{Client, ClientError, Events, InstanceEvent};
use crate::incus::documents::{self, Instance, OWNER, Power};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;

/// Pause before the stream is opened again.
const PAUSE: Duration = Duration::from_secs(2);
/// Interval at which the instances are listed, should an event be lost. Incus does not send an event again.
const LIST_INTERVAL: Duration = Duration::from_secs(300);

/// The stream of events of an engine. It begins with the first waiter, and ends with the tasks.
#[derive(Debug)]
pub(super) struct Watch {
    client: Client,
    /// Id of the state folder whose instances are listed.
    owner: String,
    tasks: Tasks,
    waiters: OnceLock<Arc<Waiters>>,
}

/// The waiters of each computer.
#[derive(Debug, Default)]
struct Waiters(Mutex<HashMap<ComputerId, Vec<Arc<Notify>>>>);

/// The notices of one computer from some moment on.
pub(super) struct Notices {
    id: ComputerId,
    /// Has a permit since a change that was not waited for yet.
    changed: Arc<Notify>,
    waiters: Arc<Waiters>,
}

/// An instance in a list.
#[derive(Debug, Deserialize)]
struct ListedInstance {
    name: String,
    #[serde(flatten)]
    instance: Instance,
}

impl Watch {
    pub(super) fn new(client: Client, owner: String, tasks: Tasks) -> Self {
        Self { client, owner, tasks, waiters: OnceLock::new() }
    }

    /// Notices of a computer from now on.
    pub(super) fn subscribe(&self, id: ComputerId) -> Notices {
        let waiters = self.waiters.get_or_init(|| {
            let waiters = Arc::<Waiters>::default();
            let (client, owner, to) = (self.client.clone(), self.owner.clone(), Arc::clone(&waiters));
            let stop = self.tasks.stopping();
            let _following = self.tasks.spawn("incus events", async move {
                tokio::select! {
                    () = follow(&client, &owner, &to) => {}
                    () = stop.cancelled() => {}
                }
            });
            waiters
        });
        Waiters::add(waiters, id)
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, HashMap<ComputerId, Vec<Arc<Notify>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(this: &Arc<Self>, id: ComputerId) -> Notices {
        let changed = Arc::new(Notify::new());
        this.lock().entry(id).or_default().push(Arc::clone(&changed));
        Notices { id, changed, waiters: Arc::clone(this) }
    }

    /// Something happened to the instance of a computer.
    fn notify(&self, id: ComputerId) {
        self.lock().get(&id).into_iter().flatten().for_each(|changed| changed.notify_one());
    }

    /// Tells the waiters of all computers but those whose instances run.
    fn notify_ended(&self, listed: &[ListedInstance]) {
        let mut runs = BTreeMap::new();
        for it in listed {
            let Some(id) = documents::id_of(&it.name) else { continue };
            *runs.entry(id).or_insert(true) &= it.instance.power() == Power::Running;
        }
        for (id, waiters) in self.lock().iter() {
            if runs.get(id) != Some(&true) {
                waiters.iter().for_each(|changed| changed.notify_one());
            }
        }
    }
}

impl Notices {
    /// Waits until the instance may have changed.
    pub(super) async fn next(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        let mut all = self.waiters.lock();
        let Some(waiters) = all.get_mut(&self.id) else { return };
        waiters.retain(|changed| !Arc::ptr_eq(changed, &self.changed));
        if waiters.is_empty() {
            all.remove(&self.id);
        }
    }
}

async fn follow(client: &Client, owner: &str, waiters: &Waiters) {
    loop {
        if let Err(error) = read(client, owner, waiters).await {
            tracing::warn!(%error, "the events of Incus are interrupted");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads events until the stream ends. The first list is later than its beginning: events before it are unknown.
async fn read(client: &Client, owner: &str, waiters: &Waiters) -> Result<(), ClientError> {
    let events = client.events().await?;
    tokio::try_join!(read_events(events, waiters), list_again(client, owner, waiters)).map(drop)
}

async fn read_events(mut events: Events, waiters: &Waiters) -> Result<Infallible, ClientError> {
    loop {
        let InstanceEvent(name) = events.next().await?;
        if let Some(id) = documents::id_of(&name) {
            waiters.notify(id);
        }
    }
}

async fn list_again(client: &Client, owner: &str, waiters: &Waiters) -> Result<Infallible, ClientError> {
    loop {
        let path = format!("/1.0/instances?recursion=1&filter=config.{OWNER}%20eq%20{owner}");
        let listed = client.get(&path).await?;
        match serde_json::from_value::<Vec<ListedInstance>>(listed) {
            Ok(listed) => waiters.notify_ended(&listed),
            Err(error) => tracing::warn!(%error, "could not read the list of instances"),
        }
        tokio::time::sleep(LIST_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    async fn is_told(notices: &Notices) -> bool {
        tokio::time::timeout(Duration::from_millis(20), notices.next()).await.is_ok()
    }

    #[tokio::test]
    async fn a_waiter_looks_after_its_own_events_only() {
        let waiters = Arc::<Waiters>::default();
        let (own, other) = (ComputerId::random(), ComputerId::random());
        let (first, second, third) =
            (Waiters::add(&waiters, own), Waiters::add(&waiters, own), Waiters::add(&waiters, other));
        waiters.notify(own);
        waiters.notify(own);
        assert!(is_told(&first).await && is_told(&second).await && !is_told(&third).await);
        assert!(!is_told(&first).await, "two events before a look are one reason");
        drop((first, second, third));
        assert!(waiters.lock().is_empty());
        waiters.notify(own);
    }

    #[tokio::test]
    async fn a_list_wakes_those_whose_instance_is_not_seen_to_run() {
        let waiters = Arc::<Waiters>::default();
        let (runs, ended, gone) = (ComputerId::random(), ComputerId::random(), ComputerId::random());
        let (first, second, third) =
            (Waiters::add(&waiters, runs), Waiters::add(&waiters, ended), Waiters::add(&waiters, gone));
        let listed = json!([
            {"name": format!("hd-{runs}"), "status": "Running"},
            {"name": format!("hd-{ended}"), "status": "Stopped"},
            {"name": "web", "status": "Stopped"},
        ]);
        waiters.notify_ended(&serde_json::from_value::<Vec<ListedInstance>>(listed).unwrap());
        assert!(!is_told(&first).await && is_told(&second).await && is_told(&third).await);
    }
}
