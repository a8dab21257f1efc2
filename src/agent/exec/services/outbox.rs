//! Requests of the template to the service: what only the service can do for a computer.
//!
//! The service reads them by a long request and confirms them with the next one. The queue is bounded; when it is full,
//! a further request is refused and logged.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use hotdesk_domain::network::webhook::DELIVERY_TIMEOUT;
use hotdesk_wire::agent::{
    GuestRequest, GuestRequestKind, GuestRequestOutcome, GuestRequestQuery, GuestRequests,
};

/// Most requests that wait: the service takes them in seconds, and one that is down must not fill the memory.
const MAX_WAITING: usize = 64;
/// Longest wait for an outcome: that of a delivery, and a margin for a service that restarts meanwhile.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(DELIVERY_TIMEOUT.as_secs() + 60);
/// Longest time of one request of the service.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The queue.
#[derive(Debug)]
pub struct Outbox {
    /// Differs for each agent, because numbers begin again with it.
    instance: String,
    queue: Mutex<Queue>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    last: u64,
    waiting: VecDeque<GuestRequest>,
    /// Who waits for the outcome of a request.
    awaited: HashMap<u64, oneshot::Sender<Option<String>>>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { instance: Uuid::new_v4().to_string(), queue: Mutex::default(), news: Notify::new() }
    }
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. Returns false when too many wait.
    pub(super) fn add(&self, kind: GuestRequestKind) -> bool {
        self.add_awaited(kind, None)
    }

    fn add_awaited(&self, kind: GuestRequestKind, outcome: Option<oneshot::Sender<Option<String>>>) -> bool {
        {
            let mut queue = self.queue();
            // Of those that gave up.
            queue.awaited.retain(|_, waiting| !waiting.is_closed());
            if queue.waiting.len() >= MAX_WAITING {
                tracing::warn!("too many requests of the template wait for the service; one is dropped");
                return false;
            }
            queue.last += 1;
            let number = queue.last;
            queue.waiting.push_back(GuestRequest { number, kind });
            if let Some(outcome) = outcome {
                queue.awaited.insert(number, outcome);
            }
        }
        self.news.notify_waiters();
        true
    }

    /// Adds a request, and waits for its outcome.
    ///
    /// # Errors
    /// What failed, for the template's author.
    pub(super) async fn request(&self, kind: GuestRequestKind) -> Result<(), String> {
        let (sender, outcome) = oneshot::channel();
        if !self.add_awaited(kind, Some(sender)) {
            return Err("too many requests wait for the service".to_owned());
        }
        match tokio::time::timeout(OUTCOME_TIMEOUT, outcome).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(why))) => Err(why),
            Ok(Err(_)) | Err(_) => Err("the service did not report in time whether it was done".to_owned()),
        }
    }

    /// Takes the outcome of a request from the service. One that nobody waits for any more has no effect.
    pub fn finish(&self, number: u64, outcome: GuestRequestOutcome) {
        let waiting =
            (outcome.instance == self.instance).then(|| self.queue().awaited.remove(&number)).flatten();
        if let Some(waiting) = waiting {
            // Who waited may have given up.
            let _ = waiting.send(outcome.error);
        }
    }

    /// Removes the requests that the service has confirmed, and returns the others; waits for the first one.
    pub async fn read(&self, query: &GuestRequestQuery) -> GuestRequests {
        if query.instance.as_deref() == Some(self.instance.as_str()) {
            let confirmed = query.after.unwrap_or_default();
            self.queue().waiting.retain(|request| request.number > confirmed);
        }
        // A timeout ends with an empty list, and the service asks again.
        let _ = tokio::time::timeout(MAX_WAIT, self.wait_for_requests()).await;
        let requests = self.queue().waiting.iter().cloned().collect();
        GuestRequests { instance: self.instance.clone(), none_expected: false, requests }
    }

    async fn wait_for_requests(&self) {
        loop {
            // Registered before the check, so that a request between the check and the wait is not missed.
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if !self.queue().waiting.is_empty() {
                return;
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn restart(app: &str) -> GuestRequestKind {
        GuestRequestKind::Restart { app: app.to_owned(), reason: String::new() }
    }

    #[tokio::test]
    async fn requests_stay_until_they_are_confirmed_and_their_number_is_bounded() {
        let outbox = Outbox::default();
        assert!(outbox.add(restart("a")) && outbox.add(restart("b")));
        let first = outbox.read(&GuestRequestQuery::default()).await;
        assert_eq!(first.requests.iter().map(|request| request.number).collect::<Vec<_>>(), [1, 2]);
        let query = |instance: &str, after| GuestRequestQuery {
            instance: Some(instance.to_owned()),
            after: Some(after),
        };
        // The number of another agent confirms nothing.
        assert_eq!(outbox.read(&query("other", 2)).await.requests.len(), 2);
        let rest = outbox.read(&query(&first.instance, 1)).await;
        assert_eq!(rest.requests.iter().map(|request| request.number).collect::<Vec<_>>(), [2]);
        for _ in 1..MAX_WAITING {
            assert!(outbox.add(restart("c")));
        }
        assert!(!outbox.add(restart("d")));
    }

    #[tokio::test]
    async fn who_asked_gets_the_outcome() {
        let outbox = std::sync::Arc::new(Outbox::default());
        let instance = outbox.instance.clone();
        let webhook =
            |at| GuestRequestKind::Webhook { trigger: "t".to_owned(), action: at, event: Value::Null };
        let finish = |number, instance: &str, error: Option<&str>| {
            let (instance, error) = (instance.to_owned(), error.map(ToOwned::to_owned));
            outbox.finish(number, GuestRequestOutcome { instance, error });
        };
        let (first, second, ()) =
            tokio::join!(outbox.request(webhook(0)), outbox.request(webhook(1)), async {
                tokio::task::yield_now().await;
                finish(1, "another", Some("not this one"));
                finish(1, &instance, None);
                finish(1, &instance, Some("too late"));
                finish(2, &instance, Some("refused"));
            });
        assert_eq!((first, second), (Ok(()), Err("refused".to_owned())));
    }

    #[tokio::test]
    async fn a_reader_waits_for_a_request() {
        let outbox = std::sync::Arc::new(Outbox::default());
        let (reading, query) = (std::sync::Arc::clone(&outbox), GuestRequestQuery::default());
        let (read, added) = tokio::join!(async move { reading.read(&query).await }, async {
            tokio::task::yield_now().await;
            outbox.add(restart("a"))
        });
        assert!(added);
        assert_eq!(read.requests.len(), 1);
    }
}
