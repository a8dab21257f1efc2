//! Subscriptions to screens: of a session, and of a request `subscriptions/listen`.
//!
//! ```text
//! resources/subscribe ---> task -------.
//! subscriptions/listen --> its request +-> change -> access check -> notifications/resources/updated,
//!                                      |                             one a second
//!                                      '-- ends with the session or the request, with the sender's access,
//!                                          by unsubscribe or a cancellation, at shutdown
//! ```

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{SubscriptionContext, SubscriptionSink};
use rmcp::{Peer, RoleServer};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tools::Call;
use crate::events::screens::{INTERVAL, ScreenChanges};
use crate::web::request_lease;
use hotdesk_base::ids::AccountId;
use hotdesk_base::keyed_semaphore::Permit;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Most subscriptions of one session or one request: a person looks at a few computers at once.
pub(super) const MAX_PER_SESSION: usize = 8;
/// Most subscriptions of one account; each has a task or a request, and makes the controller look at a screen
/// each second.
const MAX_PER_ACCOUNT: usize = 32;
/// Time after which access is checked without a change: the screen of a deleted computer has none, and its
/// subscription counts until it ends.
const ACCESS_INTERVAL: Duration = Duration::from_secs(60);

/// Subscriptions of one session, by address; cheap to clone. They end with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions(Arc<Mutex<Guards>>);

/// What ends each subscription when it is dropped.
type Guards = HashMap<String, DropGuard>;

fn too_many() -> Error {
    Error::rate_limited(1).code(ErrorCode::TooManyCalls)
}

/// Takes one of the subscriptions of the caller's account.
fn permit(call: &Call) -> Result<Permit<AccountId>> {
    let permit = call.app.mcp.subscriptions.try_acquire(call.caller.account, MAX_PER_ACCOUNT);
    permit.ok_or_else(too_many)
}

impl Subscriptions {
    /// Subscribes a client to a screen, once however often it asks. It returns when changes are told.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` for the computer; `RateLimited` (`too_many_calls`) for too many
    /// subscriptions.
    pub(super) async fn add(
        &self,
        call: Call,
        uri: String,
        computer: String,
        peer: Peer<RoleServer>,
    ) -> Result<()> {
        if self.lock().contains_key(&uri) {
            return call.app.directory.find_computer(&call.caller, &computer).await.map(|_| ());
        }
        let app = call.app.clone();
        let audience = Audience::Session(peer);
        let subscription = Subscription::begin(call, uri.clone(), computer, audience).await?;
        let ended = CancellationToken::new();
        {
            let mut all = self.lock();
            if all.contains_key(&uri) {
                // Another request was faster.
                return Ok(());
            }
            if all.len() >= MAX_PER_SESSION {
                return Err(too_many());
            }
            all.insert(uri.clone(), ended.clone().drop_guard());
        }
        // Weak, because the session's end must drop the guards.
        let (session, stopping) = (Arc::downgrade(&self.0), app.tasks.stopping());
        let _task = app.tasks.spawn("MCP subscription", async move {
            tokio::select! {
                () = ended.cancelled() => return,
                () = stopping.cancelled() => {}
                Err(error) = subscription.run() => {
                    tracing::debug!(error = format_args!("{error:#}"), "an MCP subscription has ended");
                }
            }
            if let Some(session) = session.upgrade().map(Self) {
                session.remove(&uri);
            }
        });
        Ok(())
    }

    /// Ends the subscription to an address, if there is one.
    pub(super) fn remove(&self, uri: &str) {
        self.lock().remove(uri);
    }

    fn lock(&self) -> MutexGuard<'_, Guards> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves the subscriptions of one request until it is cancelled or the service stops. `screens` has the
/// computers by the addresses of their screens. A request without any waits for its end, and counts as one
/// subscription.
///
/// # Errors
/// `NotFound` or `Forbidden` for a computer, also when access to it ends; `RateLimited` (`too_many_calls`)
/// for too many subscriptions.
pub(super) async fn listen(
    call: &Call,
    screens: BTreeMap<String, String>,
    context: &SubscriptionContext,
) -> Result<()> {
    let _permit = if screens.is_empty() { Some(permit(call)?) } else { None };
    let serving = async {
        let mut running = FuturesUnordered::new();
        for (uri, computer) in screens {
            let audience = Audience::Stream(context.sink().clone());
            // In a statement of its own: the set must not be borrowed while this waits.
            let begun = Subscription::begin(call.clone(), uri, computer, audience).await?;
            running.push(begun.run());
        }
        match running.next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    };
    let stopping = call.app.tasks.stopping();
    tokio::select! {
        () = context.cancelled() => Ok(()),
        () = stopping.cancelled() => Ok(()),
        Err(error) = serving => Err(error),
    }
}

/// Who is told of changes.
enum Audience {
    /// A session, which has a stream for notifications.
    Session(Peer<RoleServer>),
    /// The stream of a request.
    Stream(SubscriptionSink),
}

impl Audience {
    async fn notify(&self, uri: &str) -> Result<()> {
        match self {
            Self::Session(peer) => {
                let changed = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(changed).await.map_err(Error::internal)
            }
            Self::Stream(sink) => sink.notify_resource_updated(uri).await.map_err(Error::internal),
        }
    }
}

struct Subscription {
    call: Call,
    uri: String,
    computer: String,
    audience: Audience,
    changes: ScreenChanges,
    _permit: Permit<AccountId>,
}

impl Subscription {
    /// Begins to watch a screen.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` for the computer; `RateLimited` (`too_many_calls`) when the account has too
    /// many.
    async fn begin(call: Call, uri: String, computer: String, audience: Audience) -> Result<Self> {
        let found = call.app.directory.find_computer(&call.caller, &computer).await?;
        let permit = permit(&call)?;
        let size = found.hardware.resolution.size;
        let app = &call.app;
        let mut changes = app.screens.watch(&app.fleet, &app.tasks, found.id, size);
        match &audience {
            Audience::Session(_) => changes.begin().await,
            // The client may have read the screen since the acknowledgement, which came before this.
            Audience::Stream(_) => changes.begin_with_change(),
        }
        Ok(Self { call, uri, computer, audience, changes, _permit: permit })
    }

    /// Tells the client of changes, until it has gone or has lost access.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` when access has ended; `Internal` when the client has gone; `Unavailable`
    /// when the service stops.
    async fn run(mut self) -> Result<Infallible> {
        request_lease::belonging(async {
            // It also notes the membership on which this depends.
            self.call.app.directory.find_computer(&self.call.caller, &self.computer).await?;
            loop {
                let changed = timeout(ACCESS_INTERVAL, self.changes.next()).await;
                let found = self.call.app.directory.find_computer(&self.call.caller, &self.computer).await;
                let Ok(changed) = changed else {
                    match found {
                        Err(error) if matches!(error.kind, Kind::NotFound | Kind::Forbidden) => {
                            return Err(error);
                        }
                        // The store may answer again when there is something to tell.
                        Ok(_) | Err(_) => continue,
                    }
                };
                changed?;
                found?;
                self.audience.notify(&self.uri).await?;
                tokio::time::sleep(INTERVAL).await;
            }
        })
        .await
    }
}
