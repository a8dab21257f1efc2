//! MCP sessions of clients with protocol versions before 2026-07-28.
//!
//! A session is bound to the connection that opened it, A78 (docs/authentication-rules.md). It ends when it
//! is idle, when its account opens too many, or when its connection is revoked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

use hotdesk_base::ids::AccountId;
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::identity::access::{Caller, Credential};

/// Most sessions of one account; the least recently used is closed. An account has a handful of clients.
const MAX_PER_ACCOUNT: usize = 32;
/// Most sessions in total; each has two tasks and about 20 KB.
const MAX_SESSIONS: usize = 1024;
/// Idle timeout of a session without a stream for notifications: people think and models compute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Timeout of the end of one session. It takes one message to the session's worker; a worker that is stuck
/// must not delay the ends of other sessions.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);
/// Messages that wait in a session, each way. Clients send one at a time.
const WAITING: usize = 16;

/// Owner of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionOwner {
    account: AccountId,
    credential: Credential,
}

impl SessionOwner {
    pub(super) fn of(caller: &Caller) -> Self {
        Self { account: caller.account, credential: caller.credential }
    }
}

#[derive(Debug)]
struct OpenSession {
    owner: SessionOwner,
    used: Instant,
    /// Number of open streams for notifications. A client that only listens uses the session.
    streams: usize,
    /// Ends with the connection.
    lease: Lease<Credential>,
}

impl OpenSession {
    /// Whether its connection is revoked, or nobody has used it for long.
    fn has_ended(&self) -> bool {
        self.lease.is_revoked() || (self.streams == 0 && self.used.elapsed() > IDLE_TIMEOUT)
    }
}

/// All open sessions.
#[derive(Debug)]
pub(super) struct McpSessions {
    workers: LocalSessionManager,
    open: Mutex<HashMap<SessionId, OpenSession>>,
}

impl Default for McpSessions {
    fn default() -> Self {
        let mut config = SessionConfig::default();
        // A worker knows nothing of its open streams; [`McpSessions::close_ended`] ends idle sessions.
        config.keep_alive = None;
        config.channel_capacity = WAITING;
        let mut workers = LocalSessionManager::default();
        workers.session_config = config;
        Self { workers, open: Mutex::default() }
    }
}

impl McpSessions {
    /// Whether a session is open and has this owner. If so it counts as used now.
    pub(super) fn is_of(&self, id: &str, owner: SessionOwner) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let session = open.get_mut(id).filter(|session| session.owner == owner);
        session.map(|session| session.used = Instant::now()).is_some()
    }

    /// Registers a new session, and returns the sessions to close for it.
    fn note(
        &self,
        id: SessionId,
        owner: SessionOwner,
        lease: Lease<Credential>,
        now: Instant,
    ) -> Vec<SessionId> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(id, OpenSession { owner, used: now, streams: 0, lease });
        let of_account = open.values().filter(|session| session.owner.account == owner.account).count();
        let all = open.len();
        let mut gone = Vec::new();
        if of_account > MAX_PER_ACCOUNT {
            gone.extend(oldest(&open, |session| session.owner.account == owner.account));
        } else if all > MAX_SESSIONS {
            gone.extend(oldest(&open, |_| true));
        }
        open.retain(|id, _| !gone.contains(id));
        gone
    }

    fn forget(&self, id: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Ends the sessions of revoked connections, and their streams, and idle sessions.
    pub(super) async fn close_ended(&self) {
        let ended: Vec<SessionId> = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let ended = open.iter().filter(|(_, session)| session.has_ended());
            ended.map(|(id, _)| SessionId::clone(id)).collect()
        };
        for id in ended {
            if tokio::time::timeout(CLOSE_TIMEOUT, self.close(&id)).await.is_err() {
                tracing::warn!("an MCP session did not close in time");
            }
        }
    }

    async fn close(&self, id: &SessionId) {
        self.forget(id);
        if let Err(error) = self.workers.close_session(id).await {
            tracing::debug!(%error, "could not close a session that has ended already");
        }
    }
}

/// An open stream of a session for notifications.
struct OpenStream {
    all: Arc<McpSessions>,
    session: SessionId,
}

impl OpenStream {
    fn of(all: &Arc<McpSessions>, session: &SessionId) -> Self {
        let opened = Self { all: Arc::clone(all), session: SessionId::clone(session) };
        opened.note(|session| session.streams += 1);
        opened
    }

    /// Notes a use of the session, if it is still open.
    fn note(&self, change: impl FnOnce(&mut OpenSession)) {
        let mut open = self.all.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = open.get_mut(&self.session) {
            session.used = Instant::now();
            change(session);
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.note(|session| session.streams = session.streams.saturating_sub(1));
    }
}

fn oldest(open: &HashMap<SessionId, OpenSession>, among: impl Fn(&OpenSession) -> bool) -> Option<SessionId> {
    let among = open.iter().filter(|(_, session)| among(session));
    among.min_by_key(|(_, session)| session.used).map(|(id, _)| SessionId::clone(id))
}

/// Sessions as one owner sees them; those of others do not exist for it.
#[derive(Clone, Debug)]
pub(super) struct OwnedSessions {
    pub(super) all: Arc<McpSessions>,
    pub(super) owner: SessionOwner,
    /// Lease on the owner's connection, for new sessions.
    pub(super) lease: Lease<Credential>,
}

impl SessionManager for OwnedSessions {
    type Error = LocalSessionManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.all.workers.create_session().await?;
        let gone = self.all.note(SessionId::clone(&id), self.owner, self.lease.clone(), Instant::now());
        for gone in gone {
            self.all.close(&gone).await;
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.all.workers.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.all.is_of(id, self.owner))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.all.forget(id);
        self.all.workers.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.all.workers.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.all.workers.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.all.workers.create_standalone_stream(id).await?;
        let open = OpenStream::of(&self.all, id);
        Ok(stream.inspect(move |_| open.note(|_| ())))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.all.workers.resume(id, last_event_id).await?;
        let open = OpenStream::of(&self.all, id);
        Ok(stream.inspect(move |_| open.note(|_| ())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::GrantId;
    use hotdesk_base::revocation_registry::RevocationRegistry;

    fn lease(owner: SessionOwner) -> Lease<Credential> {
        RevocationRegistry::default().lease(owner.credential)
    }

    fn owner() -> SessionOwner {
        SessionOwner { account: AccountId::random(), credential: Credential::Grant(GrantId::random()) }
    }

    fn id(number: usize) -> SessionId {
        number.to_string().into()
    }

    #[test]
    fn a_session_belongs_to_one_connection() {
        let (sessions, one) = (McpSessions::default(), owner());
        sessions.note(id(1), one, lease(one), Instant::now());
        assert!(sessions.is_of("1", one) && !sessions.is_of("2", one) && !sessions.is_of("1", owner()));
        let same_account = SessionOwner { credential: Credential::Grant(GrantId::random()), ..one };
        assert!(!sessions.is_of("1", same_account));
        sessions.forget("1");
        assert!(!sessions.is_of("1", one));
    }

    #[test]
    fn the_oldest_session_of_the_same_account_is_closed() {
        let (sessions, one, began) = (McpSessions::default(), owner(), Instant::now());
        assert!(sessions.note(id(0), owner(), lease(one), began).is_empty());
        for number in 1..=MAX_PER_ACCOUNT {
            let at = began + Duration::from_secs(number as u64);
            assert!(sessions.note(id(number), one, lease(one), at).is_empty());
        }
        assert_eq!(sessions.note(id(99), one, lease(one), began + IDLE_TIMEOUT), [id(1)]);
        assert_eq!(sessions.open.lock().unwrap().len(), MAX_PER_ACCOUNT + 1);
    }

    #[test]
    fn all_sessions_are_bounded() {
        let (sessions, began) = (McpSessions::default(), Instant::now());
        let gone = (0..MAX_SESSIONS + 10).flat_map(|number| {
            let (owner, at) = (owner(), began + Duration::from_millis(number as u64));
            sessions.note(id(number), owner, lease(owner), at)
        });
        assert_eq!(gone.collect::<Vec<_>>(), (0..10).map(id).collect::<Vec<_>>());
        assert_eq!(sessions.open.lock().unwrap().len(), MAX_SESSIONS);
    }

    #[tokio::test]
    async fn the_sessions_of_a_connection_end_together() {
        let (sessions, registry) = (McpSessions::default(), RevocationRegistry::default());
        let (one, other) = (owner(), owner());
        for (number, owner) in [(1, one), (2, one), (3, other)] {
            sessions.note(id(number), owner, registry.lease(owner.credential), Instant::now());
        }
        registry.revoke(&one.credential);
        sessions.close_ended().await;
        assert!(!sessions.is_of("1", one) && !sessions.is_of("2", one) && sessions.is_of("3", other));
    }

    #[tokio::test]
    async fn an_idle_session_is_forgotten() {
        let (sessions, registry, one) = (McpSessions::default(), RevocationRegistry::default(), owner());
        let now = Instant::now();
        for (number, used) in [(1, now.checked_sub(3 * IDLE_TIMEOUT).unwrap()), (2, now)] {
            sessions.note(id(number), one, registry.lease(one.credential), used);
        }
        sessions.close_ended().await;
        assert!(!sessions.is_of("1", one) && sessions.is_of("2", one));
    }

    #[tokio::test]
    async fn a_client_that_only_listens_uses_its_session() {
        let (sessions, one) = (Arc::new(McpSessions::default()), owner());
        let registry = RevocationRegistry::default();
        let make_idle = || {
            let mut open = sessions.open.lock().unwrap();
            open.get_mut("1").unwrap().used = Instant::now().checked_sub(3 * IDLE_TIMEOUT).unwrap();
        };
        sessions.note(id(1), one, registry.lease(one.credential), Instant::now());
        let stream = OpenStream::of(&sessions, &id(1));
        make_idle();
        sessions.close_ended().await;
        assert!(sessions.open.lock().unwrap().contains_key("1"), "its stream is open");
        make_idle();
        drop(stream);
        sessions.close_ended().await;
        assert!(sessions.is_of("1", one), "the end of the stream is a use");
        make_idle();
        sessions.close_ended().await;
        assert!(!sessions.is_of("1", one));
    }
}
