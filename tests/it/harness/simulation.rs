//! In-process controller over simulated machines: real HTTP, a real store, and agents whose routes a test
//! chooses.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hotdesk::base::clock;
use hotdesk::base::ids::{AccountId, WorkspaceId};
use hotdesk::base::tasks::Tasks;
use hotdesk::controller;
use hotdesk::controller::config::{
    AutoStopTiming, BootSnapshotSettings, Config, Limits, PoolSettings, StorageSettings, StoreSettings,
    Suspension, TimelineSettings,
};
use hotdesk::controller::identity::auth::keys;
use hotdesk::engine::simulated::{AgentBoot, AgentFactory, Fault, SimulatedEngine, SimulatedHost};
use hotdesk::engine::{Capabilities, MachineSpec, Offers};
use hotdesk::http::guarded_fetch::{GuardedFetcher, Trust};
use hotdesk::http::serve::{BoundListener, Listen, bind, serve};
use hotdesk::store::Store;
use hotdesk::store::database::Access;
use hotdesk::store::identity::accounts::NewKey;
use hotdesk::store::identity::people::Account;
use hotdesk_capability::postgres::PostgresServer;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::UnixListener;

use super::caller::{Caller, HttpAnswer, id_of};
use super::host::names_in;
use super::picture::PNG_HEADER;

/// Longest time for the tasks of a controller to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time of a status change, on a busy machine.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of a controller and its engine.
#[derive(Clone)]
pub struct Setup {
    /// Capabilities that the engine reports; `None` reports all.
    pub capabilities: Option<Capabilities>,
    /// Isolations that the engine offers; `None` is one, with `capabilities`.
    pub offers: Option<Offers>,
    /// Whether a read resumes a suspended computer.
    pub reads_wake: bool,
    /// How long an action waits for a computer that resumes.
    pub wake_wait_seconds: u32,
    /// Most boot snapshots; a test that counts the engine's calls has none.
    pub boot_snapshots: u32,
    pub limits: Limits,
    pub pace: AutoStopTiming,
    pub storage: StorageSettings,
    /// Trust of outgoing fetches to client-chosen URLs; `None` is the default.
    pub trust: Option<Trust>,
    /// Wraps the controller's routes; gets its own store on the same database.
    pub wrap_router: Option<fn(Router, Store) -> Router>,
    /// Address on which the controller listens, on a free port.
    pub listen: IpAddr,
    /// Whether the controller fetches timelines from agents. Scripted agents that count requests get none.
    pub timelines: bool,
    /// All other settings.
    pub config: Config,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            capabilities: None,
            offers: None,
            reads_wake: true,
            wake_wait_seconds: Suspension::default().wake_wait_seconds,
            boot_snapshots: 0,
            limits: Limits::default(),
            pace: AutoStopTiming::default(),
            storage: StorageSettings::default(),
            trust: None,
            wrap_router: None,
            listen: Ipv4Addr::LOCALHOST.into(),
            timelines: false,
            config: Config::default(),
        }
    }
}

pub struct Simulation {
    pub engine: Arc<SimulatedEngine>,
    pub host: Arc<SimulatedHost>,
    folder: TempDir,
    setup: Setup,
    tasks: Tasks,
    caller: Caller,
}

impl std::ops::Deref for Simulation {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Simulation {
    pub async fn boot() -> Self {
        Self::boot_with(Router::new()).await
    }

    /// A controller whose agents have these routes and those of [`default_agent`].
    pub async fn boot_with(routes: Router) -> Self {
        Self::set_up(Setup::default(), routes).await
    }

    /// A controller with these limits.
    pub async fn boot_limited(limits: Limits) -> Self {
        Self::set_up(Setup { limits, ..Setup::default() }, Router::new()).await
    }

    /// A controller with this configuration, except for the settings of the harness.
    pub async fn boot_configured(config: Config) -> Self {
        let (limits, pace) = (config.limits.clone(), config.auto_stop);
        Self::set_up(Setup { limits, pace, config, ..Setup::default() }, Router::new()).await
    }

    /// A controller with this configuration, whose agents have these routes and those of [`default_agent`].
    pub async fn boot_with_routes(config: Config, routes: Router) -> Self {
        let (limits, pace) = (config.limits.clone(), config.auto_stop);
        Self::set_up(Setup { limits, pace, config, ..Setup::default() }, routes).await
    }

    /// A controller that trusts proxies on this machine.
    pub async fn boot_behind_a_proxy() -> Self {
        Self::boot_configured(Config { trusted_proxies: "127.0.0.1".to_owned(), ..Config::default() }).await
    }

    /// A controller over an engine with these capabilities.
    pub async fn boot_with_capabilities(capabilities: Capabilities) -> Self {
        let capabilities = Some(capabilities);
        Self::set_up(Setup { capabilities, ..Setup::default() }, Router::new()).await
    }

    /// A controller with this pace of auto-stop, over an engine with these capabilities.
    pub async fn boot_with_pace(routes: Router, pace: AutoStopTiming, capabilities: Capabilities) -> Self {
        let capabilities = Some(capabilities);
        Self::set_up(Setup { capabilities, pace, ..Setup::default() }, routes).await
    }

    async fn set_up(setup: Setup, routes: Router) -> Self {
        let agent = Arc::new(move |_: &AgentBoot| default_agent().merge(routes.clone()));
        Self::boot_with_agent(agent, setup).await
    }

    /// A controller whose agents come from `agent`. Its store is in PostgreSQL in a run of `crate::postgres`.
    pub async fn boot_with_agent(agent: AgentFactory, mut setup: Setup) -> Self {
        if let Some(server) = PostgresServer::of_this_run() {
            setup.config.store = postgres_settings(&server, &server.create_database());
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = SimulatedHost::new(folder.path().join("machines"), agent);
        std::fs::create_dir(folder.path().join("data")).expect("a data folder");
        let (engine, tasks, base, key) = start(&folder, &host, &setup, &[]).await;
        let caller = Caller::new(base, "/api", key.expect("the first start shows a key"));
        Self { engine, folder, host, setup, tasks, caller }
    }

    /// Ends the controller and starts another on the same data and machines.
    pub async fn restart(&mut self) {
        self.end().await;
        self.begin(&[]).await;
    }

    /// Ends the controller. Its machines continue to run.
    pub async fn end(&self) {
        self.tasks.drain(END_TIMEOUT).await;
    }

    /// Aborts the controller in the middle of its work and starts another on the same data and machines.
    pub async fn kill(&mut self) {
        self.tasks.stopping().cancel();
        if let Some(server) = PostgresServer::of_this_run() {
            server.end_sessions(&self.setup.config.store.url);
        }
        self.begin(&[]).await;
    }

    /// Sets the most boot snapshots of the next controller.
    pub fn keep_boot_snapshots(&mut self, most: u32) {
        self.setup.boot_snapshots = most;
    }

    /// Sets the pool of the next controller.
    pub fn set_pool(&mut self, pool: PoolSettings) {
        self.setup.config.pool = pool;
    }

    /// The data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts another controller, with failures planned for its engine.
    pub async fn begin(&mut self, faults: &[Fault]) {
        (self.engine, self.tasks, self.caller.base, _) =
            start(&self.folder, &self.host, &self.setup, faults).await;
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn store_file(&self) -> PathBuf {
        self.folder.path().join("data/hotdesk.db")
    }

    /// Connections to the store, for what its interface does not offer.
    pub async fn store_pool(&self) -> sqlx::AnyPool {
        sqlx::any::install_default_drivers();
        let settings = &self.setup.config.store;
        let url = if settings.is_embedded() {
            format!("sqlite://{}", self.store_file().display())
        } else {
            PostgresServer::with_password(&settings.url)
        };
        sqlx::AnyPool::connect(&url).await.expect("the store")
    }

    /// Runs a statement on the store, for changes that no controller makes.
    pub async fn sql(&self, statement: &str) {
        let pool = self.store_pool().await;
        let done = sqlx::query(sqlx::AssertSqlSafe(statement.to_owned())).execute(&pool).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        pool.close().await;
    }

    /// A second store on the same database.
    pub async fn store(&self) -> Store {
        let config = Config { data_dir: self.data_dir(), ..self.setup.config.clone() };
        config.open_store(Access::Shared).await.expect("the store opens twice")
    }

    /// Adds an account and a key for all of its workspaces.
    pub async fn account(&self, email: &str) -> (AccountId, String) {
        let store = self.store().await;
        let id = AccountId::random();
        let account = Account {
            id,
            email: email.to_owned(),
            email_verified: false,
            full_name: email.to_owned(),
            password_hash: None,
            kind: "person".to_owned(),
            plan: None,
            created_at: clock::now(),
        };
        store.add_account(&account).await.expect("an account");
        (id, add_key(&store, id, None).await)
    }

    /// A new key of an account; with `workspace` it is limited to that workspace.
    pub async fn key_of(&self, account: AccountId, workspace: Option<&str>) -> String {
        add_key(&self.store().await, account, workspace).await
    }

    /// The machine ids that have a folder on the host.
    pub fn machines(&self) -> Vec<String> {
        names_in(&self.folder.path().join("machines"))
    }

    /// A computer's disk.
    pub fn disk(&self, computer: &str) -> PathBuf {
        self.folder.path().join("machines").join(computer).join("disk")
    }

    /// The current size of a computer's machine.
    pub fn size(&self, computer: &str) -> MachineSpec {
        self.host.size(computer.parse().expect("an id")).expect("a started machine")
    }

    /// The file that holds a computer's saved memory.
    pub fn memory(&self, computer: &str) -> PathBuf {
        self.folder.path().join("machines").join(computer).join("memory")
    }

    /// The socket of a computer's agent.
    pub fn socket(&self, computer: &str) -> PathBuf {
        self.folder.path().join("machines").join(computer).join("agent.sock")
    }

    /// Replaces the agent's socket with this listener, which gets all later connections.
    pub fn replace_agent(&self, computer: &str) -> UnixListener {
        let socket = self.socket(computer);
        std::fs::remove_file(&socket).expect("the agent's socket is there");
        UnixListener::bind(&socket).expect("a socket in its place")
    }

    /// A POST with the least body: a point for a click, none for other commands.
    pub async fn command(&self, path: String) -> HttpAnswer {
        let body = if path.ends_with("/click") { json!({"x": 1, "y": 1}) } else { json!({}) };
        self.post(&path, body).await
    }

    /// Creates a workspace and returns its id.
    pub async fn workspace(&self, name: &str) -> String {
        id_of(&self.create("/workspaces", json!({ "name": name })).await)
    }

    /// Creates a running computer and returns its id.
    pub async fn computer(&self, workspace: &str, name: &str) -> String {
        id_of(&self.create("/computers", json!({ "workspace_id": workspace, "name": name })).await)
    }

    pub async fn status(&self, computer: &str) -> String {
        self.get(&format!("/computers/{computer}")).await.body["status"].as_str().unwrap_or("none").to_owned()
    }

    /// Waits until a computer has a status; `none` means that the computer does not exist.
    pub async fn until_status(&self, computer: &str, status: &str) {
        let found = hotdesk::base::wait::until(CHANGE_TIMEOUT, || async {
            (self.status(computer).await == status).then_some(())
        });
        assert!(found.await.is_some(), "{computer} is {} and not {status}", self.status(computer).await);
    }
}

/// Settings of a store in a database of a test's server.
pub fn postgres_settings(server: &PostgresServer, url: &str) -> StoreSettings {
    StoreSettings { url: url.to_owned(), password_file: server.password_file(), ..StoreSettings::default() }
}

async fn add_key(store: &Store, account: AccountId, workspace: Option<&str>) -> String {
    let text = keys::generate();
    let workspace = workspace.map(|id| id.parse::<WorkspaceId>().expect("an id"));
    let (digest, last_four) = (keys::digest(text.reveal()), keys::last_four(&text));
    let key = NewKey { account, workspace, name: "test", digest: &digest, last_four };
    store.add_key(&key).await.expect("the key is stored");
    text.reveal().to_owned()
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
        self.host.reboot();
    }
}

async fn start(
    folder: &TempDir,
    host: &Arc<SimulatedHost>,
    setup: &Setup,
    faults: &[Fault],
) -> (Arc<SimulatedEngine>, Tasks, String, Option<String>) {
    let config = Config {
        data_dir: folder.path().join("data"),
        limits: setup.limits.clone(),
        suspension: Suspension { reads_wake: setup.reads_wake, wake_wait_seconds: setup.wake_wait_seconds },
        boot_snapshots: BootSnapshotSettings { keep: setup.boot_snapshots },
        auto_stop: setup.pace,
        storage: setup.storage.clone(),
        timeline: TimelineSettings { enabled: setup.timelines, ..setup.config.timeline.clone() },
        ..setup.config.clone()
    };
    let engine = Arc::new(match (&setup.offers, setup.capabilities) {
        (Some(offers), _) => SimulatedEngine::offering(Arc::clone(host), offers.clone()),
        (None, Some(capabilities)) => SimulatedEngine::limited(Arc::clone(host), capabilities),
        (None, None) => SimulatedEngine::open(Arc::clone(host)),
    });
    faults.iter().for_each(|fault| engine.plan(fault.clone()));
    let tasks = Tasks::new();
    let guarded = GuardedFetcher::new(setup.trust.clone().unwrap_or_default());
    let beside = config.clone();
    let ready = controller::start_with(config, Arc::clone(&engine) as _, &tasks, guarded).await;
    let ready = ready.expect("the controller starts");
    let key = ready.first_key.as_ref().map(|key| key.reveal().to_owned());
    let bound = bind(&Listen::Tcp((setup.listen, 0).into())).await.expect("a free port");
    let BoundListener::Tcp(listener) = &bound else { panic!("TCP was asked for") };
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    let router = match setup.wrap_router {
        Some(wrap) => wrap(ready.router, beside.open_store(Access::Shared).await.expect("a store")),
        None => ready.router,
    };
    let group = tasks.clone();
    let _serving = tasks.spawn("serve", async move { serve(bound, router, &group).await });
    (engine, tasks, base, key)
}

/// Routes of a well-behaved agent. It closes every connection after the response, so that none outlives
/// [`Simulation::replace_agent`].
pub fn default_agent() -> Router {
    Router::new().fallback(async |request: Request| -> Response {
        let path = request.uri().path().to_owned();
        let screen = json!({"id": "default", "display": ":99", "width": 1280, "height": 720, "default": true,
            "vnc_port": null, "ws_port": null});
        let body = match path.as_str() {
            "/health" => json!({"status": "ok", "version": "1", "uptime_ms": 1, "screens": 1, "cpu_count": 1,
                "memory_total_bytes": 1, "memory_used_bytes": 1}),
            "/bash" => {
                json!({"success": true, "action": "bash", "command": "", "output": "hi\n", "exit_code": 0})
            }
            "/identity" => json!({"renewed": ["token"], "failed": [], "clock_was_off_ms": 0}),
            "/exec" => json!({"success": true, "action": "exec", "output": "", "timeout": false}),
            "/wait_stable" => {
                let settle = json!({"reached": true, "waited_ms": 1, "changed": []});
                json!({"success": true, "action": "wait_stable", "settle": settle})
            }
            "/screens" if request.method() == axum::http::Method::GET => json!({ "screens": [screen] }),
            path if path.starts_with("/screens") => screen,
            path if path.starts_with("/files/desktop/") => {
                json!({"path": "/root/Desktop/x", "outcome": "created"})
            }
            "/screenshot" => {
                return ([(header::CONNECTION, "close")], Bytes::from_static(PNG_HEADER)).into_response();
            }
            _ => json!({"success": true, "action": "wait"}),
        };
        ([(header::CONNECTION, "close")], axum::Json(body)).into_response()
    })
}
