//! Public API and fleet of computers (floor 6).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;

use hotdesk_base::ids::ComputerId;
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::tasks::Tasks;

use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::network::forwarded::TrustedProxies;
use hotdesk_engine::Engine;
use hotdesk_http::guarded_fetch::GuardedFetcher;
use hotdesk_http::socket::Sockets;
use hotdesk_store::Store;

pub mod api;
pub mod audit;
pub mod background;
pub mod computers;
pub mod config;
pub mod data_dir;
pub mod events;
pub mod idempotency;
pub mod identity;
pub mod mcp;
pub mod relay;
pub mod saved_state;
pub mod web;

use computers::fleet::Fleet;
use config::Config;
use data_dir::{blobs, files};
use identity::{accounts, auth, oauth};
use web::metrics;

/// State that all handlers share.
pub struct App {
    /// The configuration in force.
    pub config: Config,
    /// Database.
    pub store: Store,
    /// Computers and their runners.
    pub fleet: Fleet,
    /// Blobs in the data folder, and signed links to them.
    pub blobs: blobs::BlobStore,
    /// Request rate limit of each credential.
    pub rates: auth::rate::Rates,
    /// Recent wrong credentials by client address.
    pub wrong_credentials: web::failures::Failures<web::source::Source>,
    /// Look-up of computers and workspaces with access checks.
    pub directory: computers::directory::Directory,
    /// API keys.
    pub keys: auth::keys::Keys,
    /// Last use of each key, until it is stored.
    pub key_uses: auth::key_uses::KeyUses,
    /// The audit log.
    pub audit: audit::Log,
    /// Plans and their limits.
    pub plans: Plans,
    /// Rate limits and proof of work for accounts that AI agents create.
    pub agent_signup: accounts::agents::AgentSignup,
    /// Verifies signatures of billing events.
    pub billing: accounts::signature::Signatures,
    /// Trusted proxies (`X-Forwarded-For` is honoured from these addresses).
    pub trusted_proxies: TrustedProxies,
    /// Recent wrong computer passwords.
    pub wrong_passwords: auth::socket_auth::WrongPasswords,
    /// Recent sign-in attempts.
    pub sign_ins: auth::sign_ins::SignIns,
    /// Device approval requests.
    pub devices: auth::devices::Devices,
    /// Viewer tickets.
    pub tickets: auth::tickets::Tickets,
    /// Last activity report of each computer with auto-stop.
    pub activity: background::auto_stop::ActivityReports,
    /// Event hubs of the computers.
    pub events: events::Events,
    /// Authorization server state that is not in the database.
    pub oauth: oauth::OAuthState,
    /// WebSockets of live channels.
    pub sockets: Sockets,
    /// Open sockets by computer.
    pub channels: KeyedSemaphore<ComputerId>,
    /// Files that are being stored, by credential and by account.
    pub storing: KeyedSemaphore<files::StorageSlot>,
    /// Computers that are being stopped because their trial ended.
    pub ending_trials: KeyedSemaphore<ComputerId>,
    /// Requests with an `Idempotency-Key` that are in progress.
    pub running_requests: idempotency::RunningRequests,
    /// Bodies of such requests while they are received.
    pub body_buffers: idempotency::BodyBuffers,
    /// MCP sessions.
    pub mcp: mcp::Clients,
    /// Renders the metrics.
    pub metrics: metrics::Metrics,
    /// When the controller started.
    pub started: Instant,
    /// Background work.
    pub tasks: Tasks,
}

/// The state of all handlers.
pub type AppState = Arc<App>;

/// Controller that is ready to serve requests.
pub struct Controller {
    /// All routes.
    pub router: Router,
    /// The operator's first API key, if this start created it. The caller shows it once.
    pub first_key: Option<hotdesk_base::secret::Secret>,
    /// Whether the operator can still set a password at `/set-up`.
    pub set_up_open: bool,
    app: AppState,
}

impl Controller {
    /// Stores the waiting audit entries and key uses, and checkpoints the database. Call it after the drain.
    pub async fn close(self) {
        for written in [self.app.audit.write().await, self.app.key_uses.write().await] {
            if let Err(error) = written {
                tracing::error!(
                    %error,
                    "audit entries or key uses were lost: they could not be stored at shutdown"
                );
            }
        }
        self.app.store.close().await;
    }
}

/// Starts a controller: opens the store, creates the first account, adopts running computers, starts
/// background work. The caller holds the lock of the data folder.
///
/// # Errors
/// A text that names the cause: an invalid configuration, an unusable data folder, or a database that cannot
/// be opened.
pub async fn start(config: Config, engine: Arc<dyn Engine>, tasks: &Tasks) -> Result<Controller> {
    start_with(config, engine, tasks, GuardedFetcher::default()).await
}

/// Does the same as [`start`], with another fetcher for URLs that clients name.
///
/// # Errors
/// The errors of [`start`].
pub async fn start_with(
    config: Config,
    engine: Arc<dyn Engine>,
    tasks: &Tasks,
    guarded: GuardedFetcher,
) -> Result<Controller> {
    let trusted_proxies = config
        .trusted_proxies
        .parse()
        .map_err(|why| Error::internal(format!("configuration: trusted_proxies: {why}")))?;
    let store = Store::open(&config.data_dir.join("hotdesk.db")).await?;
    let signing = store.get_or_create_value("link_signing_secret", || {
        hotdesk_base::secret::Secret::random(43).reveal().to_owned()
    });
    let blobs = blobs::BlobStore::open(&config.data_dir, &signing.await?)?;
    let rates = auth::rate::Rates::new(&config.limits);
    let wrong_credentials = auth::wrong_credentials(&config.limits);
    let archive = saved_state::StateArchive::open(&config.storage, &engine, &store).await?.map(Arc::new);
    let fleet = Fleet::new(engine, store.clone(), blobs.clone(), tasks.clone(), &config.suspension, archive);
    let metrics = metrics::Metrics::install()?;
    let plans = config.plans();
    let agent_signup = accounts::agents::AgentSignup::new(&config.agent_accounts);
    let billing = accounts::signature::Signatures::open(&config.billing.webhook_secret_file)
        .map_err(|why| Error::internal(format!("configuration: {why}")))?;
    let events = events::Events::new(fleet.clone(), tasks.clone());
    let directory = computers::directory::Directory::new(store.clone(), fleet.clone());
    let audit = audit::Log::new(store.clone());
    let key_uses = auth::key_uses::KeyUses::new(store.clone());
    let keys = auth::keys::Keys::new(store.clone(), directory.clone(), audit.clone(), key_uses.clone());
    let app = Arc::new(App {
        directory,
        keys,
        config,
        store,
        fleet,
        blobs,
        rates,
        wrong_credentials,
        key_uses,
        audit,
        plans,
        agent_signup,
        billing,
        trusted_proxies,
        wrong_passwords: auth::socket_auth::wrong_passwords(),
        sign_ins: auth::sign_ins::SignIns::default(),
        devices: auth::devices::Devices::default(),
        tickets: auth::tickets::Tickets::default(),
        activity: background::auto_stop::ActivityReports::default(),
        events,
        oauth: oauth::OAuthState::new(guarded),
        sockets: Sockets::new(tasks.clone()),
        channels: KeyedSemaphore::default(),
        storing: KeyedSemaphore::default(),
        ending_trials: KeyedSemaphore::default(),
        running_requests: idempotency::RunningRequests::default(),
        body_buffers: idempotency::BodyBuffers::default(),
        mcp: mcp::Clients::default(),
        metrics,
        started: Instant::now(),
        tasks: tasks.clone(),
    });
    app.fleet.recover().await?;
    background::start(&app);
    // Last, because a start that fails must not create a key that nobody sees.
    let first_key = auth::keys::first_key(&app.store).await?;
    let set_up_open = first_key.is_some() || app.is_new().await?;
    Ok(Controller { router: api::router(Arc::clone(&app)), first_key, set_up_open, app })
}

/// Line that reports the listening address. People and tests read it.
pub fn listening_line(address: SocketAddr) -> String {
    format!("listening on http://{address}")
}
