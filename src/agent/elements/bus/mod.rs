//! How are programs asked over the accessibility bus? Typed calls, each with a time-out of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atspi::proxy::bus::{BusProxy, StatusProxy};
use atspi::proxy::registry::RegistryProxy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zbus::zvariant::{DynamicType, OwnedValue, Type};
use zbus::{Connection, connection};

use super::object::{Object, Reference};
use hotdesk_domain::error::{Error, Result};

/// How long the message bus itself may take for one answer; microseconds are usual.
const BUS_TIMEOUT: Duration = Duration::from_secs(2);
/// Answers that wait in this process: more than the calls that are ever in flight.
const QUEUED: usize = 512;
/// Largest answer that is read, in bytes: a page of 50,000 objects in bulk; read, it takes some times as much.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Path of each program's root object.
pub(super) const ROOT: &str = "/org/a11y/atspi/accessible/root";
/// Who lists the programs.
const REGISTRY: &str = "org.a11y.atspi.Registry";
/// The bus itself.
const DAEMON: &str = "org.freedesktop.DBus";
/// An event that hardly ever comes: a window of a desktop that is restored from its icon.
const RARE_EVENT: &str = "window:desktop-create";
/// Interface of every object.
pub(super) const ACCESSIBLE: &str = "org.a11y.atspi.Accessible";
/// Interface of a program's root object.
const APPLICATION: &str = "org.a11y.atspi.Application";
/// Interface of what has properties.
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// The object, or its whole program, is no more.
    Gone,
    /// The program did not answer in time.
    Silent,
    /// The object is no more, or never had this method: some toolkits answer both alike.
    Unknown,
    /// The program refused, or answered in a form that is not AT-SPI's.
    Refused(String),
    /// The bus itself is gone.
    Lost(String),
}

impl Fault {
    /// In a sentence.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Gone | Self::Unknown => String::from("went away"),
            Self::Silent => String::from("does not answer"),
            Self::Refused(why) | Self::Lost(why) => why.clone(),
        }
    }
}

impl From<zbus::Error> for Fault {
    fn from(error: zbus::Error) -> Self {
        #[allow(clippy::wildcard_enum_match_arm)] // zbus's list of errors grows
        match &error {
            zbus::Error::MethodError(name, text, _) => match name.as_str().rsplit('.').next() {
                Some("UnknownObject" | "ServiceUnknown" | "NameHasNoOwner" | "NoReply" | "Disconnected") => {
                    Self::Gone
                }
                Some("UnknownMethod" | "UnknownInterface" | "UnknownProperty") => Self::Unknown,
                _ => Self::Refused(text.clone().unwrap_or_else(|| name.to_string())),
            },
            zbus::Error::InputOutput(_) => Self::Lost(error.to_string()),
            _ => Self::Refused(error.to_string()),
        }
    }
}

/// A connection to the accessibility bus of this computer's session.
#[derive(Debug)]
pub(super) struct Bus {
    link: Connection,
    /// Set when it is of no more use, or holds a question that nobody will answer.
    spent: AtomicBool,
}

impl Bus {
    /// Connects by way of the session's message bus.
    ///
    /// # Errors
    /// `Unavailable` where there is no such bus.
    pub(super) async fn open(environment: &[(String, String)]) -> Result<Self> {
        let opened = tokio::time::timeout(2 * BUS_TIMEOUT, Self::connect(environment)).await;
        let why = match opened {
            Ok(Ok(bus)) => return Ok(bus),
            Ok(Err(error)) => error.to_string(),
            Err(_) => String::from("the message bus does not answer"),
        };
        Err(Error::unavailable("This computer has no accessibility bus").retry_after(1).context(why))
    }

    async fn connect(environment: &[(String, String)]) -> zbus::Result<Self> {
        const NAME: &str = "DBUS_SESSION_BUS_ADDRESS";
        let told = environment.iter().find(|(name, _)| name == NAME).map(|(_, value)| value.clone());
        // An agent that was started by hand in a session has its bus in its own environment.
        let address = told.or_else(|| std::env::var(NAME).ok());
        let address = address.ok_or_else(|| zbus::Error::Address(format!("{NAME} is not known")))?;
        let session = connection::Builder::address(address.as_str())?.build().await?;
        // Programs that start from now on show their trees even if nobody had asked before.
        if let Err(error) = StatusProxy::new(&session).await?.set_is_enabled(true).await {
            tracing::info!(%error, "accessibility could not be switched on");
        }
        let address = BusProxy::new(&session).await?.get_address().await?;
        let link = connection::Builder::address(address.as_str())?.max_queued(QUEUED).build().await?;
        // Toolkits fill their bulk answers only while somebody listens to some event; this one is rare.
        if let Err(error) = RegistryProxy::new(&link).await?.register_event(RARE_EVENT).await {
            tracing::info!(%error, "no event could be listened to");
        }
        Ok(Self { link, spent: AtomicBool::new(false) })
    }

    /// Whether a new connection should take its place.
    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Has a new connection take its place.
    pub(super) fn spend(&self) {
        self.spent.store(true, Ordering::Relaxed);
    }

    /// Calls a method of an object.
    pub(super) async fn ask<Receive: DeserializeOwned + Type>(
        &self,
        object: &Object,
        interface: &str,
        method: &str,
        body: &(impl Serialize + DynamicType + Sync),
        patience: Duration,
    ) -> Result<Receive, Fault> {
        let reply = self.message(object, interface, method, body, patience).await?;
        reply.body().deserialize::<Receive>().map_err(|error| Fault::Refused(error.to_string()))
    }

    /// As [`Bus::ask`], for an answer that is read where it is.
    pub(super) async fn message(
        &self,
        object: &Object,
        interface: &str,
        method: &str,
        body: &(impl Serialize + DynamicType + Sync),
        patience: Duration,
    ) -> Result<zbus::Message, Fault> {
        let name = Some(object.name.as_str());
        let call = self.link.call_method(name, object.path.as_str(), Some(interface), method, body);
        let answer = match tokio::time::timeout(patience, call).await {
            Ok(answer) => answer.map_err(Fault::from),
            Err(_) => Err(Fault::Silent),
        };
        // The bus remembers unanswered questions for as long as their connection lives, and has a limit for them.
        if matches!(answer, Err(Fault::Silent | Fault::Lost(_))) {
            self.spend();
        }
        let size = answer.as_ref().map_or(0, |message| message.body().len());
        if size > MOST_BYTES {
            return Err(Fault::Refused(format!("an answer of {size} bytes")));
        }
        answer
    }

    /// One property of an object.
    pub(super) async fn property<Value: TryFrom<OwnedValue>>(
        &self,
        object: &Object,
        interface: &str,
        name: &str,
        patience: Duration,
    ) -> Result<Value, Fault> {
        let asked = (interface, name);
        let value: OwnedValue = self.ask(object, PROPERTIES, "Get", &asked, patience).await?;
        Value::try_from(value).map_err(|_| Fault::Refused(format!("{name} is of another type")))
    }

    /// Sets a property.
    pub(super) async fn set_property(
        &self,
        object: &Object,
        interface: &str,
        name: &str,
        value: zbus::zvariant::Value<'_>,
        patience: Duration,
    ) -> Result<(), Fault> {
        self.ask(object, PROPERTIES, "Set", &(interface, name, value), patience).await
    }

    /// The root objects of all programs on the bus.
    pub(super) async fn programs(&self) -> Result<Vec<Object>, Fault> {
        let registry = Object { name: REGISTRY.to_owned(), path: ROOT.to_owned() };
        let all: Vec<Reference> = self.ask(&registry, ACCESSIBLE, "GetChildren", &(), BUS_TIMEOUT).await?;
        Ok(all.into_iter().filter_map(Object::of).collect())
    }

    /// Whether it knows the process behind a name: sockets of gVisor name whoever asks for their peer, so that all would be
    /// the bus itself. What it does not know, [`Bus::told_pid`] asks the programs.
    pub(super) async fn knows_processes(&self) -> Result<bool, Fault> {
        Ok(self.pid(REGISTRY).await? != self.pid(DAEMON).await?)
    }

    /// The process that a program says it is.
    ///
    /// # Errors
    /// `Refused` by a program without an ATK bridge, or one that is not root's.
    pub(super) async fn told_pid(&self, root: &Object, patience: Duration) -> Result<u32, Fault> {
        let address: String = self.ask(root, APPLICATION, "GetApplicationBusAddress", &(), patience).await?;
        process_of(&address).ok_or_else(|| Fault::Refused(String::from("does not say which process it is")))
    }

    /// The process behind a bus name.
    pub(super) async fn pid(&self, name: &str) -> Result<u32, Fault> {
        let daemon = Object { name: DAEMON.to_owned(), path: "/org/freedesktop/DBus".to_owned() };
        self.ask(&daemon, DAEMON, "GetConnectionUnixProcessID", &(name,), BUS_TIMEOUT).await
    }
}

/// The process of an ATK bridge, from the address of the socket that it offers: one of root's is called after its process
/// (at-spi2-core, `atk-adaptor/bridge.c`).
fn process_of(address: &str) -> Option<u32> {
    let (_, name) = address.strip_prefix("unix:path=")?.split(',').next()?.rsplit_once('/')?;
    name.strip_prefix("at-spi2-socket-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_s_socket_is_called_after_its_process() {
        for (address, process) in [
            ("unix:path=/run/user/0/at-spi2-socket-217", Some(217)),
            ("unix:path=/run/at-spi2-socket-7,guid=0af", Some(7)),
            ("unix:path=/tmp/at-spi2-AB12CD/socket", None),
            ("unix:abstract=/run/at-spi2-socket-7", None),
            ("unix:path=/run/at-spi2-socket-", None),
            ("", None),
        ] {
            assert_eq!(process_of(address), process, "{address}");
        }
    }
}
