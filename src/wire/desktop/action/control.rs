//! Control of a screen: a person or a program holds it for a time, and input of others is refused.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use hotdesk_domain::identity::access::actor::Actor;

/// Longest note and longest message in characters: they are read by a person, and a model pays for them.
pub const MAX_NOTE: usize = 2_000;
/// Time for which control is held when the request names none, in seconds. A client renews it before.
pub const DEFAULT_HOLD_SECONDS: u32 = 60;
/// Longest time for which control is held without a renewal, in seconds: a client that crashed frees the
/// screen then.
pub const MAX_HOLD_SECONDS: u32 = 3_600;
/// Longest wait for a change of the control, in seconds: proxies end silent requests after a minute.
pub const MAX_CONTROL_WAIT_SECONDS: u32 = 30;
/// Longest time for which a request for help stays open, in seconds: a person may be away for a night.
pub const MAX_HELP_SECONDS: u32 = 24 * 3_600;

/// Who acts on a screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScreenActor)]
pub struct ActorName {
    /// `key`, `person`, `connection` (an MCP client), `thread` (a run of a model), `password` or `template`.
    pub kind: String,
    /// Id of the key, account, connection or thread; absent for `password` and `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl ActorName {
    /// Returns the actor; `None` when the text names none.
    pub fn actor(&self) -> Option<Actor> {
        match &self.id {
            Some(id) => format!("{}:{id}", self.kind).parse().ok(),
            None => self.kind.parse().ok(),
        }
    }
}

impl From<Actor> for ActorName {
    fn from(actor: Actor) -> Self {
        Self { kind: actor.kind().to_owned(), id: actor.id() }
    }
}

/// `POST control`: takes control of a screen, or renews it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"seconds": 120, "note": "I sign in"}))]
#[serde(deny_unknown_fields)]
pub struct TakeControl {
    /// Time until it ends by itself, in seconds; 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub seconds: Option<u32>,
    /// What others are told, the former holder as well, at most 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub note: Option<String>,
}

/// Query of `POST control`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TakeControlQuery {
    /// True takes it from another holder. A person may take it from programs; admins and the owner of the
    /// workspace from everybody, also by a key or a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// Query of the agent's own route for a forced take, which the controller calls.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ForcedTakeQuery {
    /// Whether it is taken from people as well as from programs.
    pub from_people: bool,
}

/// `POST control/hand_back`, and the answer to a request for help.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"note": "Signed in. Go on with the order."}))]
#[serde(deny_unknown_fields)]
pub struct HandBack {
    /// What the one who acts next is told, at most 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub note: Option<String>,
}

/// Query of `POST control/hand_back`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HandBackQuery {
    /// True hands back for another holder; only admins and the owner of the workspace may do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// `POST control/help`: asks a person for help.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"message": "The page asks for a code from the phone.", "seconds": 600}))]
#[serde(deny_unknown_fields)]
pub struct AskForHelp {
    /// What is needed, 1 to 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub message: String,
    /// Time until the request ends by itself, in seconds.
    #[schema(minimum = 1, maximum = 86400)]
    pub seconds: u32,
}

/// A request for help that nobody has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HelpRequest {
    /// What is needed.
    pub message: String,
    /// Who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ActorName>,
    /// Time of the request, ISO 8601.
    pub since: String,
    /// Time at which it ends by itself, ISO 8601.
    pub expires_at: String,
}

/// How the control or the request for help ended last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastHandBack {
    /// Who handed back or answered; absent when the time was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ActorName>,
    /// The note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Time of the end, ISO 8601.
    pub at: String,
}

/// Control of a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenControl {
    /// Id of the screen.
    pub screen: String,
    /// Counts changes; `after` of a waiting request is the last one that the client has seen.
    pub revision: u64,
    /// Who holds the screen; null when everybody with access may act.
    pub holder: Option<ActorName>,
    /// Note of the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Start of the control, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Time at which the control ends by itself, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Request for help that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<HelpRequest>,
    /// The last hand-back or answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hand_back: Option<LastHandBack>,
}

/// `GET control`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ControlQuery {
    /// Wait until the revision is another one; no wait when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Longest wait in seconds; no wait when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 30)]
    pub wait_seconds: Option<u32>,
}

#[cfg(test)]
mod tests {
    use hotdesk_base::ids::ThreadId;

    use super::*;

    #[test]
    fn an_actor_is_read_back_from_its_name() {
        for actor in [Actor::Thread(ThreadId::random()), Actor::Password, Actor::Template] {
            assert_eq!(ActorName::from(actor).actor(), Some(actor));
        }
        let name =
            |kind: &str, id: Option<&str>| ActorName { kind: kind.to_owned(), id: id.map(str::to_owned) };
        for bad in
            [name("root", None), name("key", None), name("key", Some("1")), name("password", Some("1"))]
        {
            assert_eq!(bad.actor(), None, "{bad:?}");
        }
    }
}
