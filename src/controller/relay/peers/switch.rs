//! Routes of one controller among several: its own while it leads, else those of a follower.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use super::fields::{FORWARDED, MAY_PAUSE};
use super::forward::{Forwarder, LeadersRequestId};
use crate::config::Config;
use crate::web::hosts::Hosts;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::edge::{self, REQUEST_ID};
use hotdesk_http::error_response::HttpError;
use hotdesk_http::serve::ClientMayPause;
use hotdesk_store::database::Leader;

/// Seconds after which a client asks again while no controller leads.
const RETRY_AFTER: u32 = 2;

/// What this controller does with requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nobody is known to lead.
    Waiting,
    /// Another controller leads.
    Following(Leader),
    /// This controller has the lease, and its application starts or runs.
    Starting,
}

/// Routes that change when this controller begins to lead. The connections of clients stay.
pub struct Switch {
    role: watch::Sender<Role>,
    /// The routes of the application, once this controller leads.
    leading: Mutex<Option<Router>>,
    forwarder: Forwarder,
    hosts: Hosts,
    /// What `GET /health` of a follower answers besides its status.
    facts: Value,
    started: Instant,
}

impl Switch {
    /// A controller that knows no leader.
    ///
    /// # Errors
    /// `Internal` for an invalid configuration.
    pub(super) fn new(config: &Config, tasks: &Tasks) -> Result<Self> {
        let trusted = config
            .trusted_proxies
            .parse()
            .map_err(|why| Error::internal(format!("configuration: trusted_proxies: {why}")))?;
        let isolations = config.engines.isolations()?;
        let engine = match isolations.first() {
            _ if config.engines.incus.is_used() => "incus",
            Some(Isolation::Vm) => "qemu",
            Some(Isolation::Sandbox | Isolation::Shared) | None => "container",
        };
        let names: Vec<&str> = isolations.iter().map(|isolation| isolation.name()).collect();
        Ok(Self {
            role: watch::Sender::new(Role::Waiting),
            leading: Mutex::default(),
            forwarder: Forwarder::new(config.store.address.starts_with("https://"), trusted, tasks)?,
            hosts: Hosts::new(config)?,
            facts: json!({ "engine": engine, "isolations": names }),
            started: Instant::now(),
        })
    }

    /// Answers requests with the routes of the application from now on.
    pub fn lead(&self, router: Router) {
        *self.leading.lock().unwrap_or_else(PoisonError::into_inner) = Some(router);
    }

    /// Notes the present role. Requests and sockets at a former leader end.
    pub(super) fn set_role(&self, role: Role) {
        self.role.send_if_modified(|present| {
            let is_new = *present != role;
            if is_new {
                tracing::info!(?role, "the role of this controller has changed");
                *present = role;
            }
            is_new
        });
    }

    /// Returns the routes.
    pub(super) fn router(switch: &Arc<Self>) -> Router {
        let follower = Router::new()
            .fallback(answer)
            .layer(axum::middleware::from_fn(edge::pass))
            .with_state(Arc::clone(switch));
        let switch = Arc::clone(switch);
        Router::new().fallback(move |request: Request| {
            let is_forwarded = request.headers().contains_key(FORWARDED);
            let leading = switch.leading.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let router = leading.unwrap_or_else(|| follower.clone());
            async move {
                let Ok(mut response) = router.oneshot(request).await;
                // The log of the leader has its own id of a forwarded request.
                if let Some(LeadersRequestId(id)) = response.extensions_mut().remove() {
                    response.headers_mut().insert(REQUEST_ID, id);
                }
                // The follower does not see extensions.
                if is_forwarded {
                    response.headers_mut().remove(MAY_PAUSE);
                    if response.extensions().get::<ClientMayPause>().is_some() {
                        response.headers_mut().insert(MAY_PAUSE, HeaderValue::from_static("1"));
                    }
                }
                response
            }
        })
    }

    /// Returns when another controller leads, or none.
    fn replaced(&self, leader: &Leader) -> impl Future<Output = ()> + Send + use<> {
        let (mut role, leader) = (self.role.subscribe(), Role::Following(leader.clone()));
        async move {
            // An error means that the switch is gone, and with it this controller.
            drop(role.wait_for(|present| *present != leader).await);
        }
    }

    fn health(&self, is_led: bool) -> Result<Response> {
        if !is_led {
            return Err(no_leader());
        }
        let mut health = json!({
            "status": "ok",
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "role": "follower",
        });
        if let (Some(health), Some(facts)) = (health.as_object_mut(), self.facts.as_object()) {
            health.extend(facts.clone());
        }
        Ok(Json(health).into_response())
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").field("role", &*self.role.borrow()).finish_non_exhaustive()
    }
}

/// Answers a request of a follower: itself, or with the answer of the leader.
async fn answer(State(switch): State<Arc<Switch>>, request: Request) -> Result<Response, HttpError> {
    let role = switch.role.borrow().clone();
    let leader = match role {
        Role::Following(leader) => Some(leader),
        Role::Waiting | Role::Starting => None,
    };
    // A host of a port has only paths of its program.
    let is_of_port = switch.hosts.ports().is_some_and(|ports| ports.of(request.headers()).is_some());
    let own = Some(own_path(request.uri().path())).filter(|_| !is_of_port);
    match own {
        Some("/health") if matches!(*request.method(), Method::GET | Method::HEAD) => {
            return Ok(switch.health(leader.is_some())?);
        }
        Some("/metrics") => {
            let error = Error::unavailable("This controller follows: the leading one has the metrics");
            return Err(error.retry_after(RETRY_AFTER).into());
        }
        Some(_) | None => {}
    }
    // A follower that this one takes for the leader would send it back.
    let is_forwarded = request.headers().contains_key(FORWARDED);
    let leader = leader.filter(|_| !is_forwarded).ok_or_else(no_leader)?;
    let (replaced, closed) = (switch.replaced(&leader), switch.replaced(&leader));
    Ok(switch.forwarder.forward(&leader.address, request, replaced, closed).await?)
}

fn no_leader() -> Error {
    Error::unavailable("No controller leads at the moment").retry_after(RETRY_AFTER)
}

/// Returns a path without the prefixes `/api`.
fn own_path(mut path: &str) -> &str {
    while let Some(rest) = path.strip_prefix("/api").filter(|rest| rest.starts_with('/')) {
        path = rest;
    }
    path
}
