//! Floor 6: the public API and the fleet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;

use crate::base::ids::ComputerId;
use crate::base::tally::Tally;
use crate::base::tasks::Tasks;

use crate::domain::error::{Error, Result};
use crate::domain::forwarded::TrustedProxies;
use crate::engine::Engine;
use crate::http::socket::Sockets;
use crate::store::Store;

pub mod api;
pub mod auth;
pub mod background;
pub mod computers;
pub mod config;
pub mod events;
pub mod files;
pub mod lock;
pub mod metrics;
pub mod origin;
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
    /// Requests per key.
    pub limiter: auth::Limiter,
    /// Proxies that are believed about whom they speak for.
    pub trusted_proxies: TrustedProxies,
    /// Wrong passwords of late.
    pub failures: auth::door::Failures,
    /// Tickets to screens.
    pub tickets: auth::tickets::Tickets,
    /// Which computers are idle.
    pub looks: background::idle::Looks,
    /// What happens on the computers, for those who listen.
    pub events: events::Events,
    /// The sockets of live channels.
    pub sockets: Sockets,
    /// How many of them each computer has.
    pub channels: Tally<ComputerId>,
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
    pub first_key: Option<crate::base::secret::Secret>,
    app: Shared,
}

impl Ready {
    /// Ends what the handlers cannot: after the drain, folds the store's log.
    pub async fn close(self) {
        self.app.store.close().await;
    }
}

/// Brings a controller up: the store, the first account, adoption of what runs, background work. The caller holds the
/// data folder's lock.
///
/// # Errors
/// When the data folder cannot be used or the store fails.
pub async fn start(config: Config, engine: Arc<dyn Engine>, tasks: &Tasks) -> Result<Ready> {
    let trusted_proxies = config
        .trusted_proxies
        .parse()
        .map_err(|why| Error::internal(format!("configuration: trusted_proxies: {why}")))?;
    let store = Store::open(&config.data_dir.join("hotdesk.db")).await?;
    let signing =
        store.keep("link_signing_secret", || crate::base::secret::Secret::random(43).reveal().to_owned());
    let storage = storage::Storage::open(&config.data_dir, &signing.await?)?;
    let limiter = auth::limiter(&config.limits);
    let keeper = saved::Keeper::open(&config.storage, &engine, &store).await?.map(Arc::new);
    let fleet = Fleet::new(engine, store.clone(), storage.clone(), tasks.clone(), &config.suspension, keeper);
    let metrics = metrics::Metrics::install()?;
    let events = events::Events::new(fleet.clone(), tasks.clone());
    let app = Arc::new(App {
        config,
        store,
        fleet,
        storage,
        limiter,
        trusted_proxies,
        failures: auth::door::Failures::default(),
        tickets: auth::tickets::Tickets::default(),
        looks: background::idle::Looks::default(),
        events,
        sockets: Sockets::new(tasks.clone()),
        channels: Tally::default(),
        metrics,
        started: Instant::now(),
        tasks: tasks.clone(),
    });
    app.fleet.recover().await?;
    background::start(&app);
    // Last: a start that fails must not have made a key that nobody was shown.
    let first_key = auth::keys::first_key(&app.store).await?;
    Ok(Ready { router: api::router(Arc::clone(&app)), first_key, app })
}

/// The line that says where a controller listens, for people and for tests.
pub fn listening_line(address: SocketAddr) -> String {
    format!("listening on http://{address}")
}
