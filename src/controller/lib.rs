//! Public API and fleet of computers (floor 6).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::HeaderName;

use hotdesk_base::ids::ComputerId;
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::secret::Secret;
use hotdesk_base::tasks::Tasks;

use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::network::forwarded::TrustedProxies;
use hotdesk_engine::Engine;
use hotdesk_http::guarded_fetch::GuardedFetcher;
use hotdesk_http::socket::Sockets;
use hotdesk_model::catalog::ModelCatalog;
use hotdesk_store::Store;
use hotdesk_store::database::{Access, Epoch};

pub mod api;
pub mod audit;
pub mod background;
pub mod chat;
pub mod computers;
pub mod config;
pub mod data_dir;
pub mod events;
pub mod identity;
pub mod mcp;
pub mod relay;
pub mod saved_state;
pub mod web;

use background::auto_stop::AutoStopper;
use background::host_report::HostReports;
use background::trials::Trials;
use chat::runs::{RunServices, Runs};
use chat::threads::Threads;
use computers::directory::Directory;
use computers::fleet::{Fleet, PreparedDesktops};
use computers::hosts::ComputerHosts;
use computers::rtmp::stream_connections::StreamConnections;
use computers::rtmp::streams::RtmpStreams;
use computers::templates::Templates;
use computers::templates::triggers::webhooks::Webhooks;
use config::Config;
use data_dir::blobs::BlobStore;
use data_dir::downloads::DownloadCaches;
use data_dir::files;
use events::live::LiveRecords;
use events::screens::ScreenWatches;
use identity::accounts::agents::AgentSignup;
use identity::accounts::billing::AccountBilling;
use identity::accounts::clients::Clients;
use identity::accounts::signature::Signatures;
use identity::auth::Authenticator;
use identity::auth::credential_uses::CredentialUses;
use identity::auth::devices::Devices;
use identity::auth::keys::{self, Keys};
use identity::auth::known_browsers::KnownBrowsers;
use identity::auth::pending_sign_ins::PendingSignIns;
use identity::auth::rate::Rates;
use identity::auth::session::Sessions;
use identity::auth::sign_ins::SignIns;
use identity::auth::socket_auth::SocketAuth;
use identity::auth::ssh_keys::SshKeys;
use identity::auth::tickets::{Ticket, Tickets};
use identity::auth::wrong_credentials::WrongCredentials;
use identity::console_tokens::ConsoleTokens;
use identity::mail::Mailer;
use identity::mail::addresses::Addresses;
use identity::oauth::AuthorizationServer;
use identity::oauth::tokens::Grants;
use identity::oidc::OidcSignIn;
use identity::passkeys::Passkeys;
use identity::people::invitations::Invitations;
use identity::people::members::Members;
use identity::people::operator::Operator;
use identity::people::second_factors::SecondFactors;
use identity::people::sign_in_links::SignInLinks;
use identity::people::workspaces::Workspaces;
use identity::secrets::Secrets;
use relay::output_readers::OutputReaders;
use relay::peers::shared_folders;
use relay::ports::field_lists;
use relay::ports::links::PortTickets;
use web::hosts::Hosts;
use web::metrics::{Metrics, MetricsAccess};
use web::source::Source;
use web::unread_answers::UnreadAnswers;

/// Services and state that all handlers share.
pub struct App {
    /// The configuration in force.
    pub config: Config,
    /// Database.
    pub store: Store,
    /// Blobs in the data folder, and signed links to them.
    pub blobs: BlobStore,
    /// Plans and their limits.
    pub plans: Plans,
    /// Background work.
    pub tasks: Tasks,
    /// Renders the metrics.
    pub metrics: Metrics,
    /// Who may read them.
    pub metrics_access: MetricsAccess,
    /// When the controller started.
    pub started: Instant,
    /// The audit log.
    pub audit: audit::Log,

    /// Computers and their runners.
    pub fleet: Fleet,
    /// Look-up of computers and workspaces with access checks.
    pub directory: Directory,
    /// Ends of RTMP streams whose owner lost access.
    pub streams: RtmpStreams,
    /// Saved RTMP connections.
    pub stream_connections: StreamConnections,
    /// Templates and their builds.
    pub templates: Templates,
    /// Signing of webhooks.
    pub webhooks: Webhooks,
    /// Runs of language models on computers.
    pub runs: Runs,
    /// Chat threads.
    pub threads: Threads,
    /// Stops of idle computers.
    pub auto_stop: AutoStopper,
    /// Ends of trials.
    pub trials: Trials,

    /// Clients that may pause while they read output of processes.
    pub output_readers: OutputReaders,
    /// Bytes of answers that clients have not read yet.
    pub unread_answers: UnreadAnswers,
    /// Trusted proxies (`X-Forwarded-For` is honoured from these addresses).
    pub trusted_proxies: TrustedProxies,
    /// Host names and origins of the service.
    pub hosts: Hosts,
    /// Identification of callers.
    pub authenticator: Authenticator,
    /// Request rate limit of each credential.
    pub rates: Arc<Rates>,
    /// Recent wrong credentials by client address.
    pub wrong_credentials: WrongCredentials,
    /// API keys.
    pub keys: Keys,
    /// Public SSH keys.
    pub ssh_keys: SshKeys,
    /// Secrets of accounts and workspaces for their computers.
    pub secrets: Secrets,
    /// Last use of each key and session.
    pub credential_uses: CredentialUses,
    /// Browser sessions.
    pub sessions: Sessions,
    /// Tokens by which pages of the console use the API.
    pub console_tokens: Arc<ConsoleTokens>,
    /// Links that sign a browser in.
    pub sign_in_links: SignInLinks,
    /// Recent sign-in attempts.
    pub sign_ins: SignIns,
    /// Marks of browsers in which people signed in before.
    pub known_browsers: KnownBrowsers,
    /// Sign-in by the operator's OpenID Connect provider.
    pub oidc: OidcSignIn,
    /// Passkeys of people.
    pub passkeys: Passkeys,
    /// Second factors of people.
    pub second_factors: SecondFactors,
    /// Sign-ins that wait for a second factor.
    pub pending_sign_ins: PendingSignIns,
    /// Device approval requests.
    pub devices: Devices,
    /// Authentication of live channels.
    pub socket_auth: SocketAuth,
    /// Viewer tickets.
    pub tickets: Arc<Tickets<Ticket>>,
    /// Tickets of links to ports.
    pub port_tickets: PortTickets,
    /// Ports that browsers were let into by such links.
    pub port_grants: PortTickets,
    /// OAuth authorization server.
    pub oauth: AuthorizationServer,
    /// Connections of MCP clients.
    pub grants: Grants,

    /// Account of the operator.
    pub operator: Operator,
    /// Hosts of computers.
    pub computer_hosts: ComputerHosts,
    /// Reports of the host for the operator.
    pub host_reports: HostReports,
    /// Clients of operators.
    pub clients: Clients,
    /// Sign-up of AI agents.
    pub agent_signup: AgentSignup,
    /// Terms of accounts by their plans.
    pub billing: AccountBilling,
    /// Verifies signatures of billing events.
    pub signatures: Signatures,
    /// Workspaces.
    pub workspaces: Workspaces,
    /// Members of workspaces.
    pub members: Members,
    /// Invitations to workspaces.
    pub invitations: Invitations,
    /// Verification of e-mail addresses.
    pub addresses: Arc<Addresses>,

    /// Event hubs of the computers.
    pub events: events::Events,
    /// Watches of screens, for all who are told of their changes.
    pub screens: ScreenWatches,
    /// Live records for pages of the console.
    pub live: LiveRecords,
    /// WebSockets of live channels.
    pub sockets: Sockets,
    /// Open sockets by computer.
    pub channels: KeyedSemaphore<ComputerId>,
    /// Header fields that pass to and from ports besides those of the lists (`web.port_fields`).
    pub port_fields: Vec<HeaderName>,
    /// Requests to ports that are in progress, by computer.
    pub port_requests: KeyedSemaphore<ComputerId>,
    /// Those without a key, by computer and client address.
    pub port_strangers: KeyedSemaphore<(ComputerId, Source)>,
    /// Files that are being stored, by credential and by account.
    pub storing: KeyedSemaphore<files::StorageSlot>,
    /// Requests with an `Idempotency-Key` that are in progress.
    pub running_requests: api::idempotency::RunningRequests,
    /// Key of the stored fingerprints of such requests.
    pub fingerprint_key: Secret,
    /// Bodies of such requests while they are received.
    pub body_buffers: api::idempotency::BodyBuffers,
    /// MCP sessions.
    pub mcp: mcp::McpClients,
    /// Language models.
    pub models: ModelCatalog,
}

/// The state of all handlers.
pub type AppState = Arc<App>;

/// Controller that is ready to serve requests.
pub struct Controller {
    /// All routes.
    pub router: Router,
    /// The operator's first API key, if this start created it. The caller shows it once.
    pub first_key: Option<Secret>,
    /// Whether the operator can still set a password at `/set-up`.
    pub set_up_open: bool,
    app: AppState,
}

impl Controller {
    /// Stores the waiting audit entries and uses of credentials, takes the keys of encrypted computers that do not run from the
    /// host, and checkpoints the database. Call it after the drain.
    pub async fn close(self) {
        for written in [self.app.audit.write().await, self.app.credential_uses.write().await] {
            if let Err(error) = written {
                tracing::error!(
                    error = format_args!("{error:#}"),
                    "audit entries or uses of credentials were lost: they could not be stored at shutdown"
                );
            }
        }
        self.app.fleet.file_keys().remove_unused().await;
        self.app.store.close().await;
    }
}

/// Webhooks that are sent concurrently; each may wait ten seconds for a slow receiver.
const MAX_CONCURRENT_WEBHOOKS: usize = 64;

/// Starts a controller: opens the store, creates the first account, adopts running computers, starts
/// background work. The caller holds the lock of the data folder.
///
/// # Errors
/// A text that names the cause: an invalid configuration, an unusable data folder, or a database that cannot
/// be opened.
pub async fn start(config: Config, engine: Arc<dyn Engine>, tasks: &Tasks) -> Result<Controller> {
    start_with(config, engine, tasks, GuardedFetcher::default()).await
}

/// Does the same as [`start`], for one of several controllers over its database, which holds the lease in this epoch.
///
/// # Errors
/// The errors of [`start`], and `Internal` when the folder of stored files is not that of the other controllers.
pub async fn start_leading(
    config: Config,
    engine: Arc<dyn Engine>,
    tasks: &Tasks,
    epoch: Epoch,
) -> Result<Controller> {
    start_as(config, engine, tasks, GuardedFetcher::default(), Access::Leader(epoch)).await
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
    start_as(config, engine, tasks, guarded, Access::Exclusive).await
}

async fn start_as(
    config: Config,
    engine: Arc<dyn Engine>,
    tasks: &Tasks,
    guarded: GuardedFetcher,
    access: Access,
) -> Result<Controller> {
    let trusted_proxies = config
        .trusted_proxies
        .parse()
        .map_err(|why| Error::internal(format!("configuration: trusted_proxies: {why}")))?;
    let hosts = Hosts::new(&config)?;
    let store = config.open_store(access).await?;
    config.check_new_store(&store).await?;
    let signing = store.installation_secret("link_signing_secret", || Secret::random(43)).await?;
    let fingerprint_key = store.installation_secret("fingerprint_key", || Secret::random(43)).await?;
    let webhook_secret = store.installation_secret("webhook_secret", || Secret::random(43)).await?;
    let browser_secret = store.installation_secret("known_browser_secret", || Secret::random(43)).await?;
    let webhook_fetcher = guarded.separate(MAX_CONCURRENT_WEBHOOKS);
    let blobs = BlobStore::open(&config.store_dir(), signing.reveal())?;
    if matches!(access, Access::Leader(_)) {
        shared_folders::settle_blobs(&config, &store).await?;
    }
    let downloads = DownloadCaches::open(&config.store_dir())?;
    let offers = engine.offers();
    let only = (offers.all().count() == 1).then(|| offers.default().isolation);
    store.adopt_isolation(only).await?;
    config.timeline.check()?;
    let archive = saved_state::StateArchive::open(&config.storage, &engine, &store).await?.map(Arc::new);
    let (sizes, limits) = config.pool.parse(engine.offers())?;
    let prepared = if config.encryption.computers {
        // Their machines belong to no workspace, so no key would encrypt them.
        PreparedDesktops::new(0, Vec::new(), limits)
    } else {
        PreparedDesktops::new(config.boot_snapshots.keep, sizes, limits)
    };
    let fleet = Fleet::new(engine, store.clone(), blobs.clone(), tasks.clone(), &config, archive, prepared);
    if config.encryption.computers {
        fleet.file_keys().check_host()?;
    }
    let metrics = Metrics::install()?;
    let metrics_access = MetricsAccess::open(&config.web.metrics_key_file)?;
    let signatures = Signatures::open(&config.billing.webhook_secret_file)?;
    let plans = config.plans();
    let audit = audit::Log::new(store.clone());
    let directory = Directory::new(store.clone(), fleet.clone());
    let streams = RtmpStreams::new(store.clone(), fleet.clone(), tasks.clone());
    let rates = Arc::new(Rates::new(&config.limits));
    let credential_uses = CredentialUses::new(store.clone());
    let tickets = Arc::new(Tickets::default());
    let console_tokens = Arc::new(ConsoleTokens::default());
    let addresses = Arc::new(Addresses::new(store.clone(), Mailer::open(&config, tasks)?));
    let secrets = Secrets::new(store.clone(), directory.clone(), fleet.clone(), audit.clone());
    let threads = Threads::new(store.clone(), directory.clone(), blobs.clone());
    let models = config.models.catalog()?;
    let started = Instant::now();
    let (events, screens) = (events::Events::new(fleet.clone(), tasks.clone()), ScreenWatches::default());
    let app = Arc::new(App {
        stream_connections: StreamConnections::new(store.clone(), config.streaming.allow_private),
        auto_stop: AutoStopper::new(store.clone(), fleet.clone(), tasks.clone(), config.auto_stop),
        templates: Templates::new(
            store.clone(),
            fleet.clone(),
            plans.clone(),
            downloads,
            config.limits.build_timeout(),
        ),
        webhooks: Webhooks::new(webhook_secret, config.webhooks.allow_private),
        trials: Trials::new(store.clone(), fleet.clone(), tasks.clone()),
        threads: threads.clone(),
        sockets: Sockets::new(tasks.clone()).with_origins(hosts.origins()),
        hosts,
        authenticator: Authenticator::new(
            store.clone(),
            credential_uses.clone(),
            Arc::clone(&rates),
            Arc::clone(&console_tokens),
        ),
        wrong_credentials: WrongCredentials::new(&config.limits),
        keys: Keys::new(store.clone(), directory.clone(), audit.clone(), credential_uses.clone()),
        ssh_keys: SshKeys::new(store.clone(), audit.clone()),
        secrets: secrets.clone(),
        runs: Runs::new(RunServices {
            store: store.clone(),
            directory: directory.clone(),
            fleet: fleet.clone(),
            secrets,
            threads,
            catalog: models.clone(),
            tasks: tasks.clone(),
        }),
        sessions: Sessions::new(store.clone(), &config.public_url, credential_uses.clone()),
        sign_in_links: SignInLinks::new(store.clone(), directory.clone()),
        sign_ins: SignIns::default(),
        known_browsers: KnownBrowsers::new(&browser_secret, &config.public_url)?,
        oidc: OidcSignIn::new(store.clone(), &config)?,
        passkeys: Passkeys::new(store.clone()),
        second_factors: SecondFactors::new(store.clone()),
        pending_sign_ins: PendingSignIns::default(),
        devices: Devices::new(store.clone()),
        socket_auth: SocketAuth::new(store.clone(), Arc::clone(&tickets)),
        oauth: AuthorizationServer::new(store.clone(), guarded),
        grants: Grants::new(store.clone()),
        operator: Operator::new(store.clone()),
        computer_hosts: ComputerHosts::new(store.clone(), fleet.clone()),
        host_reports: HostReports::new(store.clone(), fleet.clone(), tasks.clone(), &config, started),
        clients: Clients::new(store.clone(), fleet.clone(), blobs.clone()),
        agent_signup: AgentSignup::new(store.clone(), &config.agent_accounts),
        billing: AccountBilling::new(store.clone(), plans.clone()),
        workspaces: Workspaces::new(store.clone(), plans.clone(), fleet.clone(), blobs.clone()),
        members: Members::new(store.clone(), directory.clone(), streams.clone()),
        invitations: Invitations::new(
            store.clone(),
            directory.clone(),
            plans.clone(),
            Arc::clone(&addresses),
        ),
        addresses,
        live: LiveRecords::new(
            store.clone(),
            directory.clone(),
            fleet.clone(),
            tasks.clone(),
            events.clone(),
            screens.clone(),
        ),
        events,
        screens,
        channels: KeyedSemaphore::default(),
        port_fields: field_lists::parse_configured(&config.web.port_fields)?,
        port_requests: KeyedSemaphore::default(),
        port_strangers: KeyedSemaphore::default(),
        port_tickets: PortTickets::default(),
        port_grants: PortTickets::default(),
        storing: KeyedSemaphore::default(),
        output_readers: OutputReaders::default(),
        unread_answers: UnreadAnswers::default(),
        running_requests: api::idempotency::RunningRequests::default(),
        fingerprint_key,
        body_buffers: api::idempotency::BodyBuffers::default(),
        mcp: mcp::McpClients::default(),
        models,
        started,
        tasks: tasks.clone(),
        config,
        store,
        blobs,
        plans,
        metrics,
        metrics_access,
        audit,
        fleet,
        directory,
        streams,
        trusted_proxies,
        rates,
        credential_uses,
        console_tokens,
        tickets,
        signatures,
    });
    app.fleet.recover().await?;
    app.templates.recover().await?;
    app.threads.recover().await?;
    app.fleet.timelines().recover().await?;
    app.fleet.snapshot_pictures().recover().await?;
    app.webhooks.start(&app.templates, webhook_fetcher, tasks);
    background::start(&app);
    // Last, because a start that fails must not create a key that nobody sees.
    let first_key = keys::first_key(&app.store).await?;
    let set_up_open = first_key.is_some() || app.operator.is_new().await?;
    let router = api::router(Arc::clone(&app), mcp::router(Arc::clone(&app)));
    Ok(Controller { router, first_key, set_up_open, app })
}

/// Line that reports the listening address. People and tests read it.
pub fn listening_line(scheme: &str, address: SocketAddr) -> String {
    format!("listening on {scheme}://{address}")
}
