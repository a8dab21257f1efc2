//! Can programs be asked for their elements? The accessibility bus answers, and its registry lists programs.

use std::time::Instant;

use zbus::connection::Builder;
use zbus::zvariant::OwnedObjectPath;

use super::Stage;
use super::finding::{Found, Measured, failed, installed, millis, skipped, variable};

/// Where the session's message bus is.
const ADDRESS: &str = "DBUS_SESSION_BUS_ADDRESS";
/// Who lists programs, under which path.
const REGISTRY: (&str, &str) = ("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root");

pub(super) async fn check(stage: &Stage) -> Found {
    let environment = stage.agent.desktop.environment(None)?;
    let Some(address) = variable(&environment, ADDRESS) else {
        return skipped(format!("no message bus: {ADDRESS} is not known"));
    };
    let began = Instant::now();
    match ask(&address).await {
        Ok(programs) => Ok(Measured::new("the accessibility bus answers and lists its programs")
            .with("programs", programs as f64)
            .with("took_ms", millis(began.elapsed()))),
        Err(zbus::Error::MethodError(name, _, _)) if name.ends_with("ServiceUnknown") => {
            skipped("no accessibility bus is installed")
        }
        Err(_) if !installed("dbus-daemon") => skipped("dbus-daemon is not installed"),
        Err(error) => failed(format!("the accessibility bus does not answer: {error}")),
    }
}

/// How many programs are listed.
async fn ask(address: &str) -> zbus::Result<usize> {
    let session = Builder::address(address)?.build().await?;
    let bus = "org.a11y.Bus";
    let told = session.call_method(Some(bus), "/org/a11y/bus", Some(bus), "GetAddress", &()).await?;
    let address: String = told.body().deserialize()?;
    let link = Builder::address(address.as_str())?.build().await?;
    let (name, path) = REGISTRY;
    let interface = Some("org.a11y.atspi.Accessible");
    let listed = link.call_method(Some(name), path, interface, "GetChildren", &()).await?;
    let programs: Vec<(String, OwnedObjectPath)> = listed.body().deserialize()?;
    Ok(programs.len())
}
