//! Actors: who acts on a screen.

use std::fmt;
use std::str::FromStr;

use super::{Caller, Credential};
use crate::error::{Error, Result as DomainResult};
use hotdesk_base::ids::{AccountId, GrantId, KeyId, ThreadId};

/// Who acts on a screen. The controller tells it to the agent with every request, as text such as
/// `key:7f1c...`. It grants nothing: access was checked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The holder of an API key.
    Key(KeyId),
    /// A person in a browser.
    Person(AccountId),
    /// An MCP client, by its connection.
    Connection(GrantId),
    /// A language model, by the thread of its run.
    Thread(ThreadId),
    /// Somebody with the computer's password.
    Password,
    /// The computer's template, by one of its triggers.
    Template,
}

impl Actor {
    /// The kinds.
    pub const KINDS: [&str; 6] = ["key", "person", "connection", "thread", "password", "template"];

    /// The actor of a caller's requests.
    pub fn of(caller: &Caller) -> Self {
        match caller.credential {
            Credential::Key(key) => Self::Key(key),
            Credential::Session(_) => Self::Person(caller.account),
            Credential::Grant(grant) => Self::Connection(grant),
        }
    }

    /// The kind of the actor: `key`, `person`, `connection`, `thread`, `password` or `template`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Person(_) => "person",
            Self::Connection(_) => "connection",
            Self::Thread(_) => "thread",
            Self::Password => "password",
            Self::Template => "template",
        }
    }

    /// The id of the key, account, connection or thread.
    pub fn id(self) -> Option<String> {
        match self {
            Self::Key(id) => Some(id.to_string()),
            Self::Person(id) => Some(id.to_string()),
            Self::Connection(id) => Some(id.to_string()),
            Self::Thread(id) => Some(id.to_string()),
            Self::Password | Self::Template => None,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id() {
            Some(id) => write!(f, "{}:{id}", self.kind()),
            None => f.write_str(self.kind()),
        }
    }
}

impl FromStr for Actor {
    type Err = UnknownActor;

    fn from_str(text: &str) -> Result<Self, UnknownActor> {
        let (kind, id) = text.split_once(':').unwrap_or((text, ""));
        let actor = match kind {
            "key" => id.parse().ok().map(Self::Key),
            "person" => id.parse().ok().map(Self::Person),
            "connection" => id.parse().ok().map(Self::Connection),
            "thread" => id.parse().ok().map(Self::Thread),
            "password" if text == kind => Some(Self::Password),
            "template" if text == kind => Some(Self::Template),
            _ => None,
        };
        actor.ok_or(UnknownActor)
    }
}

/// A text that names no actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownActor;

/// Which actors a filter selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorFilter {
    /// The kind.
    pub kind: String,
    /// The id; every id for `None`.
    pub id: Option<String>,
}

impl ActorFilter {
    /// Parses `<kind>` or `<kind>:<id>`.
    ///
    /// # Errors
    /// `Invalid` for another text.
    pub fn parse(text: &str) -> DomainResult<Self> {
        if Actor::KINDS.contains(&text) {
            return Ok(Self { kind: text.to_owned(), id: None });
        }
        let actor: Actor = text.parse().map_err(|_| {
            Error::invalid(format!("by must be one of {}, or KIND:ID", Actor::KINDS.join(", ")))
        })?;
        Ok(Self { kind: actor.kind().to_owned(), id: actor.id() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_read_back_from_its_text() {
        for actor in [
            Actor::Key(KeyId::random()),
            Actor::Person(AccountId::random()),
            Actor::Connection(GrantId::random()),
            Actor::Thread(ThreadId::random()),
            Actor::Password,
            Actor::Template,
        ] {
            assert_eq!(actor.to_string().parse(), Ok(actor));
        }
        for bad in ["", "key", "key:", "key:1", "password:", "template:1", "root", "Key:1"] {
            assert_eq!(bad.parse::<Actor>(), Err(UnknownActor), "{bad}");
        }
    }

    #[test]
    fn filters_name_a_kind_or_one_actor() {
        let key = KeyId::random();
        let filter = |kind: &str, id: Option<String>| Some(ActorFilter { kind: kind.to_owned(), id });
        for (text, expected) in [
            ("key", filter("key", None)),
            ("template", filter("template", None)),
            (format!("key:{key}").as_str(), filter("key", Some(key.to_string()))),
            ("key:1", None),
            ("root", None),
            ("", None),
        ] {
            assert_eq!(ActorFilter::parse(text).ok(), expected, "{text}");
        }
    }
}
