//! Events of the computer and of its desktop.

use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use crate::exec::services::triggers::{Reporter, fields};
use hotdesk_domain::desktop::event::EventKind;

/// Reports events of the computer of this name.
pub(super) async fn watch_computer(
    event: &str,
    events: &mut broadcast::Receiver<Map<String, Value>>,
    reporter: &Reporter,
) -> String {
    reporter.watching();
    loop {
        match events.recv().await {
            Ok(found) if found.get("event").is_some_and(|name| name == event) => {
                reporter.event("event", found)
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return "the agent stops".to_owned(),
        }
    }
}

/// Reports events of the desktop of this name.
pub(super) async fn watch_desktop(event: &str, reporter: &Reporter) -> String {
    let Some(kind) = EventKind::parse(event) else {
        return format!("there is no event {event} of the desktop");
    };
    let listener = reporter.parts.feed.listen();
    listener.add(kind.into());
    reporter.watching();
    loop {
        let message = listener.next().await.message();
        let Ok(Value::Object(mut message)) = serde_json::from_str(&message) else { continue };
        let Some(Value::Object(mut found)) = message.remove("event") else { continue };
        // Its own fields are beside its name: `{{ event.title }}`.
        let data = found.remove("data");
        let mut all = fields([("event", json!(event))]);
        if let Some(Value::Object(data)) = data {
            all.extend(data);
        }
        reporter.event("desktop", all);
    }
}
