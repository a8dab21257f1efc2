//! Subscriptions of sessions to screens.
//!
//! ```text
//! resources/subscribe -> task: event hub -> access check -> notifications/resources/updated, one a second
//!                          ^-- ends with the session, with its sender's access, by unsubscribe, at shutdown
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::{Peer, RoleServer};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tools::Call;
use crate::events::HubListener;
use crate::web::request_lease;
use hotdesk_base::ids::AccountId;
use hotdesk_base::keyed_semaphore::Permit;
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Most subscriptions of one session: a person looks at a few computers at once.
const MAX_PER_SESSION: usize = 8;
/// Most subscriptions of one account; each has a task, and a listener at a computer's event hub.
const MAX_PER_ACCOUNT: usize = 32;
/// Time between two notifications of one screen: a client reads a picture for each.
const INTERVAL: Duration = Duration::from_secs(1);
/// Events after which a screen shows something else. Programs also paint without them.
const CHANGES: [EventKind; 5] = [
    EventKind::WindowFocus,
    EventKind::WindowOpen,
    EventKind::WindowClose,
    EventKind::TitleChange,
    EventKind::ScreenChange,
];

/// Subscriptions of one session, by address; cheap to clone. They end with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions(Arc<Mutex<Guards>>);

/// What ends each subscription when it is dropped.
type Guards = HashMap<String, DropGuard>;

impl Subscriptions {
    /// Subscribes a client to a screen, once however often it asks.
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
        let found = call.app.directory.find_computer(&call.caller, &computer).await?;
        let too_many = || Error::rate_limited(1).code(ErrorCode::TooManyCalls);
        let app = call.app.clone();
        let ended = CancellationToken::new();
        {
            let mut all = self.lock();
            if all.contains_key(&uri) {
                return Ok(());
            }
            if all.len() >= MAX_PER_SESSION {
                return Err(too_many());
            }
            let permit = app.mcp.subscriptions.try_acquire(call.caller.account, MAX_PER_ACCOUNT);
            let permit = permit.ok_or_else(too_many)?;
            let listener = app.events.listen(found.id, CHANGES.into_iter().collect());
            all.insert(uri.clone(), ended.clone().drop_guard());
            let subscription = Subscription { call, uri, computer, peer, listener, _permit: permit };
            // Weak, because the session's end must drop the guards.
            let (session, stopping) = (Arc::downgrade(&self.0), app.tasks.stopping());
            let _task = app.tasks.spawn("MCP subscription", async move {
                let uri = subscription.uri.clone();
                tokio::select! {
                    () = ended.cancelled() => return,
                    () = stopping.cancelled() => {}
                    () = subscription.run() => {}
                }
                if let Some(session) = session.upgrade().map(Self) {
                    session.remove(&uri);
                }
            });
        }
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

struct Subscription {
    call: Call,
    uri: String,
    computer: String,
    peer: Peer<RoleServer>,
    listener: HubListener,
    _permit: Permit<AccountId>,
}

impl Subscription {
    /// Notifies the client of changes, until it has gone or has lost access.
    async fn run(self) {
        let ended = request_lease::belonging(async {
            loop {
                self.listener.next().await;
                // What happened until now is one change.
                while self.listener.next().now_or_never().is_some() {}
                self.call.app.directory.find_computer(&self.call.caller, &self.computer).await?;
                let changed = ResourceUpdatedNotificationParam::new(self.uri.clone());
                self.peer.notify_resource_updated(changed).await.map_err(Error::internal)?;
                tokio::time::sleep(INTERVAL).await;
            }
        });
        let Err::<Infallible, _>(error) = ended.await;
        tracing::debug!(error = format_args!("{error:#}"), "an MCP subscription has ended");
    }
}
