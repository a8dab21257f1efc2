//! Self-test of accessibility: the bus answers, and its registry lists programs.

use std::time::Instant;

use zbus::connection::Builder;
use zbus::zvariant::OwnedObjectPath;

use super::TestContext;
use super::outcome::{CheckResult, Measurement, failed, installed, millis, skipped, variable};

/// Variable with the address of the session's message bus.
const ADDRESS: &str = "DBUS_SESSION_BUS_ADDRESS";
/// Bus name and object path of the service that lists programs.
const REGISTRY: (&str, &str) = ("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root");

pub(super) async fn check(context: &TestContext) -> CheckResult {
    let environment = context.agent.desktop.environment(None)?;
    let Some(address) = variable(&environment, ADDRESS) else {
        return skipped(format!("no message bus: {ADDRESS} is not set"));
    };
    let began = Instant::now();
    match count_programs(&address).await {
        Ok(programs) => Ok(Measurement::new("the accessibility bus answers and lists its programs")
            .with("programs", programs as f64)
            .with("took_ms", millis(began.elapsed()))),
        Err(zbus::Error::MethodError(name, _, _)) if name.ends_with("ServiceUnknown") => {
            skipped("no accessibility bus is installed")
        }
        Err(_) if !installed("dbus-daemon") => skipped("dbus-daemon is not installed"),
        Err(error) => failed(format!("the accessibility bus does not answer: {error}")),
    }
}

/// Returns the number of listed programs.
async fn count_programs(address: &str) -> zbus::Result<usize> {
    let session = Builder::address(address)?.build().await?;
    let bus = "org.a11y.Bus";
    let answer = session.call_method(Some(bus), "/org/a11y/bus", Some(bus), "GetAddress", &()).await?;
    let address: String = answer.body().deserialize()?;
    let accessibility = Builder::address(address.as_str())?.build().await?;
    let (name, path) = REGISTRY;
    let interface = Some("org.a11y.atspi.Accessible");
    let listed = accessibility.call_method(Some(name), path, interface, "GetChildren", &()).await?;
    let programs: Vec<(String, OwnedObjectPath)> = listed.body().deserialize()?;
    Ok(programs.len())
}
