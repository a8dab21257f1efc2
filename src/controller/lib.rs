//! Floor 6: the public API and the fleet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;

use hotdesk_base::ids::ComputerId;
use hotdesk_base::tally::Tally;
use hotdesk_base::tasks::Tasks;

use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::forwarded::TrustedProxies;
use hotdesk_domain::plan::Plans;
use hotdesk_engine::Engine;
use hotdesk_http::guarded::Guarded;
use hotdesk_http::socket::Sockets;
use hotdesk_store::Store;

pub mod accounts;
pub mod api;
pub mod audit;
pub mod auth;
pub mod background;
pub mod computers;
pub mod config;
pub mod console;
pub mod events;
pub mod files;
pub mod hosts;
pub mod idempotent;
pub mod lock;
pub mod mcp;
pub mod metrics;
pub mod oauth;
pub mod origin;
pub mod people;
pub mod readable;
pub mod relay;
pub mod saved;
pub mod storage;
pub mod viewer;

use computers::fleet::Fleet;
use config::Config;

/// What every handler can reach.
pub struct App {
    /// The configuration in force.
    pub config: Config,
    /// What is remembered.
    pub store: Store,
    /// The computers and their runners.
    pub fleet: Fleet,
    /// Stored bytes and the links to them.
    pub storage: storage::Storage,
    /// Requests per credential.
    pub rates: auth::rate::Rates,
    /// Wrong credentials of late.
    pub guesses: auth::failures::Failures<auth::source::Source>,
    /// When keys were last used.
    pub usage: auth::usage::Usage,
    /// What was done, on its way into the log.
    pub audit: audit::Log,
    /// What the plans give.
    pub plans: Plans,
    /// Who may make an agent's account, and how often.
    pub agents: accounts::agents::Door,
    /// Who may say what is paid.
    pub billing: accounts::signature::Signatures,
    /// Proxies that are believed about whom they speak for.
    pub trusted_proxies: TrustedProxies,
    /// Wrong passwords of computers of late.
    pub failures: auth::door::WrongPasswords,
    /// Wrong passwords of accounts of late.
    pub sign_ins: auth::sign_ins::SignIns,
    /// Programs that ask for a key that a person approves.
    pub devices: auth::devices::Devices,
    /// Tickets to screens.
    pub tickets: auth::tickets::Tickets,
    /// Which computers are idle.
    pub looks: background::idle::Looks,
    /// What happens on the computers, for those who listen.
    pub events: events::Events,
    /// MCP clients, as far as they are not in the store.
    pub oauth: oauth::Room,
    /// The sockets of live channels.
    pub sockets: Sockets,
    /// How many of them each computer has.
    pub channels: Tally<ComputerId>,
    /// How many files each credential, and each account, is storing: uploads and exports apart.
    pub storing: Tally<files::Storing>,
    /// Computers that are being ended because their trial is over.
    pub ending: Tally<ComputerId>,
    /// Requests that are being carried out under an `Idempotency-Key`.
    pub running: idempotent::Running,
    /// What such requests bring, until it is all there.
    pub spools: idempotent::Spools,
    /// Clients that speak MCP.
    pub mcp: mcp::Clients,
    /// Renders the metrics.
    pub metrics: metrics::Metrics,
    /// When the controller started.
    pub started: Instant,
    /// Background work.
    pub tasks: Tasks,
}

/// The state of all handlers.
pub type Shared = Arc<App>;

/// A controller that is ready to serve.
pub struct Ready {
    /// All its routes.
    pub router: Router,
    /// The first key, when this start made it; shown once by the caller.
    pub first_key: Option<hotdesk_base::secret::Secret>,
    /// Whether `/set-up` still waits for whoever has that key.
    pub set_up_open: bool,
    app: Shared,
}

impl Ready {
    /// Ends what the handlers cannot: after the drain, writes down what waits for it and folds the store's log.
    pub async fn close(self) {
        for written in [self.app.write_audit().await, self.app.write_usage().await] {
            if let Err(error) = written {
                tracing::error!(%error, "what was to be written down at the end is lost");
            }
        }
        self.app.store.close().await;
    }
}

/// Brings a controller up: the store, the first account, adoption of what runs, background work. The caller holds the
/// data folder's lock.
///
/// # Errors
/// When the data folder cannot be used or the store fails.
pub async fn start(config: Config, engine: Arc<dyn Engine>, tasks: &Tasks) -> Result<Ready> {
    start_with(config, engine, tasks, Guarded::default()).await
}

/// As [`start`], with another way to fetch what clients name.
///
/// # Errors
/// As [`start`].
pub async fn start_with(
    config: Config,
    engine: Arc<dyn Engine>,
    tasks: &Tasks,
    guarded: Guarded,
) -> Result<Ready> {
    let trusted_proxies = config
        .trusted_proxies
        .parse()
        .map_err(|why| Error::internal(format!("configuration: trusted_proxies: {why}")))?;
    let store = Store::open(&config.data_dir.join("hotdesk.db")).await?;
    let signing =
        store.keep("link_signing_secret", || hotdesk_base::secret::Secret::random(43).reveal().to_owned());
    let storage = storage::Storage::open(&config.data_dir, &signing.await?)?;
    let spools = idempotent::Spools::new(config.data_dir.clone(), storage.clone());
    let rates = auth::rate::Rates::new(&config.limits);
    let guesses = auth::guesses(&config.limits);
    let keeper = saved::Keeper::open(&config.storage, &engine, &store).await?.map(Arc::new);
    let fleet = Fleet::new(engine, store.clone(), storage.clone(), tasks.clone(), &config.suspension, keeper);
    let metrics = metrics::Metrics::install()?;
    let plans = config.plans();
    let agents = accounts::agents::Door::new(&config.agent_accounts);
    let billing = accounts::signature::Signatures::open(&config.billing.webhook_secret_file)
        .map_err(|why| Error::internal(format!("configuration: {why}")))?;
    let events = events::Events::new(fleet.clone(), tasks.clone());
    let app = Arc::new(App {
        config,
        store,
        fleet,
        storage,
        rates,
        guesses,
        usage: auth::usage::Usage::default(),
        audit: audit::Log::default(),
        plans,
        agents,
        billing,
        trusted_proxies,
        failures: auth::door::wrong_passwords(),
        sign_ins: auth::sign_ins::SignIns::default(),
        devices: auth::devices::Devices::default(),
        tickets: auth::tickets::Tickets::default(),
        looks: background::idle::Looks::default(),
        events,
        oauth: oauth::Room::new(guarded),
        sockets: Sockets::new(tasks.clone()),
        channels: Tally::default(),
        storing: Tally::default(),
        ending: Tally::default(),
        running: idempotent::Running::default(),
        spools,
        mcp: mcp::Clients::default(),
        metrics,
        started: Instant::now(),
        tasks: tasks.clone(),
    });
    app.fleet.recover().await?;
    background::start(&app);
    // Last: a start that fails must not have made a key that nobody was shown.
    let first_key = auth::keys::first_key(&app.store).await?;
    let set_up_open = first_key.is_some() || app.is_new().await?;
    Ok(Ready { router: api::router(Arc::clone(&app)), first_key, set_up_open, app })
}

/// The line that says where a controller listens, for people and for tests.
pub fn listening_line(address: SocketAddr) -> String {
    format!("listening on http://{address}")
}
