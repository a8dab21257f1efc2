//! Events about the agent itself, from what the controller's requests learn.

use std::convert::Infallible;

use crate::computers::fleet::Fleet;
use hotdesk_base::ids::ComputerId;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::event::{AgentState, Event, EventData};

/// Publishes when a computer's agent stops or begins to answer. It never returns; it ends by being dropped.
pub(super) async fn run(feed: Feed, fleet: Fleet, computer: ComputerId) -> Infallible {
    let mut known = fleet.live_details(computer).unresponsive_since;
    loop {
        let now = fleet.agent_change(computer, known).await;
        let (state, since) = match now {
            Some(_) => (AgentState::Unresponsive, now),
            None => (AgentState::Responsive, known),
        };
        if let Some(since) = since {
            feed.publish(Event::now(EventData::AgentChange { state, since: since.iso8601() }));
        }
        known = now;
    }
}
