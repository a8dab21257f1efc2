//! Routes `/elements`: accessible elements of a screen.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};

use crate::display::Displays;
use crate::elements::{Elements, ListRequest};
use crate::media::recording::Recordings;
use crate::media::timeline::{EntrySink, NewEntry, Timelines, record};
use hotdesk_domain::error;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path, Query};
use hotdesk_http::headers::actor::ActingAs;
use hotdesk_wire::desktop::element::{
    ElementActionResult, ElementClick, ElementList, ElementSetValue, ElementsQuery, MarkedQuery,
    MarkedScreenshot,
};

/// State of the routes.
#[derive(Clone)]
struct ElementState {
    elements: Elements,
    recordings: Recordings,
    timelines: Timelines,
}

impl ElementState {
    /// Executes an action on an element with an entry in the timeline of its screen.
    async fn act(
        &self,
        by: Option<Actor>,
        id: &str,
        action: &str,
        work: impl Future<Output = error::Result<ElementActionResult>>,
    ) -> Result<Answer<ElementActionResult>> {
        let Some(screen) = self.elements.screen(id) else { return Ok(Answer(work.await?)) };
        // Input that is refused has no entry.
        screen.control().check(by)?;
        let recording = self.recordings.timeline(&screen).map(|timeline| timeline as Arc<dyn EntrySink>);
        let begun = self.timelines.begin(&screen, NewEntry::of_element(by, action, recording));
        let outcome = work.await;
        begun.end(|entry| record::add_element_outcome(entry, &outcome));
        Ok(Answer(outcome?))
    }
}

/// Routes of the elements.
pub fn router(displays: Displays, recordings: Recordings, timelines: Timelines) -> Router {
    Router::new()
        .route("/elements", get(list))
        .route("/elements/marked", get(marked))
        .route("/elements/{id}/click", post(click))
        .route("/elements/{id}/set_value", post(set_value))
        .route("/elements/{id}/focus", post(focus))
        .with_state(ElementState { elements: Elements::new(displays), recordings, timelines })
}

async fn list(
    State(state): State<ElementState>,
    Query(query): Query<ElementsQuery>,
) -> Result<Answer<ElementList>> {
    Ok(Answer(state.elements.list(ListRequest::parse(query)?).await?))
}

async fn marked(
    State(state): State<ElementState>,
    Query(query): Query<MarkedQuery>,
) -> Result<Answer<MarkedScreenshot>> {
    Ok(Answer(state.elements.marked(query).await?))
}

async fn click(
    State(state): State<ElementState>,
    ActingAs(by): ActingAs,
    Path(id): Path<String>,
    Json(body): Json<ElementClick>,
) -> Result<Answer<ElementActionResult>> {
    state.act(by, &id, "element_click", state.elements.click(by, &id, &body)).await
}

async fn set_value(
    State(state): State<ElementState>,
    ActingAs(by): ActingAs,
    Path(id): Path<String>,
    Json(body): Json<ElementSetValue>,
) -> Result<Answer<ElementActionResult>> {
    state.act(by, &id, "element_set_value", state.elements.set_value(by, &id, &body.value)).await
}

async fn focus(
    State(state): State<ElementState>,
    ActingAs(by): ActingAs,
    Path(id): Path<String>,
) -> Result<Answer<ElementActionResult>> {
    state.act(by, &id, "element_focus", state.elements.focus(by, &id)).await
}
