//! Requests of the template to the service: what only the service can do for a computer.
//!
//! The service reads them by a long request and confirms them with the next one. The queue is bounded; when it is full,
//! a further request is refused and logged.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use hotdesk_base::clock;
use hotdesk_domain::network::webhook::DELIVERY_TIMEOUT;
use hotdesk_wire::agent::{
    GuestRequest, GuestRequestKind, GuestRequestOutcome, GuestRequestQuery, GuestRequests,
};

/// Most requests that wait: the service takes them in seconds, and one that is down must not fill the memory.
const MAX_WAITING: usize = 64;
/// Longest wait for an outcome: that of a delivery, and a margin for a service that restarts meanwhile.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(DELIVERY_TIMEOUT.as_secs() + 60);
/// Most requests of one answer, which the service bounds in bytes.
const MAX_ANSWER: usize = 8;
/// Longest time of one request of the service.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The queue.
#[derive(Debug)]
pub struct Outbox {
    queue: Mutex<Queue>,
    news: Notify,
}

#[derive(Debug)]
struct Queue {
    /// Differs for each agent and each computer.
    instance: String,
    last: u64,
    waiting: VecDeque<GuestRequest>,
    /// Who waits for the outcome of a request.
    awaited: HashMap<u64, oneshot::Sender<Option<String>>>,
}

impl Default for Queue {
    fn default() -> Self {
        let instance = Uuid::new_v4().to_string();
        Self { instance, last: 0, waiting: VecDeque::new(), awaited: HashMap::new() }
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self { queue: Mutex::default(), news: Notify::new() }
    }
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all requests, for a computer that continues from the memory of another one: they are that one's.
    pub(super) fn renew(&self) {
        *self.queue() = Queue::default();
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
            // By the clock, so that a computer that went back to a snapshot does not use a number twice: receivers of webhooks
            // recognise a repetition by it.
            let now = u64::try_from(clock::now().as_i64()).unwrap_or_default();
            queue.last = now.max(queue.last + 1);
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
        let waiting = {
            let mut queue = self.queue();
            (outcome.instance == queue.instance).then(|| queue.awaited.remove(&number)).flatten()
        };
        if let Some(waiting) = waiting {
            // Who waited may have given up.
            let _ = waiting.send(outcome.error);
        }
    }

    /// Removes the requests that the service has confirmed, and returns the others; waits for the first one.
    pub async fn read(&self, query: &GuestRequestQuery) -> GuestRequests {
        {
            let mut queue = self.queue();
            if query.instance.as_deref() == Some(queue.instance.as_str()) {
                let confirmed = query.after.unwrap_or_default();
                queue.waiting.retain(|request| request.number > confirmed);
            }
        }
        // A timeout ends with an empty list, and the service asks again.
        let _ = tokio::time::timeout(MAX_WAIT, self.wait_for_requests()).await;
        let queue = self.queue();
        let requests = queue.waiting.iter().take(MAX_ANSWER).cloned().collect();
        GuestRequests { instance: queue.instance.clone(), none_expected: false, requests }
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
        let [one, two] = first.requests.iter().map(|request| request.number).collect::<Vec<_>>()[..] else {
            panic!()
        };
        assert!(one < two);
        let query = |instance: &str, after| GuestRequestQuery {
            instance: Some(instance.to_owned()),
            after: Some(after),
        };
        // The number of another agent confirms nothing.
        assert_eq!(outbox.read(&query("other", two)).await.requests.len(), 2);
        let rest = outbox.read(&query(&first.instance, one)).await;
        assert_eq!(rest.requests.iter().map(|request| request.number).collect::<Vec<_>>(), [two]);
        for _ in 1..MAX_WAITING {
            assert!(outbox.add(restart("c")));
        }
        assert!(!outbox.add(restart("d")));
        assert_eq!(outbox.read(&GuestRequestQuery::default()).await.requests.len(), MAX_ANSWER);
        // Another identity has none of them, and confirmations of the earlier one have no effect.
        outbox.renew();
        assert!(outbox.add(restart("e")));
        let renewed = outbox.read(&query(&first.instance, u64::MAX)).await;
        assert_eq!((renewed.requests.len(), renewed.instance == first.instance), (1, false));
    }

    #[tokio::test]
    async fn who_asked_gets_the_outcome() {
        let outbox = std::sync::Arc::new(Outbox::default());
        let instance = outbox.queue().instance.clone();
        let webhook =
            |at| GuestRequestKind::Webhook { trigger: "t".to_owned(), action: at, event: Value::Null };
        let finish = |number, instance: &str, error: Option<&str>| {
            let (instance, error) = (instance.to_owned(), error.map(ToOwned::to_owned));
            outbox.finish(number, GuestRequestOutcome { instance, error });
        };
        let (first, second, ()) =
            tokio::join!(outbox.request(webhook(0)), outbox.request(webhook(1)), async {
                tokio::task::yield_now().await;
                let numbers: Vec<u64> = outbox.queue().waiting.iter().map(|request| request.number).collect();
                finish(numbers[0], "another", Some("not this one"));
                finish(numbers[0], &instance, None);
                finish(numbers[0], &instance, Some("too late"));
                finish(numbers[1], &instance, Some("refused"));
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
