//! Control of the screen of a fake agent: it is held and handed back by the test, and a run asks for help.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hotdesk::domain::identity::access::actor::Actor;
use hotdesk::http::headers::actor;
use hotdesk::wire::desktop::action::control::{
    ActorName, AskForHelp, ControlQuery, HandBack, HelpRequest, LastHandBack, ScreenControl,
};
use tokio::sync::watch;

/// Control of the boot screen; cheap to clone.
#[derive(Clone)]
pub struct FakeControl {
    now: Arc<watch::Sender<ScreenControl>>,
    /// Whether each request for help is answered at once.
    is_quick: Arc<AtomicBool>,
}

impl Default for FakeControl {
    fn default() -> Self {
        let first = ScreenControl { screen: "default".to_owned(), revision: 1, ..ScreenControl::default() };
        Self { now: Arc::new(watch::channel(first).0), is_quick: Arc::default() }
    }
}

impl FakeControl {
    /// Gives the screen to somebody.
    pub fn hold(&self, by: Actor) {
        self.change(|now| now.holder = Some(by.into()));
    }

    /// Lets somebody hand the screen back, or answer the request for help.
    pub fn hand_back(&self, by: Actor, note: &str) {
        self.change(|now| end(now, Some(by.into()), Some(note.to_owned())));
    }

    /// Answers each later request for help at once.
    pub fn answer_at_once(&self) {
        self.is_quick.store(true, Ordering::SeqCst);
    }

    /// What the agent tells.
    pub fn state(&self) -> ScreenControl {
        self.now.borrow().clone()
    }

    /// Whether input with these fields is refused.
    pub fn refuses(&self, headers: &HeaderMap) -> bool {
        let by = actor::read(headers).map(ActorName::from);
        self.now.borrow().holder.as_ref().is_some_and(|holder| Some(holder) != by.as_ref())
    }

    pub fn routes(&self) -> Router {
        Router::new()
            .route("/screens/default/control", get(read))
            .route("/screens/default/control/help", post(ask))
            .route("/screens/default/control/answer", post(answer))
            .with_state(self.clone())
    }

    fn change(&self, change: impl FnOnce(&mut ScreenControl)) {
        self.now.send_modify(|now| {
            now.revision += 1;
            change(now);
        });
    }
}

fn end(now: &mut ScreenControl, by: Option<ActorName>, note: Option<String>) {
    (now.holder, now.help) = (None, None);
    now.last_hand_back = Some(LastHandBack { by, note, at: now.revision.to_string() });
}

fn told(control: &ScreenControl) -> Response {
    ([("connection", "close")], Json(control.clone())).into_response()
}

async fn read(State(control): State<FakeControl>, Query(query): Query<ControlQuery>) -> Response {
    if let (Some(after), Some(seconds)) = (query.after, query.wait_seconds) {
        let mut watching = control.now.subscribe();
        let changed = watching.wait_for(|now| now.revision != after);
        let _changed = tokio::time::timeout(Duration::from_secs(seconds.into()), changed).await.is_ok();
    }
    told(&control.state())
}

async fn ask(
    State(control): State<FakeControl>,
    headers: HeaderMap,
    Json(body): Json<AskForHelp>,
) -> Response {
    let by = actor::read(&headers).map(ActorName::from);
    control.change(|now| {
        let (since, expires_at) = ("now".to_owned(), format!("in {} seconds", body.seconds));
        now.help = Some(HelpRequest { message: body.message, by, since, expires_at });
    });
    let asked = control.state();
    if control.is_quick.load(Ordering::SeqCst) {
        control.hand_back(Actor::Password, "Yes.");
    }
    told(&asked)
}

async fn answer(
    State(control): State<FakeControl>,
    headers: HeaderMap,
    Json(body): Json<HandBack>,
) -> Response {
    let by = actor::read(&headers).map(ActorName::from);
    control.change(|now| end(now, by, body.note));
    told(&control.state())
}
