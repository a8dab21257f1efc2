//! Typed calls to programs over the accessibility bus, each with a timeout.

pub(super) mod details;
pub(super) mod object;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atspi::proxy::bus::{BusProxy, StatusProxy};
use atspi::proxy::registry::RegistryProxy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zbus::zvariant::{DynamicType, OwnedValue, Type};
use zbus::{Connection, connection};

use crate::elements::bus::object::{Object, Reference};
use hotdesk_domain::error::{Error, Result};

/// How long the message bus itself may take to answer; microseconds are usual.
const BUS_TIMEOUT: Duration = Duration::from_secs(2);
/// Most answers that are queued in this process: more than the calls in flight.
const MAX_QUEUED: usize = 512;
/// Largest answer that is decoded, in bytes: the bulk answer of a page with 50,000 objects. Decoded, it takes
/// several times as much memory.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Folder of the runtime folders of the browser, which runs as a user of its own.
const BROWSER_RUNTIME: &str = "/run/hotdesk-browser/";
/// Path of each program's root object.
pub(super) const ROOT: &str = "/org/a11y/atspi/accessible/root";
/// Bus name of the service that lists the programs.
const REGISTRY: &str = "org.a11y.atspi.Registry";
/// Bus name of the bus itself.
const DAEMON: &str = "org.freedesktop.DBus";
/// A rare event: a window of a desktop is restored from its icon.
const RARE_EVENT: &str = "window:desktop-create";
/// Interface of every object.
pub(super) const ACCESSIBLE: &str = "org.a11y.atspi.Accessible";
/// Interface of a program's root object.
const APPLICATION: &str = "org.a11y.atspi.Application";
/// Interface for properties.
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// Reason for which a call failed.
#[derive(Debug)]
pub(super) enum BusFault {
    /// The object, or its whole program, does not exist any more.
    Gone,
    /// The program did not answer in time.
    Silent,
    /// The object does not exist or has no such method: some toolkits answer both alike.
    Unknown,
    /// The program refused, or its answer is not valid AT-SPI.
    Refused(String),
    /// The connection to the bus is broken.
    Lost(String),
}

impl BusFault {
    /// Text for a sentence with the program as subject.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Gone | Self::Unknown => String::from("went away"),
            Self::Silent => String::from("does not answer"),
            Self::Refused(why) | Self::Lost(why) => why.clone(),
        }
    }
}

impl From<zbus::Error> for BusFault {
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

/// Connection to the accessibility bus of this computer's session.
#[derive(Debug)]
pub(super) struct Bus {
    link: Connection,
    /// Set when the connection is broken or has a call that nobody will answer.
    retired: AtomicBool,
}

impl Bus {
    /// Connects by means of the session's message bus.
    ///
    /// # Errors
    /// `Unavailable` when there is no session bus or no accessibility bus.
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
        // A manually started agent has the address in its own environment.
        let address = told.or_else(|| std::env::var(NAME).ok());
        let address = address.ok_or_else(|| zbus::Error::Address(format!("{NAME} is not known")))?;
        let session = connection::Builder::address(address.as_str())?.build().await?;
        // Programs that start from now on publish their trees even when no client existed before.
        if let Err(error) = StatusProxy::new(&session).await?.set_is_enabled(true).await {
            tracing::info!(%error, "cannot enable accessibility on the session bus; new programs may hide their elements");
        }
        let address = BusProxy::new(&session).await?.get_address().await?;
        let link = connection::Builder::address(address.as_str())?.max_queued(MAX_QUEUED).build().await?;
        // Toolkits fill their bulk answers only while a client listens to some event; this one is rare.
        if let Err(error) = RegistryProxy::new(&link).await?.register_event(RARE_EVENT).await {
            tracing::info!(%error, "cannot register for an accessibility event; programs may not answer in bulk");
        }
        Ok(Self { link, retired: AtomicBool::new(false) })
    }

    /// Whether a new connection must replace this one.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Marks the connection to be replaced by a new one.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Calls a method of an object and decodes the answer.
    pub(super) async fn call<Receive: DeserializeOwned + Type>(
        &self,
        object: &Object,
        interface: &str,
        method: &str,
        body: &(impl Serialize + DynamicType + Sync),
        timeout: Duration,
    ) -> Result<Receive, BusFault> {
        let reply = self.message(object, interface, method, body, timeout).await?;
        reply.body().deserialize::<Receive>().map_err(|error| BusFault::Refused(error.to_string()))
    }

    /// Calls a method of an object and returns the answer undecoded.
    pub(super) async fn message(
        &self,
        object: &Object,
        interface: &str,
        method: &str,
        body: &(impl Serialize + DynamicType + Sync),
        timeout: Duration,
    ) -> Result<zbus::Message, BusFault> {
        let name = Some(object.name.as_str());
        let call = self.link.call_method(name, object.path.as_str(), Some(interface), method, body);
        let answer = match tokio::time::timeout(timeout, call).await {
            Ok(answer) => answer.map_err(BusFault::from),
            Err(_) => Err(BusFault::Silent),
        };
        // The bus keeps unanswered calls as long as their connection is open, and limits their number.
        if matches!(answer, Err(BusFault::Silent | BusFault::Lost(_))) {
            self.retire();
        }
        let size = answer.as_ref().map_or(0, |message| message.body().len());
        if size > MAX_ANSWER_BYTES {
            return Err(BusFault::Refused(format!("an answer of {size} bytes")));
        }
        answer
    }

    /// Reads a property of an object.
    pub(super) async fn property<Value: TryFrom<OwnedValue>>(
        &self,
        object: &Object,
        interface: &str,
        name: &str,
        timeout: Duration,
    ) -> Result<Value, BusFault> {
        let asked = (interface, name);
        let value: OwnedValue = self.call(object, PROPERTIES, "Get", &asked, timeout).await?;
        Value::try_from(value).map_err(|_| BusFault::Refused(format!("{name} is of another type")))
    }

    /// Sets a property.
    pub(super) async fn set_property(
        &self,
        object: &Object,
        interface: &str,
        name: &str,
        value: zbus::zvariant::Value<'_>,
        timeout: Duration,
    ) -> Result<(), BusFault> {
        self.call(object, PROPERTIES, "Set", &(interface, name, value), timeout).await
    }

    /// Returns the root objects of all programs on the bus.
    pub(super) async fn programs(&self) -> Result<Vec<Object>, BusFault> {
        let registry = Object { name: REGISTRY.to_owned(), path: ROOT.to_owned() };
        let all: Vec<Reference> = self.call(&registry, ACCESSIBLE, "GetChildren", &(), BUS_TIMEOUT).await?;
        Ok(all.into_iter().filter_map(Object::of).collect())
    }

    /// Whether the bus knows the process of a bus name. In gVisor every peer of a socket appears to be the
    /// asking process itself, so all names would belong to the bus. [`Bus::reported_pid`] then asks the
    /// programs.
    pub(super) async fn knows_processes(&self) -> Result<bool, BusFault> {
        Ok(self.pid(REGISTRY).await? != self.pid(DAEMON).await?)
    }

    /// Returns the process id that a program reports.
    ///
    /// # Errors
    /// `Refused` by a program without an ATK bridge, or when the program runs neither as root nor as the browser's user.
    pub(super) async fn reported_pid(&self, root: &Object, timeout: Duration) -> Result<u32, BusFault> {
        let address: String = self.call(root, APPLICATION, "GetApplicationBusAddress", &(), timeout).await?;
        process_of(&address)
            .ok_or_else(|| BusFault::Refused(String::from("does not say which process it is")))
    }

    /// Returns the process id of a bus name.
    pub(super) async fn pid(&self, name: &str) -> Result<u32, BusFault> {
        let daemon = Object { name: DAEMON.to_owned(), path: "/org/freedesktop/DBus".to_owned() };
        self.call(&daemon, DAEMON, "GetConnectionUnixProcessID", &(name,), BUS_TIMEOUT).await
    }
}

/// Process id from the address of an ATK bridge's socket: a socket of root is named after the process
/// (at-spi2-core, `atk-adaptor/bridge.c`). Another user's is not, but the guest image names the browser's runtime
/// folder after the browser's process (`hotdesk-browser` in `packaging/image/files-full`).
fn process_of(address: &str) -> Option<u32> {
    let path = address.strip_prefix("unix:path=")?.split(',').next()?;
    if let Some(below) = path.strip_prefix(BROWSER_RUNTIME) {
        return below.split_once('/')?.0.parse().ok();
    }
    let (_, name) = path.rsplit_once('/')?;
    name.strip_prefix("at-spi2-socket-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_bridge_socket_contains_the_process_id() {
        for (address, process) in [
            ("unix:path=/run/user/0/at-spi2-socket-217", Some(217)),
            ("unix:path=/run/at-spi2-socket-7,guid=0af", Some(7)),
            ("unix:path=/tmp/at-spi2-AB12CD/socket", None),
            ("unix:path=/run/hotdesk-browser/217/at-spi2-AB12CD/socket", Some(217)),
            ("unix:path=/run/hotdesk-browser/217", None),
            ("unix:path=/run/hotdesk-browser/other/at-spi2-AB12CD/socket", None),
            ("unix:abstract=/run/at-spi2-socket-7", None),
            ("unix:path=/run/at-spi2-socket-", None),
            ("", None),
        ] {
            assert_eq!(process_of(address), process, "{address}");
        }
    }
}
